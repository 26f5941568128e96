//! Decompression of layers. The first bytes decide: registries and archives state wrong types at times.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Second to fourth byte of a frame that decoders skip; the first is 0x50 to 0x5f.
const ZSTD_SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];
/// The decoder keeps one window in memory.
const MAX_WINDOW: u64 = 64 * 1024 * 1024;

/// Reads what `input` has compressed with gzip or zstd, or `input` itself.
pub(crate) fn decompress<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let start = input.fill_buf()?;
    if start.starts_with(GZIP) {
        return Ok(Box::new(MultiGzDecoder::new(input)));
    }
    let is_skipped = matches!(start, [0x50..=0x5f, rest @ ..] if rest.starts_with(ZSTD_SKIPPED));
    if is_skipped || start.starts_with(ZSTD) {
        return Ok(Box::new(ZstdFrames { state: Some(FrameState::Between(input)) }));
    }
    Ok(Box::new(input))
}

/// All frames of an input, one after the other.
struct ZstdFrames<R: BufRead> {
    /// `None` after an error.
    state: Option<FrameState<R>>,
}

enum FrameState<R: BufRead> {
    Between(R),
    Within(Box<FrameDecoder>, R),
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state.take().ok_or_else(|| io::Error::other("read after an error"))? {
                FrameState::Within(mut frame, mut input) => {
                    while frame.can_collect() == 0 && !frame.is_finished() {
                        frame
                            .decode_blocks(&mut input, BlockDecodingStrategy::UptoBlocks(1))
                            .map_err(invalid_data)?;
                    }
                    let count = frame.read(buffer)?;
                    if count > 0 {
                        self.state = Some(FrameState::Within(frame, input));
                        return Ok(count);
                    }
                    self.state = Some(FrameState::Between(input));
                }
                FrameState::Between(mut input) => {
                    if input.fill_buf()?.is_empty() {
                        self.state = Some(FrameState::Between(input));
                        return Ok(0);
                    }
                    self.state = Some(next_frame(input)?);
                }
            }
        }
    }
}

fn next_frame<R: BufRead>(mut input: R) -> io::Result<FrameState<R>> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_WINDOW);
    match decoder.init(&mut input) {
        Ok(()) => {}
        Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
            io::copy(&mut (&mut input).take(length.into()), &mut io::sink())?;
            return Ok(FrameState::Between(input));
        }
        Err(error) => return Err(invalid_data(error)),
    }
    Ok(FrameState::Within(Box::new(decoder), input))
}

fn invalid_data(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(input: &[u8]) -> io::Result<Vec<u8>> {
        let mut output = Vec::new();
        decompress(input)?.read_to_end(&mut output)?;
        Ok(output)
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn all_members_and_frames_are_read() {
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"skip"].concat();
        assert_eq!(read(&[gzip(b"one "), gzip(b"two")].concat()).unwrap(), b"one two");
        assert_eq!(read(&[zstd(b"one "), skipped.clone(), zstd(b"two")].concat()).unwrap(), b"one two");
        assert_eq!(read(&[skipped, zstd(b"two")].concat()).unwrap(), b"two");
        assert_eq!(read(b"plain").unwrap(), b"plain");
        assert_eq!(read(b"").unwrap(), b"");
    }

    #[test]
    fn truncated_input_is_an_error() {
        let content = vec![b'x'; 5000];
        for whole in [gzip(&content), zstd(&content)] {
            assert!(read(&whole[..whole.len() - 3]).is_err());
        }
    }
}
