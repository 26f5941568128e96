//! A strict JSON reader that keeps positions; strings and numbers are judged by `serde_json`.

use serde_json::{Number, Value};

use crate::{
    position::{Position, SyntaxError},
    tree::{Budget, Document, Fields, Items, Node},
};

/// Why a text was not read as JSON.
pub(crate) enum JsonError {
    /// The text is not JSON; it may still be flow YAML.
    NotJson(SyntaxError),
    /// The text is JSON that we refuse (a key twice, a bound exceeded).
    Refused(SyntaxError),
}

/// Reads one JSON value that fills the whole text.
pub(crate) fn parse(text: &str) -> Result<Document, JsonError> {
    let mut reader = Reader { text, offset: 0, position: Position::START, budget: Budget::new() };
    let node = reader.value(1)?;
    reader.skip_blanks();
    if reader.peek().is_some() {
        return Err(reader.not_json("more text after the end of the JSON value"));
    }
    Ok(Document::new(node.value, node.places))
}

struct Reader<'a> {
    text: &'a str,
    offset: usize,
    position: Position,
    budget: Budget,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        self.skip_blanks();
        let at = self.position;
        self.budget.node(at).map_err(JsonError::Refused)?;
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Node::scalar(Value::String(self.string()?), at)),
            Some(_) => {
                let literal = self.literal()?;
                Ok(Node::scalar(literal, at))
            }
            None => Err(self.not_json("the JSON text ends too early")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, JsonError> {
        let at = self.position;
        Budget::depth(depth, at).map_err(JsonError::Refused)?;
        let mut fields = Fields::new(at);
        self.bump();
        if self.accept(b'}') {
            return Ok(fields.finish());
        }
        loop {
            self.skip_blanks();
            let key_at = self.position;
            if self.peek() != Some(b'"') {
                return Err(self.not_json("expected a field name in double quotes"));
            }
            let key = self.string()?;
            if !self.accept(b':') {
                return Err(self.not_json("expected ':' after the field name"));
            }
            let node = self.value(depth + 1)?;
            fields.insert(key, key_at, node).map_err(JsonError::Refused)?;
            if self.accept(b'}') {
                return Ok(fields.finish());
            }
            if !self.accept(b',') {
                return Err(self.not_json("expected ',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node, JsonError> {
        let at = self.position;
        Budget::depth(depth, at).map_err(JsonError::Refused)?;
        let mut items = Items::new(at);
        self.bump();
        if self.accept(b']') {
            return Ok(items.finish());
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.accept(b']') {
                return Ok(items.finish());
            }
            if !self.accept(b',') {
                return Err(self.not_json("expected ',' or ']'"));
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let at = self.position;
        let start = self.offset;
        self.bump();
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.bump();
                    self.bump();
                }
                Some(_) => self.bump(),
                None => return Err(self.not_json("a string is not closed")),
            }
        }
        self.bump();
        serde_json::from_str(self.since(start)).map_err(|_| {
            JsonError::NotJson(SyntaxError { position: at, reason: "not a valid JSON string".to_owned() })
        })
    }

    fn literal(&mut self) -> Result<Value, JsonError> {
        let at = self.position;
        let start = self.offset;
        while self.peek().is_some_and(|byte| !is_blank(byte) && !matches!(byte, b',' | b':' | b']' | b'}')) {
            self.bump();
        }
        let token = self.since(start);
        let value = serde_json::from_str::<Value>(token).ok().and_then(|value| match value {
            // serde_json trades the last bit of a float for speed.
            Value::Number(number) if number.is_f64() => {
                token.parse().ok().and_then(Number::from_f64).map(Value::Number)
            }
            other => Some(other),
        });
        value.ok_or_else(|| {
            JsonError::NotJson(SyntaxError { position: at, reason: "not a JSON value".to_owned() })
        })
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.bump();
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        if found {
            self.bump();
        }
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    fn bump(&mut self) {
        let Some(byte) = self.peek() else { return };
        self.offset += 1;
        if byte == b'\n' {
            self.position = Position { line: self.position.line + 1, column: 1 };
        } else if is_last_of_character(self.peek()) {
            self.position.column += 1;
        }
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.offset).unwrap_or_default()
    }

    fn not_json(&self, reason: &str) -> JsonError {
        JsonError::NotJson(SyntaxError { position: self.position, reason: reason.to_owned() })
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether the byte before `next` ended a character: UTF-8 continuation bytes start with `10`.
fn is_last_of_character(next: Option<u8>) -> bool {
    next.is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}
