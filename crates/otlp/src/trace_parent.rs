//! The W3C `traceparent` header.

use std::fmt::{self, Display};

/// A parent span in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace_id: Vec<u8>,
    pub(crate) span_id: Vec<u8>,
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    /// Parses `00-<trace>-<span>-<flags>`. Later versions may append further fields.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version = hex(parts.next()?, 1)?;
        let (trace_id, span_id) = (hex(parts.next()?, 16)?, hex(parts.next()?, 8)?);
        let flags = hex(parts.next()?, 1)?;
        let is_version_0 = version == [0];
        let is_zero = |id: &[u8]| id.iter().all(|byte| *byte == 0);
        if version == [0xff] || (is_version_0 && parts.next().is_some()) {
            return None;
        }
        if is_zero(&trace_id) || is_zero(&span_id) {
            return None;
        }
        let is_sampled = flags.first().is_some_and(|flags| flags & 1 == 1);
        Some(Self { trace_id, span_id, is_sampled })
    }
}

impl Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        for byte in &self.trace_id {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("-")?;
        for byte in &self.span_id {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(if self.is_sampled { "-01" } else { "-00" })
    }
}

/// Decodes exactly `length` bytes of lower-case hexadecimal digits.
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
    fn parses_valid_headers_and_rejects_invalid_ones() {
        let valid = TraceParent::parse(&format!("00-{TRACE}-b7ad6b7169203331-01")).unwrap();
        assert_eq!((valid.trace_id[0], valid.trace_id[15], valid.span_id[0]), (0x0a, 0x9c, 0xb7));
        assert!(valid.is_sampled);
        assert_eq!(valid.to_string(), format!("00-{TRACE}-b7ad6b7169203331-01"));
        let unsampled = TraceParent::parse(&format!("00-{TRACE}-b7ad6b7169203331-00")).unwrap();
        assert!(!unsampled.is_sampled);
        assert!(TraceParent::parse(&format!("01-{TRACE}-b7ad6b7169203331-01-more")).is_some());
        for invalid in [
            "".to_owned(),
            "00-1-2-01".to_owned(),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
        ] {
            assert_eq!(TraceParent::parse(&invalid), None, "{invalid}");
        }
    }
}
