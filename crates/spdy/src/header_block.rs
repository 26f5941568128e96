//! Header blocks, compressed with one zlib stream per connection and direction.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::SpdyError;
use crate::dictionary::DICTIONARY;

/// Limit of a decompressed block. Streams of runtimes have a handful of short headers.
const MAX_BLOCK_BYTES: usize = 64 * 1024;
/// Free space of the output before each step.
const CHUNK_BYTES: usize = 4096;

/// Names and values in order. Names are lower case on the wire.
pub type Headers = Vec<(String, String)>;

/// Decompresses the blocks of one direction of a connection, in order.
pub(crate) struct HeaderDecompressor(Decompress);

impl Default for HeaderDecompressor {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl HeaderDecompressor {
    pub(crate) fn decompress(&mut self, compressed: &[u8]) -> Result<Headers, SpdyError> {
        read_pairs(&self.inflate(compressed)?)
    }

    fn inflate(&mut self, mut compressed: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut all = Vec::new();
        loop {
            all.reserve(CHUNK_BYTES);
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            match self.0.decompress_vec(compressed, &mut all, FlushDecompress::Sync) {
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    let unknown = |_| SpdyError::HeaderBlock("compressed with an unknown dictionary");
                    self.0.set_dictionary(&DICTIONARY).map_err(unknown)?;
                }
                Err(_) => return Err(SpdyError::HeaderBlock("cannot be decompressed")),
            }
            let consumed = to_usize(self.0.total_in() - before_in);
            compressed = compressed.get(consumed..).unwrap_or_default();
            if all.len() > MAX_BLOCK_BYTES {
                return Err(SpdyError::HeaderBlock("too large"));
            }
            if consumed == 0 && self.0.total_out() == before_out {
                return if compressed.is_empty() {
                    Ok(all)
                } else {
                    Err(SpdyError::HeaderBlock("incomplete"))
                };
            }
        }
    }
}

/// Compresses the blocks of one direction of a connection, in order.
pub(crate) struct HeaderCompressor(Compress);

impl Default for HeaderCompressor {
    fn default() -> Self {
        let mut zlib = Compress::new(Compression::default(), true);
        // Can only fail after the first block.
        let _ = zlib.set_dictionary(&DICTIONARY);
        Self(zlib)
    }
}

impl HeaderCompressor {
    pub(crate) fn compress(&mut self, headers: &Headers) -> Result<Vec<u8>, SpdyError> {
        let mut plain = encode_length(headers.len());
        for (name, value) in headers {
            for text in [name.to_ascii_lowercase().as_str(), value] {
                plain.extend(encode_length(text.len()));
                plain.extend(text.as_bytes());
            }
        }
        let mut left = plain.as_slice();
        let mut all = Vec::new();
        loop {
            all.reserve(CHUNK_BYTES);
            let before = self.0.total_in();
            let failed = |_| SpdyError::HeaderBlock("cannot be compressed");
            self.0.compress_vec(left, &mut all, FlushCompress::Sync).map_err(failed)?;
            left = left.get(to_usize(self.0.total_in() - before)..).unwrap_or_default();
            // The flush is complete when there is space left in the output.
            if left.is_empty() && all.len() < all.capacity() {
                return Ok(all);
            }
        }
    }
}

fn encode_length(length: usize) -> Vec<u8> {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes().to_vec()
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn read_pairs(block: &[u8]) -> Result<Headers, SpdyError> {
    let mut left = block;
    let pairs = read_number(&mut left)?;
    let mut headers = Vec::new();
    for _ in 0..pairs {
        let name = read_text(&mut left)?;
        headers.push((name, read_text(&mut left)?));
    }
    if left.is_empty() { Ok(headers) } else { Err(SpdyError::HeaderBlock("trailing bytes")) }
}

fn read_number(left: &mut &[u8]) -> Result<usize, SpdyError> {
    let (number, after) = left.split_first_chunk::<4>().ok_or(SpdyError::HeaderBlock("truncated"))?;
    *left = after;
    usize::try_from(u32::from_be_bytes(*number)).map_err(|_| SpdyError::HeaderBlock("too large"))
}

fn read_text(left: &mut &[u8]) -> Result<String, SpdyError> {
    let length = read_number(left)?;
    let (text, after) = left.split_at_checked(length).ok_or(SpdyError::HeaderBlock("truncated"))?;
    *left = after;
    String::from_utf8(text.to_vec()).map_err(|_| SpdyError::HeaderBlock("not UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decompressor_restores_lower_case_headers() {
        let (mut compressor, mut decompressor) = (HeaderCompressor::default(), HeaderDecompressor::default());
        for headers in [vec![], vec![("streamType", "stdin")], vec![("streamtype", "stdout"), ("port", "80")]]
        {
            let headers: Headers =
                headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let lower: Headers =
                headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
            assert_eq!(decompressor.decompress(&compressor.compress(&headers).unwrap()).unwrap(), lower);
        }
    }

    #[test]
    fn rejects_decompression_bombs() {
        let headers = vec![("bomb".to_owned(), "x".repeat(MAX_BLOCK_BYTES + 1))];
        let compressed = HeaderCompressor::default().compress(&headers).unwrap();
        assert!(compressed.len() < 1000, "{}", compressed.len());
        assert!(matches!(
            HeaderDecompressor::default().decompress(&compressed),
            Err(SpdyError::HeaderBlock("too large"))
        ));
    }

    #[test]
    fn rejects_inconsistent_lengths() {
        for block in [&[][..], &[0, 0, 0, 1], &[0, 0, 0, 1, 0, 0, 0, 9, b'x'], &[0, 0, 0, 0, 1], &[255; 8]] {
            assert!(read_pairs(block).is_err(), "{block:?}");
        }
    }

    proptest! {
        #[test]
        fn compressed_headers_round_trip(blocks in prop::collection::vec(
            prop::collection::vec(("[a-z-]{0,20}", ".{0,200}"), 0..8), 1..6)) {
            let (mut compressor, mut decompressor) = (HeaderCompressor::default(), HeaderDecompressor::default());
            for block in blocks {
                prop_assert_eq!(decompressor.decompress(&compressor.compress(&block).unwrap()).unwrap(), block);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic_the_decompressor(bytes: Vec<u8>) {
            let _ = HeaderDecompressor::default().decompress(&bytes);
        }
    }
}
