//! Warnings of podward in the journal of the machine.

use anyhow::{Result, ensure};

use crate::file;
use crate::guest::{read, sh};

/// Every warning and error of podward must be in `journal-allowed.txt`, which gives a reason for each.
pub(crate) fn has_no_unexpected_warnings() -> Result<()> {
    let log = sh("journalctl -t podward --no-pager -o cat")?;
    let allowed = read(file("journal-allowed.txt"))?;
    let allowed: Vec<&str> = allowed
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split(" # ").next().unwrap_or(line).trim())
        .collect();
    let is_warning = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let unexpected: Vec<&str> = log
        .lines()
        .filter(is_warning)
        .filter(|line| !allowed.iter().any(|pattern| matches(pattern, line)))
        .collect();
    ensure!(unexpected.is_empty(), "{} unexpected warnings:\n{}", unexpected.len(), unexpected.join("\n"));
    Ok(())
}

/// Whether the parts of the pattern, separated by `*`, occur in the line in this order.
fn matches(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    for part in pattern.split('*') {
        let Some(position) = rest.find(part) else { return false };
        rest = rest.get(position + part.len()..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn pattern_parts_match_in_order() {
        assert!(matches("a*c", "xaxxcx"));
        assert!(!matches("c*a", "xaxxcx"));
    }
}
