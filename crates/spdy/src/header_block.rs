//! Names and values of a stream, packed with what earlier blocks of the connection have said.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::SpdyError;
use crate::dictionary::DICTIONARY;

/// The largest unpacked block. The streams of the runtimes have a handful of short headers.
const MOST: usize = 64 * 1024;

/// Names and values, in their order. Names are lower case on the wire.
pub type Headers = Vec<(String, String)>;

/// Unpacks the blocks of one connection, in their order.
pub(crate) struct Unpacker(Decompress);

impl Default for Unpacker {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl Unpacker {
    pub(crate) fn unpack(&mut self, packed: &[u8]) -> Result<Headers, SpdyError> {
        read_pairs(&self.inflate(packed)?)
    }

    fn inflate(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            match self.0.decompress(packed, &mut piece, FlushDecompress::Sync) {
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    let wrong = |_| SpdyError::HeaderBlock("packed with another dictionary");
                    self.0.set_dictionary(&DICTIONARY).map_err(wrong)?;
                }
                Err(_) => return Err(SpdyError::HeaderBlock("cannot be decompressed")),
            }
            let taken = count(self.0.total_in() - before_in);
            let made = count(self.0.total_out() - before_out);
            packed = packed.get(taken..).unwrap_or_default();
            all.extend_from_slice(piece.get(..made).unwrap_or_default());
            if all.len() > MOST {
                return Err(SpdyError::HeaderBlock("too large"));
            }
            if taken == 0 && made == 0 {
                let left = if packed.is_empty() { None } else { Some("cannot be decompressed to its end") };
                return left.map_or(Ok(all), |problem| Err(SpdyError::HeaderBlock(problem)));
            }
        }
    }
}

/// Packs the blocks of one connection, in their order.
pub(crate) struct Packer(Compress);

impl Default for Packer {
    fn default() -> Self {
        let mut compress = Compress::new(Compression::default(), true);
        // Fails only after the first block.
        let _ = compress.set_dictionary(&DICTIONARY);
        Self(compress)
    }
}

impl Packer {
    pub(crate) fn pack(&mut self, headers: &Headers) -> Result<Vec<u8>, SpdyError> {
        let mut plain = length(headers.len());
        for (name, value) in headers {
            for text in [name.to_ascii_lowercase().as_str(), value] {
                plain.extend(length(text.len()));
                plain.extend(text.as_bytes());
            }
        }
        let mut left = plain.as_slice();
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let failed = |_| SpdyError::HeaderBlock("cannot be compressed");
            self.0.compress(left, &mut piece, FlushCompress::Sync).map_err(failed)?;
            let taken = count(self.0.total_in() - before_in);
            let made = count(self.0.total_out() - before_out);
            left = left.get(taken..).unwrap_or_default();
            all.extend_from_slice(piece.get(..made).unwrap_or_default());
            // A flush is complete when it leaves room.
            if left.is_empty() && made < piece.len() {
                return Ok(all);
            }
        }
    }
}

fn length(length: usize) -> Vec<u8> {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes().to_vec()
}

fn count(number: u64) -> usize {
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
    if left.is_empty() { Ok(headers) } else { Err(SpdyError::HeaderBlock("longer than its pairs")) }
}

fn read_number(left: &mut &[u8]) -> Result<usize, SpdyError> {
    let (number, after) = left.split_first_chunk::<4>().ok_or(SpdyError::HeaderBlock("cut off"))?;
    *left = after;
    usize::try_from(u32::from_be_bytes(*number)).map_err(|_| SpdyError::HeaderBlock("too large"))
}

fn read_text(left: &mut &[u8]) -> Result<String, SpdyError> {
    let length = read_number(left)?;
    let (text, after) = left.split_at_checked(length).ok_or(SpdyError::HeaderBlock("cut off"))?;
    *left = after;
    String::from_utf8(text.to_vec()).map_err(|_| SpdyError::HeaderBlock("not UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_peer_with_the_dictionary_unpacks_what_we_pack() {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        for headers in [vec![], vec![("streamType", "stdin")], vec![("streamtype", "stdout"), ("port", "80")]]
        {
            let headers: Headers =
                headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let lower: Headers =
                headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
            assert_eq!(unpacker.unpack(&packer.pack(&headers).unwrap()).unwrap(), lower);
        }
    }

    #[test]
    fn a_block_that_unpacks_to_very_much_is_refused() {
        let headers = vec![("bomb".to_owned(), "x".repeat(MOST + 1))];
        let packed = Packer::default().pack(&headers).unwrap();
        assert!(packed.len() < 1000, "{}", packed.len());
        assert!(matches!(Unpacker::default().unpack(&packed), Err(SpdyError::HeaderBlock("too large"))));
    }

    #[test]
    fn a_block_that_lies_about_its_lengths_is_refused() {
        for block in [&[][..], &[0, 0, 0, 1], &[0, 0, 0, 1, 0, 0, 0, 9, b'x'], &[0, 0, 0, 0, 1], &[255; 8]] {
            assert!(read_pairs(block).is_err(), "{block:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out_again(blocks in prop::collection::vec(
            prop::collection::vec(("[a-z-]{0,20}", ".{0,200}"), 0..8), 1..6)) {
            let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
            for block in blocks {
                prop_assert_eq!(unpacker.unpack(&packer.pack(&block).unwrap()).unwrap(), block);
            }
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes: Vec<u8>) {
            let _ = Unpacker::default().unpack(&bytes);
        }
    }
}
