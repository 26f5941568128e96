//! Parser for env files (`fileKeyRef`), which contain lines such as `NAME='value'`.

/// As upstream, longer lines are rejected.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The value of a variable; empty when the file does not set it. Parsing stops after the variable.
///
/// Values are enclosed in single quotes, may span lines and have no escapes. Comments and blank lines are allowed between
/// variables, and a comment after a value. Whitespace after `=` makes the value empty.
///
/// # Errors
/// The first syntax error before the end of the variable, with its line.
pub fn value_in_env_file<'a>(content: &'a [u8], key: &str) -> Result<Vec<u8>, String> {
    let mut lines = Lines { rest: content, number: 0 };
    let syntax_error = |number: usize, why: &str| {
        Err(format!("invalid environment variable format at line {number}: {why}"))
    };
    while let Some(line) = lines.next()? {
        let line = trim_indent(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else {
            return syntax_error(lines.number, "missing '='");
        };
        let (name, value): (&'a [u8], &'a [u8]) =
            (line.get(..equals).unwrap_or_default(), line.get(equals + 1..).unwrap_or_default());
        if name.iter().all(|byte| is_blank(*byte)) {
            return syntax_error(lines.number, "empty variable name");
        }
        if name.last().is_some_and(|byte| is_blank(*byte)) {
            return syntax_error(lines.number, "whitespace before '=' is not allowed");
        }
        if value.first().is_some_and(|byte| is_blank(*byte)) {
            if name == key.as_bytes() {
                return Ok(Vec::new());
            }
            continue;
        }
        let Some(quoted) = value.strip_prefix(b"'") else {
            return syntax_error(lines.number, "value must be enclosed in single quotes");
        };
        let value = lines.quoted(quoted)?;
        if name == key.as_bytes() {
            return Ok(value);
        }
    }
    Ok(Vec::new())
}

struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<Option<&'a [u8]>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let line = self.rest.get(..end.unwrap_or(self.rest.len())).unwrap_or_default();
        self.rest = end.and_then(|end| self.rest.get(end + 1..)).unwrap_or_default();
        if line.len() >= MAX_LINE_BYTES {
            return Err(format!("line {} is too long", self.number));
        }
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The text up to the closing quote, across lines.
    fn quoted(&mut self, mut rest: &'a [u8]) -> Result<Vec<u8>, String> {
        let start = self.number;
        let mut value = Vec::new();
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\'') {
                value.extend_from_slice(rest.get(..end).unwrap_or_default());
                let trailing = trim_indent(rest.get(end + 1..).unwrap_or_default());
                if !trailing.is_empty() && !trailing.starts_with(b"#") {
                    return Err(format!(
                        "invalid environment variable format at line {}: unexpected content after closing quote",
                        self.number
                    ));
                }
                return Ok(value);
            }
            value.extend_from_slice(rest);
            value.push(b'\n');
            rest = self.next()?.ok_or_else(|| {
                format!("invalid environment variable format starting at line {start}: unclosed single quote")
            })?;
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_indent(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    line.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(content: &str, key: &str) -> Result<String, String> {
        value_in_env_file(content.as_bytes(), key).map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn parses_values_like_upstream() {
        for (content, expected) in [
            ("K='v'", "v"),
            ("\n  \n# K='no'\n\t K='v' # why\nK='later'", "v"),
            ("A='x'\r\nK='v'\r\n", "v"),
            ("K='one\n  two # three\n'", "one\n  two # three\n"),
            ("K='$(A) \"\\n'", "$(A) \"\\n"),
            ("K= 'v'\nK='w'", ""),
            ("K=''", ""),
            ("A='v'", ""),
            ("KK='v'", ""),
            ("", ""),
            ("A= unquoted\nK='v'", "v"),
            ("K='v'\nbroken", "v"),
        ] {
            assert_eq!(value(content, "K").as_deref(), Ok(expected), "{content:?}");
        }
    }

    #[test]
    fn rejects_invalid_lines_with_line_number() {
        for (content, expected) in [
            ("A='x'\nbroken", "at line 2: missing '='"),
            ("='x'", "at line 1: empty variable name"),
            (" ='x'", "at line 1: empty variable name"),
            ("K ='v'", "at line 1: whitespace before '=' is not allowed"),
            ("K=v", "at line 1: value must be enclosed in single quotes"),
            ("K=\"v\"", "at line 1: value must be enclosed in single quotes"),
            ("K='a'b'", "at line 1: unexpected content after closing quote"),
            ("\nK='a\nb", "starting at line 2: unclosed single quote"),
        ] {
            let problem = value(content, "K").unwrap_err();
            assert_eq!(problem, format!("invalid environment variable format {expected}"), "{content:?}");
        }
        assert!(value(&format!("A='{}'\nK='v'", "x".repeat(70_000)), "K").is_err());
    }
}
