//! Parses YAML and JSON into JSON values that keep the position of every field.
//!
//! Input: the bytes of a manifest or a configuration file. Output: zero or more [`Document`]s. A document is a
//! [`serde_json::Value`] with the line and column of every key and item. It decodes into typed structs, and the errors
//! name the field and the line.
//!
//! Scalars have the same meaning as in `kubectl` and the upstream kubelet (YAML 1.1: `yes` is a boolean, `0644` is
//! octal, dates stay strings). The crate is stricter than upstream in two cases: a duplicate key is an error, and
//! explicit keys always take precedence over merged (`<<`) ones.
//!
//! Invariants: parsing never panics; nesting, nodes and alias expansion are bounded ([`MAX_DEPTH`], [`MAX_NODES`],
//! [`MAX_ALIAS_BYTES`]); memory is proportional to the input and those bounds.
//!
//! Not here: reading files, limiting the input size, comments, and writing YAML.

mod decode;
mod json;
mod path;
mod position;
mod scalar;
#[cfg(test)]
mod test_path;
mod tree;
mod yaml;

pub use path::{FieldPath, Segment};
pub use position::{FieldError, Position, SyntaxError};
pub use tree::{Document, MAX_ALIAS_BYTES, MAX_DEPTH, MAX_NODES, drop_nulls};

/// Parses a text into its documents; empty documents are skipped.
///
/// A text that starts with `{` or `[` after whitespace is parsed as JSON. If that fails (it may be flow YAML), and for
/// every other text, it is parsed as a stream of YAML documents.
pub fn parse(text: &[u8]) -> Result<Vec<Document>, SyntaxError> {
    let text = std::str::from_utf8(text).map_err(|error| not_utf8(text, error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml::parse(text);
    }
    let json_error = match json::parse(text) {
        Ok(document) => return Ok(vec![document]),
        Err(json::JsonError::Rejected(error)) => return Err(error),
        Err(json::JsonError::NotJson(error)) => error,
    };
    yaml::parse(text).map_err(|error| if looks_like_json(text) { json_error } else { error })
}

/// Whether a malformed text was probably meant as JSON: its first token is quoted.
fn looks_like_json(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '[')).starts_with('"')
}

fn not_utf8(text: &[u8], error: std::str::Utf8Error) -> SyntaxError {
    let valid = text.get(..error.valid_up_to()).unwrap_or_default();
    let valid = String::from_utf8_lossy(valid);
    SyntaxError { position: Position::at_end_of(&valid), reason: "the text is not valid UTF-8".to_owned() }
}

#[cfg(test)]
mod tests;
