//! The span of another program that a trace comes from.

/// A parent far away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteParent {
    pub(crate) trace: Vec<u8>,
    pub(crate) span: Vec<u8>,
    /// Whether its trace is taken.
    pub(crate) is_taken: bool,
}

impl RemoteParent {
    /// Reads a `traceparent` header of the W3C: `00-<trace>-<span>-<flags>`. A later version may say more behind it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version = hex(parts.next()?, 1)?;
        let (trace, span) = (hex(parts.next()?, 16)?, hex(parts.next()?, 8)?);
        let flags = hex(parts.next()?, 1)?;
        let is_first = version == [0];
        let names_nothing = |id: &[u8]| id.iter().all(|byte| *byte == 0);
        if version == [0xff] || (is_first && parts.next().is_some()) {
            return None;
        }
        if names_nothing(&trace) || names_nothing(&span) {
            return None;
        }
        let is_taken = flags.first().is_some_and(|flags| flags & 1 == 1);
        Some(Self { trace, span, is_taken })
    }
}

/// So many bytes in small hexadecimal digits.
fn hex(text: &str, length: usize) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        })
        .collect();
    let digits = digits.filter(|digits| digits.len() == length * 2)?;
    Some(digits.chunks(2).map(|pair| pair.iter().fold(0, |sum, digit| sum * 16 + digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn headers_are_read_by_their_rules() {
        let good = RemoteParent::read(&format!("00-{TRACE}-b7ad6b7169203331-01")).unwrap();
        assert_eq!((good.trace[0], good.trace[15], good.span[0]), (0x0a, 0x9c, 0xb7));
        assert!(good.is_taken);
        let left = RemoteParent::read(&format!("00-{TRACE}-b7ad6b7169203331-00")).unwrap();
        assert!(!left.is_taken);
        assert!(RemoteParent::read(&format!("01-{TRACE}-b7ad6b7169203331-01-more")).is_some());
        for bad in [
            "".to_owned(),
            "00-1-2-01".to_owned(),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
        ] {
            assert_eq!(RemoteParent::read(&bad), None, "{bad}");
        }
    }
}
