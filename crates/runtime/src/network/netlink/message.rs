//! Encoding of requests.

/// Set in the kind of attributes that contain attributes.
const NESTED: u16 = 0x8000;
/// Kind, flags, sequence number and sender of a message, behind its length.
const HEADER_BYTES: usize = 16;
const FLAGS_OFFSET: usize = 6;
const SEQUENCE_OFFSET: usize = 8;

/// One request. Numbers are in the byte order of the machine, unless the name of the method ends in `_be`.
#[derive(Clone, Debug, Default)]
pub(in crate::network) struct Message {
    bytes: Vec<u8>,
    /// An attribute has more bytes than its length can say.
    is_too_long: bool,
}

impl Message {
    pub(in crate::network) fn new(kind: u16, flags: i32) -> Self {
        let mut message = Self::default();
        let flags = u16::try_from(flags).unwrap_or_default();
        message.raw(&[0; 4]).raw(&kind.to_ne_bytes()).raw(&flags.to_ne_bytes()).raw(&[0; 8]);
        message
    }

    /// Bytes without a header of an attribute: the fixed part of the message.
    pub(in crate::network) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(in crate::network) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.attribute(kind, |message| {
            message.raw(value);
        })
    }

    pub(in crate::network) fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.bytes(kind, &[value])
    }

    pub(in crate::network) fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(in crate::network) fn u32_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// A string with its final zero byte.
    pub(in crate::network) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, |message| {
            message.raw(value.as_bytes()).raw(&[0]);
        })
    }

    pub(in crate::network) fn nested(&mut self, kind: u16, content: impl FnOnce(&mut Self)) -> &mut Self {
        self.attribute(kind | NESTED, content)
    }

    /// Adds flags to those of the header.
    pub(in crate::network) fn add_flags(&mut self, flags: u16) {
        let current = self.bytes.get(FLAGS_OFFSET..).and_then(|bytes| bytes.first_chunk());
        let flags = current.map_or(0, |current| u16::from_ne_bytes(*current)) | flags;
        self.overwrite(FLAGS_OFFSET, &flags.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, content: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.raw(&[0; 2]).raw(&kind.to_ne_bytes());
        content(self);
        match u16::try_from(self.bytes.len() - start) {
            Ok(length) => self.overwrite(start, &length.to_ne_bytes()),
            Err(_) => self.is_too_long = true,
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn overwrite(&mut self, start: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(start..start + value.len()) {
            place.copy_from_slice(value);
        }
    }

    /// The complete message; `None` if a part of it is too long for the protocol.
    pub(in crate::network) fn encode(mut self, sequence: u32) -> Option<Vec<u8>> {
        debug_assert!(self.bytes.len() >= HEADER_BYTES, "without a header");
        let length = u32::try_from(self.bytes.len()).ok().filter(|_| !self.is_too_long)?;
        self.overwrite(0, &length.to_ne_bytes());
        self.overwrite(SEQUENCE_OFFSET, &sequence.to_ne_bytes());
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Attributes;
    use super::*;

    #[test]
    fn encodes_header_and_padded_attributes() {
        let mut message = Message::new(16, 5);
        message.raw(&[7; 4]).text(3, "lo").nested(18, |info| {
            info.bytes(1, &[0x12, 0x34]);
        });
        let bytes = message.encode(9).unwrap();
        let expected: Vec<u8> = [
            &40u32.to_ne_bytes()[..],
            &16u16.to_ne_bytes(),
            &5u16.to_ne_bytes(),
            &9u32.to_ne_bytes(),
            &[0; 4],
            &[7; 4],
            &7u16.to_ne_bytes(),
            &3u16.to_ne_bytes(),
            b"lo\0\0",
            &12u16.to_ne_bytes(),
            &(18 | NESTED).to_ne_bytes(),
            &6u16.to_ne_bytes(),
            &1u16.to_ne_bytes(),
            &[0x12, 0x34],
        ]
        .concat();
        // Two bytes pad the last attribute; the length of the attribute around it counts them.
        assert_eq!(bytes.len(), 40);
        assert_eq!(bytes[..38], expected);
    }

    #[test]
    fn refuses_attributes_that_are_too_long() {
        let mut message = Message::new(16, 0);
        message.bytes(1, &[0; 65532]);
        assert_eq!(message.encode(1), None);
    }

    proptest! {
        #[test]
        fn decodes_what_was_encoded(attributes: Vec<(u16, Vec<u8>)>) {
            let mut message = Message::new(1, 0);
            for (kind, value) in &attributes {
                message.bytes(kind & 0x3fff, value);
            }
            let bytes = message.encode(1).unwrap();
            let decoded: Vec<(u16, Vec<u8>)> = Attributes::new(&bytes[HEADER_BYTES..]).map(|(kind, value)| (kind, value.to_vec())).collect();
            let expected: Vec<(u16, Vec<u8>)> = attributes.into_iter().map(|(kind, value)| (kind & 0x3fff, value)).collect();
            prop_assert_eq!(decoded, expected);
        }
    }
}
