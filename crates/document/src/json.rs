//! A strict JSON parser that records positions; `serde_json` parses the strings and numbers.

use serde_json::{Number, Value};

use crate::{
    position::{Position, SyntaxError},
    tree::{Budget, Document, ListBuilder, MappingBuilder, Node},
};

/// Why a text was not accepted as JSON.
pub(crate) enum JsonError {
    /// The text is not JSON; it may still be flow YAML.
    NotJson(SyntaxError),
    /// The text is JSON, but has a duplicate key or exceeds a bound.
    Rejected(SyntaxError),
}

/// Parses a text that consists of exactly one JSON value.
pub(crate) fn parse(text: &str) -> Result<Document, JsonError> {
    let mut parser = Parser { text, offset: 0, position: Position::START, budget: Budget::new() };
    let node = parser.value(1)?;
    parser.skip_whitespace();
    if parser.peek().is_some() {
        return Err(parser.not_json("unexpected text after the JSON value"));
    }
    Ok(Document::new(node.value, node.positions))
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    position: Position,
    budget: Budget,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        self.skip_whitespace();
        let position = self.position;
        self.budget.charge_node(position).map_err(JsonError::Rejected)?;
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Node::scalar(Value::String(self.string()?), position)),
            Some(_) => {
                let literal = self.literal()?;
                Ok(Node::scalar(literal, position))
            }
            None => Err(self.not_json("unexpected end of the JSON text")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, JsonError> {
        let position = self.position;
        Budget::check_depth(depth, position).map_err(JsonError::Rejected)?;
        let mut fields = MappingBuilder::new(position);
        self.bump();
        if self.accept(b'}') {
            return Ok(fields.finish());
        }
        loop {
            self.skip_whitespace();
            let key_position = self.position;
            if self.peek() != Some(b'"') {
                return Err(self.not_json("expected a field name in double quotes"));
            }
            let key = self.string()?;
            if !self.accept(b':') {
                return Err(self.not_json("expected ':' after the field name"));
            }
            let node = self.value(depth + 1)?;
            fields.insert(key, key_position, node).map_err(JsonError::Rejected)?;
            if self.accept(b'}') {
                return Ok(fields.finish());
            }
            if !self.accept(b',') {
                return Err(self.not_json("expected ',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node, JsonError> {
        let position = self.position;
        Budget::check_depth(depth, position).map_err(JsonError::Rejected)?;
        let mut items = ListBuilder::new(position);
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
        let position = self.position;
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
                None => return Err(self.not_json("unterminated string")),
            }
        }
        self.bump();
        serde_json::from_str(self.since(start)).map_err(|_| {
            JsonError::NotJson(SyntaxError { position, reason: "not a valid JSON string".to_owned() })
        })
    }

    fn literal(&mut self) -> Result<Value, JsonError> {
        let position = self.position;
        let start = self.offset;
        while self
            .peek()
            .is_some_and(|byte| !is_whitespace(byte) && !matches!(byte, b',' | b':' | b']' | b'}'))
        {
            self.bump();
        }
        let token = self.since(start);
        let value = serde_json::from_str::<Value>(token).ok().and_then(|value| match value {
            // The float parser of serde_json is fast but may be wrong in the last bit.
            Value::Number(number) if number.is_f64() => {
                token.parse().ok().and_then(Number::from_f64).map(Value::Number)
            }
            other => Some(other),
        });
        value.ok_or_else(|| {
            JsonError::NotJson(SyntaxError { position, reason: "not a JSON value".to_owned() })
        })
    }

    fn skip_whitespace(&mut self) {
        while self.peek().is_some_and(is_whitespace) {
            self.bump();
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.skip_whitespace();
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

fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether the byte before `next` is the last one of its character. UTF-8 continuation bytes start with `10`.
fn is_last_of_character(next: Option<u8>) -> bool {
    next.is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}
