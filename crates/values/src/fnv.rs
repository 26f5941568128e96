//! FNV-1a hashes, as Go's `hash/fnv` computes them.
//!
//! Not for untrusted keys of a hash table and not for secrets: collisions are easy to construct.

use std::fmt;

macro_rules! fnv1a {
    ($(#[$doc:meta])* $name:ident, $number:ty, $offset_basis:expr, $prime:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[must_use]
        pub struct $name($number);

        impl $name {
            pub const fn new() -> Self {
                Self($offset_basis)
            }

            /// The hash of one slice.
            #[must_use]
            pub fn hash(bytes: &[u8]) -> $number {
                let mut hash = Self::new();
                hash.write(bytes);
                hash.finish()
            }

            pub fn write(&mut self, bytes: &[u8]) {
                for byte in bytes {
                    self.0 = (self.0 ^ <$number>::from(*byte)).wrapping_mul($prime);
                }
            }

            /// Writes the length before the bytes, so that `"ab", "c"` and `"a", "bc"` have different hashes.
            pub fn write_with_length(&mut self, bytes: &[u8]) {
                self.write(&(bytes.len() as u64).to_le_bytes());
                self.write(bytes);
            }

            #[must_use]
            pub const fn finish(&self) -> $number {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Write for $name {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.write(text.as_bytes());
                Ok(())
            }
        }
    };
}

fnv1a!(
    /// 32 bits: upstream's container hash and checkpoint checksums.
    Fnv32a,
    u32,
    0x811c_9dc5,
    0x0100_0193
);
fnv1a!(
    /// 64 bits: checksums of our own files, content digests and stable offsets.
    Fnv64a,
    u64,
    0xcbf2_9ce4_8422_2325,
    0x0000_0100_0000_01b3
);
fnv1a!(
    /// 128 bits: the UID of a static pod.
    Fnv128a,
    u128,
    0x6c62_272e_07bb_0142_62b8_2175_6295_c58d,
    (1 << 88) + 0x13b
);

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_the_published_test_vectors() {
        for (text, hash32, hash64, hash128) in [
            ("", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d),
            ("a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964),
            ("foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8, 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18),
        ] {
            assert_eq!(Fnv32a::hash(text.as_bytes()), hash32, "{text}");
            assert_eq!(Fnv64a::hash(text.as_bytes()), hash64, "{text}");
            assert_eq!(Fnv128a::hash(text.as_bytes()), hash128, "{text}");
        }
    }

    #[test]
    fn lengths_separate_fields() {
        let hash = |fields: [&str; 2]| {
            let mut hash = Fnv64a::new();
            fields.iter().for_each(|field| hash.write_with_length(field.as_bytes()));
            hash.finish()
        };
        assert_ne!(hash(["ab", "c"]), hash(["a", "bc"]));
    }

    proptest! {
        #[test]
        fn pieces_hash_like_the_whole(first in ".{0,20}", second in ".{0,20}") {
            let mut hash = Fnv128a::new();
            write!(hash, "{first}{second}").unwrap();
            prop_assert_eq!(hash.finish(), Fnv128a::hash([first, second].concat().as_bytes()));
        }
    }
}
