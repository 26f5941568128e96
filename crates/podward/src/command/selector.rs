//! Label selectors: `app=web,tier!=db,debug,!old,env in (a,b)`.

use std::collections::BTreeMap;

use anyhow::bail;

/// The requirements that the labels of an object must meet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    /// An empty selector matches everything.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut requirements = Vec::new();
        for part in split_requirements(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            requirements.push(requirement(part)?);
        }
        Ok(Self { requirements })
    }

    pub(super) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let value = |key: &str| labels.and_then(|labels| labels.get(key));
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => value(key).is_some(),
            Requirement::Missing(key) => value(key).is_none(),
        })
    }
}

/// Splits at commas outside of parentheses.
fn split_requirements(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let mut parts = vec![String::new()];
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts
}

fn requirement(text: &str) -> anyhow::Result<Requirement> {
    for (operator, is_in) in [(" notin ", false), (" in ", true)] {
        if let Some((key, list)) = text.split_once(operator) {
            let inner = list.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let Some(inner) = inner else {
                bail!("-l {text:?}: put the values in parentheses: {key} in (a,b)")
            };
            let values = inner.split(',').map(|value| value.trim().to_owned()).collect();
            let key = parse_key(key)?;
            return Ok(if is_in { Requirement::In(key, values) } else { Requirement::NotIn(key, values) });
        }
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(parse_key(key)?, vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(parse_key(key)?, vec![value.trim().to_owned()]));
    }
    match text.strip_prefix('!') {
        Some(key) => Ok(Requirement::Missing(parse_key(key)?)),
        None => Ok(Requirement::Exists(parse_key(text)?)),
    }
}

fn parse_key(text: &str) -> anyhow::Result<String> {
    let key = text.trim();
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if key.is_empty() || !key.chars().all(is_allowed) {
        bail!("-l: {key:?} is not a label; use label=value, label!=value, label or !label");
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_labels_as_kubectl() {
        let labels =
            BTreeMap::from([("app", "web"), ("tier", "front")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        let matches = |text: &str| Selector::parse(text).unwrap().matches(Some(&labels));
        for good in [
            "",
            "app=web",
            "app==web",
            "app=web,tier=front",
            "app",
            "!old",
            "app!=db",
            "x!=y",
            "app in (a, web)",
            "app notin (a,b),tier",
        ] {
            assert!(matches(good), "{good}");
        }
        for bad in
            ["app=db", "app=web,tier=back", "old", "!app", "app!=web", "app in (a,b)", "app notin (web)"]
        {
            assert!(!matches(bad), "{bad}");
        }
        for wrong in ["=web", "app in a", "a b"] {
            assert!(Selector::parse(wrong).is_err(), "{wrong}");
        }
    }
}
