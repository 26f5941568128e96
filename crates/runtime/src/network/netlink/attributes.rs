//! Decoding of answers.

const HEADER_BYTES: usize = 4;
/// The bits of the kind; the others are flags.
const KIND_MASK: u16 = 0x3fff;

/// The attributes of a message or of another attribute, with their kinds. Stops at the first malformed one.
#[derive(Clone, Debug)]
pub(in crate::network) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(in crate::network) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([length_low, length_high, kind_low, kind_high], _) = self.rest.split_first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([*length_low, *length_high]));
        let kind = u16::from_ne_bytes([*kind_low, *kind_high]) & KIND_MASK;
        let value = self.rest.get(HEADER_BYTES..length)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// The first attribute of this kind.
pub(in crate::network) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    Attributes::new(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stops_at_malformed_attribute() {
        let attribute = |length: u16| [&length.to_ne_bytes()[..], &[1, 0, 9, 9, 9, 9]].concat();
        assert_eq!(Attributes::new(&attribute(8)).count(), 1);
        for length in [0, 3, 9, u16::MAX] {
            assert_eq!(Attributes::new(&attribute(length)).count(), 0, "{length}");
        }
    }

    proptest! {
        #[test]
        fn ends_for_any_bytes(bytes: Vec<u8>) {
            prop_assert!(Attributes::new(&bytes).count() <= bytes.len());
        }
    }
}
