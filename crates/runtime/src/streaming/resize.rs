//! Sizes of terminals: a stream of JSON objects.

use serde::Deserialize;

use crate::launcher::TerminalSize;

/// Far more than one object.
const MAX_BYTES: usize = 4096;

#[derive(Deserialize)]
struct Size {
    #[serde(rename = "Width", default)]
    width: u16,
    #[serde(rename = "Height", default)]
    height: u16,
}

/// Objects that may be split anywhere.
#[derive(Debug, Default)]
pub(super) struct Resizes {
    pending: Vec<u8>,
}

impl Resizes {
    /// Takes bytes; returns the last complete size. What is no size is dropped.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<TerminalSize> {
        self.pending.extend_from_slice(bytes);
        let mut objects = serde_json::Deserializer::from_slice(&self.pending).into_iter::<Size>();
        let (mut size, mut is_broken) = (None, false);
        loop {
            match objects.next() {
                Some(Ok(Size { width, height })) if width > 0 && height > 0 => {
                    size = Some(TerminalSize { columns: width, rows: height });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    is_broken = !error.is_eof();
                    break;
                }
                None => break,
            }
        }
        let used = objects.byte_offset();
        self.pending.drain(..used.min(self.pending.len()));
        if is_broken || self.pending.len() > MAX_BYTES {
            self.pending = Vec::new();
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(columns: u16, rows: u16) -> Option<TerminalSize> {
        Some(TerminalSize { columns, rows })
    }

    #[test]
    fn last_complete_size_wins() {
        let mut resizes = Resizes::default();
        assert_eq!(resizes.push(br#"{"Width":80,"Height":24}"#), size(80, 24));
        assert_eq!(
            resizes.push(b"\n{\"Width\":81,\"Height\":24}\n{\"Width\":82,\"Height\":25}\n{\"Wi"),
            size(82, 25)
        );
        assert_eq!(resizes.push(br#"dth":83,"Height":25}"#), size(83, 25));
    }

    #[test]
    fn zero_and_nonsense_are_ignored() {
        let mut resizes = Resizes::default();
        assert_eq!(resizes.push(br#"{"Width":0,"Height":24}"#), None);
        assert_eq!(resizes.push(b"nonsense"), None);
        assert_eq!(resizes.push(br#"{"Width":80,"Height":24}"#), size(80, 24));
        assert_eq!(resizes.push(&[b'['; 100_000]), None);
        assert_eq!(resizes.push(br#"{"Width":80,"Height":25}"#), size(80, 25));
    }

    proptest! {
        #[test]
        fn split_objects_give_the_same_size(width in 1u16.., height in 1u16.., cut in 0usize..30) {
            let text = format!("{{\"Width\":{width},\"Height\":{height}}}\n").into_bytes();
            let (first, second) = text.split_at(cut.min(text.len()));
            let mut resizes = Resizes::default();
            let sizes = [resizes.push(first), resizes.push(second)];
            prop_assert_eq!(sizes.into_iter().flatten().last(), size(width, height));
        }
    }
}
