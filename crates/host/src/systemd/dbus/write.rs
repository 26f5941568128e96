//! Writes messages, always in little endian, which every D-Bus peer accepts.

/// A method call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) destination: &'a str,
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) member: &'a str,
    /// Types of the body; empty without a body.
    pub(crate) signature: &'a str,
    pub(crate) body: &'a [u8],
}

const METHOD_CALL: u8 = 1;

impl Call<'_> {
    /// Encodes the call. The reply refers to `serial`.
    pub(crate) fn message(&self, serial: u32) -> Vec<u8> {
        let mut fields = Writer::default();
        for (code, kind, text) in [
            (1, "o", self.path),
            (2, "s", self.interface),
            (3, "s", self.member),
            (6, "s", self.destination),
            (8, "g", self.signature),
        ] {
            if code == 8 && text.is_empty() {
                continue;
            }
            fields.align(8);
            fields.0.push(code);
            fields.signature(kind);
            if kind == "g" { fields.signature(text) } else { fields.text(text) }
        }
        let mut message = Writer(vec![b'l', METHOD_CALL, 0, 1]);
        message.number(length(self.body));
        message.number(serial);
        message.number(length(&fields.0));
        message.0.extend_from_slice(&fields.0);
        message.align(8);
        message.0.extend_from_slice(self.body);
        message.0
    }
}

/// Messages are far below 4 GiB.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Writes aligned values in sequence. A body begins at a multiple of 8, so alignment within it is relative to its start.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// A body of strings.
    pub(crate) fn texts(texts: &[&str]) -> Self {
        let mut body = Self::default();
        texts.iter().for_each(|text| body.text(text));
        body
    }

    pub(crate) fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub(crate) fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn long_number(&mut self, value: u64) {
        self.align(8);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    pub(crate) fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    /// Writes an array of elements with alignment `element`. Its length excludes the padding before the first element.
    pub(crate) fn array(&mut self, element: usize, write: impl FnOnce(&mut Self)) {
        self.align(4);
        let length_position = self.0.len();
        self.number(0);
        self.align(element);
        let start = self.0.len();
        write(self);
        let size = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        if let Some(length) = self.0.get_mut(length_position..length_position + 4) {
            length.copy_from_slice(&size.to_le_bytes());
        }
    }
}
