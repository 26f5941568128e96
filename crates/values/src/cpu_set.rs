//! Sets of CPUs in the list format of Linux (`0-3,8`), which configuration, state files, cgroups and the CRI use.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Linux supports at most 8192 CPUs. The limit bounds the memory that a hostile list can take.
const MAX_CPUS: u32 = 1 << 16;

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(BTreeSet<u32>);

/// The texts are those of Go, because they appear in upstream's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCpuSet {
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    Syntax(String),
    #[error("strconv.Atoi: parsing {0:?}: value out of range")]
    OutOfRange(String),
    #[error("invalid range {text:?} ({first} > {last})")]
    Descending { text: String, first: i64, last: i64 },
}

impl CpuSet {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// In ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.0.iter().copied()
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<u32> for CpuSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, cpus: T) {
        self.0.extend(cpus);
    }
}

/// Ascending, with ranges from two CPUs on.
impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(formatter, "{separator}{first}")?;
            if last > first {
                write!(formatter, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CpuSet({self})")
    }
}

impl FromStr for CpuSet {
    type Err = InvalidCpuSet;

    fn from_str(text: &str) -> Result<Self, InvalidCpuSet> {
        let mut set = Self::new();
        if text.is_empty() {
            return Ok(set);
        }
        for range in text.split(',') {
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if first > last {
                return Err(InvalidCpuSet::Descending { text: range.to_owned(), first, last });
            }
            let cpu = |number: i64| u32::try_from(number).ok().filter(|cpu| *cpu < MAX_CPUS);
            let (Some(first), Some(last)) = (cpu(first), cpu(last)) else {
                return Err(InvalidCpuSet::OutOfRange(range.to_owned()));
            };
            set.extend(first..=last);
        }
        Ok(set)
    }
}

fn number(text: &str) -> Result<i64, InvalidCpuSet> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidCpuSet::Syntax(text.to_owned()));
    }
    text.parse().map_err(|_| InvalidCpuSet::OutOfRange(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_and_prints_lists() {
        for (text, printed) in [
            ("", ""),
            ("0", "0"),
            ("0,1", "0-1"),
            ("5,0-2,1", "0-2,5"),
            ("1-1", "1"),
            ("0,2,4-6", "0,2,4-6"),
            ("+3", "3"),
        ] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn refuses_malformed_lists_with_the_texts_of_go() {
        for (text, message) in [
            ("a", "strconv.Atoi: parsing \"a\": invalid syntax"),
            ("0-", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("-1", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("1,", "strconv.Atoi: parsing \"\": invalid syntax"),
            (" 1", "strconv.Atoi: parsing \" 1\": invalid syntax"),
            ("3-1", "invalid range \"3-1\" (3 > 1)"),
            ("1--2", "invalid range \"1--2\" (1 > -2)"),
            ("99999999999999999999", "strconv.Atoi: parsing \"99999999999999999999\": value out of range"),
            ("0-4294967295", "strconv.Atoi: parsing \"0-4294967295\": value out of range"),
        ] {
            assert_eq!(text.parse::<CpuSet>().unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_is_the_identity(cpus in prop::collection::btree_set(0_u32..300, 0..60)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }
    }
}
