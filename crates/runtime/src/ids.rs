//! Ids of sandboxes, containers and executed processes: 64 random hexadecimal digits, which other programs recognise in the names
//! of cgroups.

use rustix::rand::{GetRandomFlags, getrandom};

const BYTES: usize = 32;

/// A new id.
///
/// # Errors
/// If the kernel has no random numbers yet, early in the boot.
pub(crate) fn new_id() -> rustix::io::Result<String> {
    let mut bytes = [0_u8; BYTES];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += getrandom(rest, GetRandomFlags::empty())?;
    }
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).flatten().collect()
}

/// How an id or its beginning matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match<T> {
    None,
    One(T),
    Several,
}

/// Finds the id that equals `prefix`, or the only one that begins with it. An empty prefix matches nothing.
pub(crate) fn find_by_prefix<'a, T>(
    objects: &'a std::collections::BTreeMap<String, T>,
    prefix: &str,
) -> Match<&'a T> {
    if prefix.is_empty() {
        return Match::None;
    }
    let mut matching = objects.range(prefix.to_owned()..).take_while(|(id, _)| id.starts_with(prefix));
    match (matching.next(), matching.next()) {
        (None, _) => Match::None,
        (Some((id, object)), _) if id == prefix => Match::One(object),
        (Some((_, object)), None) => Match::One(object),
        (Some(_), Some(_)) => Match::Several,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn new_ids_are_64_hexadecimal_digits_and_differ() {
        let (first, second) = (new_id().unwrap(), new_id().unwrap());
        assert_eq!(first.len(), 64);
        assert!(first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        assert_ne!(first, second);
    }

    #[test]
    fn unique_prefix_finds_the_object_and_an_ambiguous_one_does_not() {
        let objects: BTreeMap<String, u8> =
            [("aa".to_owned(), 1), ("ab".to_owned(), 2), ("abc".to_owned(), 3)].into();
        assert_eq!(find_by_prefix(&objects, "aa"), Match::One(&1));
        assert_eq!(find_by_prefix(&objects, "abc"), Match::One(&3));
        assert_eq!(find_by_prefix(&objects, "ab"), Match::One(&2));
        assert_eq!(find_by_prefix(&objects, "a"), Match::Several);
        assert_eq!(find_by_prefix(&objects, "b"), Match::None);
        assert_eq!(find_by_prefix(&objects, ""), Match::None);
    }
}
