//! Just enough of Rust's syntax to find the paths a source file names.

/// A path as written, with `use` groups written out: `a::{b, c::d}` gives `a::b` and `a::c::d`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// Line it starts on, from 1.
    pub(crate) line: usize,
    /// Its words.
    pub(crate) words: Vec<String>,
}

impl NamedPath {
    /// Whether the path goes through the words of `prefix`, from the start or after other words.
    pub(crate) fn goes_through(&self, prefix: &str) -> bool {
        let prefix: Vec<&str> = prefix.split("::").collect();
        self.words.windows(prefix.len()).any(|window| window == prefix)
    }
}

/// All paths outside of comments and strings; a single word is a path too.
pub(crate) fn paths(text: &str) -> Vec<NamedPath> {
    let tokens = tokens(&blank(text));
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if matches!(tokens[at].1, Token::Word(_)) {
            at = read_path(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    DoubleColon,
    Other(char),
}

/// Reads the path that starts at `at` with `prefix` before it; returns where it ends.
fn read_path(
    tokens: &[(usize, Token)],
    start: usize,
    prefix: &[String],
    found: &mut Vec<NamedPath>,
) -> usize {
    let mut words = prefix.to_vec();
    let mut at = start;
    while let Some((_, Token::Word(word))) = tokens.get(at) {
        words.push(word.clone());
        at += 1;
        match (tokens.get(at), tokens.get(at + 1)) {
            (Some((_, Token::DoubleColon)), Some((_, Token::Word(_)))) => at += 1,
            (Some((_, Token::DoubleColon)), Some((_, Token::Other('{')))) => {
                return read_group(tokens, at + 2, &words, found);
            }
            _ => break,
        }
    }
    found.push(NamedPath { line: tokens[start].0, words });
    at
}

fn read_group(
    tokens: &[(usize, Token)],
    start: usize,
    prefix: &[String],
    found: &mut Vec<NamedPath>,
) -> usize {
    let mut at = start;
    while let Some((_, token)) = tokens.get(at) {
        match token {
            Token::Word(word) if word == "as" => at += 2,
            Token::Word(_) => at = read_path(tokens, at, prefix, found),
            Token::Other('}') => return at + 1,
            Token::Other(_) | Token::DoubleColon => at += 1,
        }
    }
    at
}

fn tokens(code: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let (token, length) = if word > 0 {
                (Some(Token::Word(rest[..word].to_owned())), word)
            } else if rest.starts_with("::") {
                (Some(Token::DoubleColon), 2)
            } else {
                ((!first.is_whitespace()).then_some(Token::Other(first)), first.len_utf8())
            };
            tokens.extend(token.map(|token| (index + 1, token)));
            rest = &rest[length..];
        }
    }
    tokens
}

/// The text with comments, strings and character literals blanked; line ends stay.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let hidden = if after_word && rest.starts_with(['r', 'b']) { None } else { hidden_length(rest) };
        let length = hidden.unwrap_or(first.len_utf8());
        if hidden.is_some() {
            out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            out.push(first);
        }
        after_word = hidden.is_none() && is_word(first);
        rest = &rest[length..];
    }
    out
}

/// How long the comment, string or character is that `text` starts with.
fn hidden_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |end| end + 2));
    }
    let body = text.strip_prefix('b').unwrap_or(text);
    let before = text.len() - body.len();
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let content = &raw[hashes + 1..];
            let length = content.find(&end).map_or(content.len(), |at| at + end.len());
            return Some(before + 1 + hashes + 1 + length);
        }
        return None;
    }
    if let Some(content) = body.strip_prefix('"') {
        return Some(before + 1 + quoted_length(content, '"'));
    }
    let content = body.strip_prefix('\'')?;
    // `'a'` and `'\n'` are characters, `'a` is a lifetime.
    let mut characters = content.chars();
    let is_character = match characters.next()? {
        '\\' => true,
        _ => characters.next() == Some('\''),
    };
    is_character.then(|| before + 1 + quoted_length(content, '\''))
}

/// Length up to and with the closing quote.
fn quoted_length(content: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in content.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    content.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn shown(text: &str) -> Vec<String> {
    paths(text).into_iter().map(|path| format!("{}:{}", path.line, path.words.join("::"))).collect()
}

#[test]
fn groups_are_written_out() {
    let text = "use std::{\n    fs::{self, File as F},\n    net::IpAddr,\n};\nfn f() { crate::a::b(1) }\n";
    let expected = [
        "1:use",
        "2:std::fs::self",
        "2:std::fs::File",
        "3:std::net::IpAddr",
        "5:fn",
        "5:f",
        "5:crate::a::b",
        "5:1",
    ];
    assert_eq!(shown(text), expected);
}

#[test]
fn comments_and_strings_are_not_code() {
    let text =
        "// std::fs\n/* tokio */ let a: &'static str = \"x\\\"::y\"; r#\"z\"q\"#; 'c'; '\\''; b\"w\" str";
    assert_eq!(shown(text), ["2:let", "2:a", "2:static", "2:str", "2:str"]);
}
