//! Parser for a page of metrics.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Names and values, in order.
pub(crate) type Labels = Vec<(String, String)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Family {
    /// `counter`, `gauge`, ...
    pub(crate) kind: String,
    pub(crate) series: BTreeMap<Labels, Value>,
}

/// A value, and whether it has a timestamp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) number: f64,
    pub(crate) timed: bool,
}

/// Families by name. The parts of a histogram count as separate families.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Family>> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').with_context(|| format!("no type: {line}"))?;
            kinds.insert(name.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') && !line.trim().is_empty() {
            let (name, labels, value) = series(line).with_context(|| format!("no series: {line}"))?;
            families.entry(name).or_default().series.insert(labels, value);
        }
    }
    for (name, family) in &mut families {
        // OpenMetrics names a counter without its suffix.
        let short = name.strip_suffix("_total").unwrap_or(name);
        family.kind = kinds.get(name).or_else(|| kinds.get(short)).cloned().unwrap_or_default();
    }
    Ok(families)
}

fn series(line: &str) -> Option<(String, Labels, Value)> {
    let (name, labels, rest) = match line.find('{') {
        Some(start) => {
            let end = line.rfind('}')?;
            (line.get(..start)?, labels(line.get(start + 1..end)?), line.get(end + 1..)?)
        }
        None => {
            let (name, rest) = line.split_once(' ')?;
            (name, Vec::new(), rest)
        }
    };
    let mut parts = rest.split_whitespace();
    let number = parts.next()?.parse().ok()?;
    Some((name.to_owned(), labels, Value { number, timed: parts.next().is_some() }))
}

fn labels(text: &str) -> Labels {
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = after.char_indices();
        let mut end = after.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
                '"' => {
                    end = at + 1;
                    break;
                }
                _ => value.push(letter),
            }
        }
        labels.push((name.trim_start_matches(',').to_owned(), value));
        rest = after.get(end..).unwrap_or_default();
    }
    labels.sort();
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_labels_values_and_timestamps() {
        let text = "# TYPE a_total counter\na_total{x=\"1,\\\"2\",y=\"\"} 3 1700\n# TYPE b gauge\nb 1e+06\n";
        let families = parse(text).unwrap();
        let a = families.get("a_total").unwrap();
        assert_eq!(a.kind, "counter");
        let labels = vec![("x".to_owned(), "1,\"2".to_owned()), ("y".to_owned(), String::new())];
        assert_eq!(a.series.get(&labels), Some(&Value { number: 3.0, timed: true }));
        let b = families.get("b").unwrap();
        assert_eq!(b.series.get(&Vec::new()), Some(&Value { number: 1e6, timed: false }));
    }
}
