//! The 128-bit FNV-1a hash.

use std::fmt;

const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = (1 << 88) + 0x13b;

/// A running hash of the text written to it.
#[derive(Debug, Clone)]
pub(super) struct Fnv128a(u128);

impl Fnv128a {
    /// The hash of nothing.
    pub(super) fn new() -> Self {
        Self(OFFSET_BASIS)
    }

    /// The hash so far, in 32 hexadecimal digits.
    pub(super) fn to_hex(&self) -> String {
        format!("{:032x}", self.0)
    }
}

impl fmt::Write for Fnv128a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn hashes_known_texts() {
        let check = |text: &str, expected: &str| {
            let mut hash = Fnv128a::new();
            hash.write_str(text).unwrap();
            assert_eq!(hash.to_hex(), expected);
        };
        check("", "6c62272e07bb014262b821756295c58d");
        check("a", "d228cb696f1a8caf78912b704e4a8964");
        check("foobar", "343e1662793c64bf6f0d3597ba446f18");
    }
}
