//! Intended differences, each with its reason.

use std::path::Path;

use anyhow::{Context, Result, ensure};

#[derive(Debug)]
struct Entry {
    line: String,
    pod: String,
    field: String,
    used: bool,
}

/// The entries of `allowed.txt`: `POD FIELD # REASON`; `*` matches any text.
#[derive(Debug)]
pub struct Allowed {
    entries: Vec<Entry>,
}

impl Allowed {
    /// Reads the file; rejects an entry without a reason.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut entries = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let (what, reason) = line.split_once(" # ").with_context(|| format!("no reason: {line}"))?;
            ensure!(!reason.trim().is_empty(), "no reason: {line}");
            let (pod, field) = what.trim().split_once(' ').with_context(|| format!("no field: {line}"))?;
            entries.push(Entry {
                line: line.to_owned(),
                pod: pod.to_owned(),
                field: field.trim().to_owned(),
                used: false,
            });
        }
        Ok(Self { entries })
    }

    /// Whether an entry covers the difference.
    pub fn covers(&mut self, pod: &str, field: &str) -> bool {
        let found =
            self.entries.iter_mut().find(|entry| matches(&entry.pod, pod) && matches(&entry.field, field));
        found.map(|entry| entry.used = true).is_some()
    }

    /// Entries that matched no difference.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| !entry.used).map(|entry| entry.line.as_str())
    }
}

/// Whether the text matches a pattern with `*`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            match rest.find(middle) {
                Some(at) => rest = rest.get(at + str::len(middle)..).unwrap_or_default(),
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |end| rest.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        assert!(matches("*", "anything"));
        assert!(matches("a*c", "abc") && matches("a*c*e", "abcde"));
        assert!(!matches("a*c", "abcd") && !matches("abc", "abcd"));
    }

    #[test]
    fn entry_requires_a_reason() {
        assert!(Allowed::parse("web status.phase").is_err());
        let mut allowed = Allowed::parse("web status.* # we are faster").unwrap();
        assert!(allowed.covers("web", "status.phase") && !allowed.covers("db", "status.phase"));
    }
}
