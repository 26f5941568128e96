//! CRC-32 with the polynomial of IEEE 802.3, as Go's `hash/crc32` computes it.

/// The polynomial 0x04c11db7 with its bits reversed.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The checksum of a slice. Computed bit by bit: the checked files are small, and a table would be larger than the code.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |remainder: u32| match remainder & 1 {
        0 => remainder >> 1,
        _ => (remainder >> 1) ^ POLYNOMIAL,
    };
    let byte = |remainder: u32, byte: &u8| (0..8).fold(remainder ^ u32::from(*byte), |rest, _| step(rest));
    !bytes.iter().fold(u32::MAX, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_equals_the_published_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
