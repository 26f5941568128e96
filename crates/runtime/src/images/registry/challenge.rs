//! The challenges of `WWW-Authenticate` headers.

use std::collections::BTreeMap;

/// More than any server sends; the header comes from outside.
const MAX_PARAMETERS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    Bearer(BearerChallenge),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    pub realm: String,
    pub service: String,
    pub scope: String,
    pub error: String,
}

/// The challenge to answer: Bearer before Basic.
pub fn choose_challenge<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = false;
    for header in headers {
        for (scheme, mut parameters) in split(header) {
            if scheme.eq_ignore_ascii_case("bearer") {
                let mut take = |name: &str| parameters.remove(name).unwrap_or_default();
                let (realm, service) = (take("realm"), take("service"));
                return Some(Challenge::Bearer(BearerChallenge {
                    realm,
                    service,
                    scope: take("scope"),
                    error: take("error"),
                }));
            }
            basic |= scheme.eq_ignore_ascii_case("basic");
        }
    }
    basic.then_some(Challenge::Basic)
}

type Parameters = BTreeMap<String, String>;

/// Schemes with their parameters: `Bearer realm="a",service="b", Basic realm="c"`.
fn split(header: &str) -> Vec<(String, Parameters)> {
    let mut challenges: Vec<(String, Parameters)> = Vec::new();
    let mut rest = header;
    for _ in 0..MAX_PARAMETERS {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
        let Some((word, after)) = rest.split_at_checked(end).filter(|(word, _)| !word.is_empty()) else {
            break;
        };
        if let Some(value) = after.strip_prefix('=') {
            let (value, after) = read_value(value);
            if let Some((_, parameters)) = challenges.last_mut() {
                parameters.entry(word.to_ascii_lowercase()).or_insert(value);
            }
            rest = after;
        } else {
            challenges.push((word.to_owned(), Parameters::new()));
            rest = after;
        }
    }
    challenges
}

/// A quoted string or a token, and what follows it.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_is_preferred_over_basic() {
        let header = r#"Basic realm="b", Bearer realm="https://a/token?x=1,2",service="s \"1\"",scope="repository:a/b:pull""#;
        let Some(Challenge::Bearer(bearer)) = choose_challenge([header].into_iter()) else {
            panic!("no bearer")
        };
        assert_eq!(bearer.realm, "https://a/token?x=1,2");
        assert_eq!(bearer.service, "s \"1\"");
        assert_eq!(bearer.scope, "repository:a/b:pull");
        let separate = ["Basic realm=x", "bearer realm=y"];
        assert!(matches!(choose_challenge(separate.into_iter()), Some(Challenge::Bearer(_))));
    }

    #[test]
    fn unknown_and_broken_challenges_are_ignored() {
        assert_eq!(choose_challenge(["Negotiate", "Digest realm=\"x\""].into_iter()), None);
        assert_eq!(choose_challenge(["=,,=\"", "Basic"].into_iter()), Some(Challenge::Basic));
        assert_eq!(choose_challenge([""].into_iter()), None);
    }
}
