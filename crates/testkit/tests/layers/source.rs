//! Minimal Rust parsing: finds the paths that a source file uses.

/// A path with `use` groups expanded: `a::{b, c::d}` gives `a::b` and `a::c::d`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// First line, counted from 1.
    pub(crate) line: usize,
    pub(crate) words: Vec<String>,
}

impl NamedPath {
    /// Whether the path contains the segments of `prefix` in sequence.
    pub(crate) fn goes_through(&self, prefix: &str) -> bool {
        let prefix: Vec<&str> = prefix.split("::").collect();
        self.words.windows(prefix.len()).any(|window| window == prefix)
    }
}

/// All paths outside comments and strings, including single identifiers.
pub(crate) fn paths(text: &str) -> Vec<NamedPath> {
    let tokens = tokens(&code(text));
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

/// Reads the path that starts at `at` with `prefix` before it; returns its end.
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

/// The text with comments, strings and character literals blanked; keeps line breaks.
pub(crate) fn code(text: &str) -> String {
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

/// Line and content of each string literal, escapes as written.
pub(crate) fn string_literals(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut rest, mut line, mut after_word) = (text, 1, false);
    while let Some(first) = rest.chars().next() {
        let hidden = if after_word && rest.starts_with(['r', 'b']) { None } else { hidden_length(rest) };
        let length = hidden.unwrap_or(first.len_utf8());
        let literal = rest[..length].trim_start_matches(['b', 'r', '#']).trim_end_matches('#');
        if hidden.is_some() && literal.starts_with('"') {
            found.push((line, literal.trim_start_matches('"').trim_end_matches('"')));
        }
        after_word = hidden.is_none() && is_word(first);
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The text with inline test modules and other items below `#[cfg(test)]` blanked; keeps line breaks.
pub(crate) fn without_tests(text: &str) -> String {
    const TEST_ONLY: &str = "#[cfg(test)]";
    if !text.contains(TEST_ONLY) {
        return text.to_owned();
    }
    let code = code(text);
    let mut lines: Vec<&str> = text.lines().collect();
    let mut end = 0;
    for (start, line) in code.lines().enumerate() {
        if start >= end && line.contains(TEST_ONLY) {
            end = item_end(&code, start) + 1;
            lines.iter_mut().take(end).skip(start).for_each(|line| *line = "");
        }
    }
    lines.join("\n")
}

/// The last line of the item that starts at `line`.
fn item_end(code: &str, line: usize) -> usize {
    let mut depth = 0;
    for (index, content) in code.lines().enumerate().skip(line) {
        for letter in content.chars() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if (letter == '}' || letter == ';') && depth == 0 {
                return index;
            }
        }
    }
    code.lines().count()
}

/// Length of the comment, string or character literal at the start of `text`.
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

/// Length including the closing quote.
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
