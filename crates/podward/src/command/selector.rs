//! Label selectors: `app=web,tier!=db,debug,!old,env in (a,b)`.

use std::collections::BTreeMap;

use anyhow::bail;

/// What labels must be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    terms: Vec<Term>,
}

#[derive(Debug, PartialEq, Eq)]
enum Term {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    /// Reads a selector; an empty one takes everything.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut terms = Vec::new();
        for part in parts(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            terms.push(term(part)?);
        }
        Ok(Self { terms })
    }

    /// Whether labels are as wanted.
    pub(super) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let value = |key: &str| labels.and_then(|labels| labels.get(key));
        self.terms.iter().all(|term| match term {
            Term::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
            Term::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(value)),
            Term::Exists(key) => value(key).is_some(),
            Term::Missing(key) => value(key).is_none(),
        })
    }
}

/// The terms between commas that stand in no brackets.
fn parts(text: &str) -> Vec<String> {
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

fn term(text: &str) -> anyhow::Result<Term> {
    for (word, is_in) in [(" notin ", false), (" in ", true)] {
        if let Some((key, list)) = text.split_once(word) {
            let inner = list.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let Some(inner) = inner else { bail!("-l {text:?}: values stand in brackets: {key} in (a,b)") };
            let values = inner.split(',').map(|value| value.trim().to_owned()).collect();
            let key = key_of(key)?;
            return Ok(if is_in { Term::In(key, values) } else { Term::NotIn(key, values) });
        }
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Term::NotIn(key_of(key)?, vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Term::In(key_of(key)?, vec![value.trim().to_owned()]));
    }
    match text.strip_prefix('!') {
        Some(key) => Ok(Term::Missing(key_of(key)?)),
        None => Ok(Term::Exists(key_of(text)?)),
    }
}

fn key_of(text: &str) -> anyhow::Result<String> {
    let key = text.trim();
    let safe = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if key.is_empty() || !key.chars().all(safe) {
        bail!("-l: {key:?} is no label; write label=value, label!=value, label or !label");
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_selected_as_kubectl_does() {
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
