//! Parses printed field paths, so that tests can write them as text.

use std::str::FromStr;

use crate::path::{FieldPath, Segment, is_plain_key};

impl FromStr for FieldPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = |reason: &str| format!("parse field path {text:?}: {reason}");
        let mut path = Self::root();
        let mut rest = text;
        while !rest.is_empty() {
            let (segment, after) = if let Some(inner) = rest.strip_prefix('[') {
                bracketed(inner).map_err(fail)?
            } else {
                let key = match rest.strip_prefix('.') {
                    Some(key) if !path.is_root() => key,
                    None if path.is_root() => rest,
                    Some(_) | None => {
                        return Err(fail("expected one dot before a key, and none before the first key"));
                    }
                };
                let end = key.find(['.', '[']).unwrap_or(key.len());
                let (key, after) = key.split_at(end);
                if !is_plain_key(key) {
                    return Err(fail(
                        "a key with characters other than letters, digits, - and _ is written as [\"key\"]",
                    ));
                }
                (Segment::Key(key.to_owned()), after)
            };
            path = match segment {
                Segment::Key(key) => path.key(key),
                Segment::Index(index) => path.index(index),
            };
            rest = after;
        }
        Ok(path)
    }
}

/// Parses `0]…` or `"key"]…` and returns the segment and the text after the bracket.
fn bracketed(inner: &str) -> Result<(Segment, &str), &'static str> {
    const UNCLOSED: &str = "missing closing bracket";
    if inner.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let key = keys.next().and_then(Result::ok).ok_or("a quoted key must be a JSON string")?;
        let after =
            inner.get(keys.byte_offset()..).and_then(|after| after.strip_prefix(']')).ok_or(UNCLOSED)?;
        return Ok((Segment::Key(key), after));
    }
    let (index, after) = inner.split_once(']').ok_or(UNCLOSED)?;
    let index = index.parse().map_err(|_| "an index must be a number")?;
    Ok((Segment::Index(index), after))
}
