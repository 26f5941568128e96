//! Content digests: `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";
const HEX_LENGTH: usize = 64;

/// The SHA-256 digest of a blob. The text is safe to use as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported digest {0:?}: only sha256 with 64 hexadecimal digits is accepted")]
pub struct InvalidDigest(String);

impl Digest {
    /// The 64 hexadecimal digits, without the name of the algorithm.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn of(content: &[u8]) -> Self {
        Self::from_hash(Sha256::new_with_prefix(content))
    }

    /// The digest of 64 hexadecimal digits, for example of a file name.
    pub fn from_hex(hex: &str) -> Result<Self, InvalidDigest> {
        format!("{PREFIX}{hex}").parse()
    }

    /// The chain id of a layer on top of `parent`.
    pub(crate) fn chained(parent: Option<&Self>, diff_id: &Self) -> Self {
        match parent {
            None => diff_id.clone(),
            Some(parent) => Self::of(format!("{parent} {diff_id}").as_bytes()),
        }
    }

    fn from_hash(hash: Sha256) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + HEX_LENGTH);
        text.push_str(PREFIX);
        for byte in hash.finalize() {
            for nibble in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(nibble), 16));
            }
        }
        Self(text)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let is_valid = text.strip_prefix(PREFIX).is_some_and(|hex| {
            hex.len() == HEX_LENGTH && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDigest(text.chars().take(100).collect()))
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts and hashes the bytes that pass through it.
#[derive(Debug)]
pub(crate) struct Hashing<T> {
    inner: T,
    hash: Sha256,
    count: u64,
}

impl<T> Hashing<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, hash: Sha256::new(), count: 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn into_digest(self) -> Digest {
        Digest::from_hash(self.hash)
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.count += bytes.len() as u64;
    }
}

impl<T: io::Read> io::Read for Hashing<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.add(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.add(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_text_equals_the_published_value() {
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").as_str(), expected);
    }

    #[test]
    fn rejects_digests_that_are_no_safe_file_name() {
        let hex = "a".repeat(64);
        assert!(format!("sha256:{hex}").parse::<Digest>().is_ok());
        for text in [
            format!("sha256:{}", "A".repeat(64)),
            format!("sha512:{}", "a".repeat(128)),
            format!("sha256:{}/{}", "a".repeat(32), "b".repeat(31)),
            "sha256:..".to_owned(),
            hex,
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn chain_id_of_the_second_layer_hashes_both_ids() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let first = Digest::chained(None, &a);
        assert_eq!(first, a);
        assert_eq!(Digest::chained(Some(&first), &b), Digest::of(format!("{a} {b}").as_bytes()));
    }
}
