//! YAML events into trees: keys, merges, anchors and bounds.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use serde_json::Value;

use crate::{
    position::{Position, SyntaxError},
    scalar,
    tree::{Budget, Document, Fields, Inside, Items, Node, Places},
};

/// How many tabs after a colon are forgiven; each costs one more reading of the text.
const MAX_TABS_FORGIVEN: usize = 64;

/// Reads every non-empty document of a YAML stream.
pub(crate) fn parse(text: &str) -> Result<Vec<Document>, SyntaxError> {
    refuse_control_characters(text)?;
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_TABS_FORGIVEN {
        match parse_once(&text) {
            Ok(documents) => return Ok(documents),
            Err(ReadError::TabAfterColon(offset)) => text = Cow::Owned(tabs_to_spaces_before(&text, offset)),
            Err(ReadError::Syntax(error)) => return Err(error),
        }
    }
    parse_once(&text).map_err(|error| match error {
        ReadError::Syntax(error) => error,
        ReadError::TabAfterColon(_) => fail(Position::START, "too many tabs after colons; use spaces"),
    })
}

enum ReadError {
    Syntax(SyntaxError),
    /// The parser refuses `key:<tab>value`, which YAML allows; holds the character offset of the value.
    TabAfterColon(usize),
}

fn parse_once(text: &str) -> Result<Vec<Document>, ReadError> {
    let mut builder = Builder {
        budget: Budget::new(),
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        documents: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            if error.info().starts_with("':' must be followed by") {
                return ReadError::TabAfterColon(error.marker().index());
            }
            ReadError::Syntax(fail(position(*error.marker()), error.info()))
        })?;
        builder.take(event, span).map_err(ReadError::Syntax)?;
    }
    Ok(builder.documents)
}

fn tabs_to_spaces_before(text: &str, offset: usize) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let before = characters.get_mut(..offset).unwrap_or_default();
    before.iter_mut().rev().take_while(|c| **c == '\t').for_each(|tab| *tab = ' ');
    characters.into_iter().collect()
}

/// The parser takes NUL for the end of the text, which would hide whatever follows it.
fn refuse_control_characters(text: &str) -> Result<(), SyntaxError> {
    let found = text.find(|c: char| (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || c == '\u{7f}');
    let Some(offset) = found else { return Ok(()) };
    let position = Position::at_end_of(text.get(..offset).unwrap_or_default());
    Err(SyntaxError { position, reason: "control characters are not allowed".to_owned() })
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// A mapping or list whose end has not been read yet.
enum Open {
    Fields { anchor: usize, fields: Fields, key: Key, merges: Vec<Node> },
    Items { anchor: usize, items: Items },
}

/// What a mapping waits for.
enum Key {
    /// The next key.
    Expected,
    /// The value of this key.
    Named(String, Position),
    /// The value of a `<<` key.
    Merge(Position),
}

struct Builder {
    budget: Budget,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    documents: Vec<Document>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        let at = position(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.budget.node(at)?;
                if self.expects_key() && is_merge(&text, style, tag.as_deref()) {
                    self.expect_merge_value(at);
                    return Ok(());
                }
                let value = scalar_value(&text, style, tag.as_deref(), at)?;
                self.add(anchor, Node::scalar(value, at))
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(fail(at, "an alias inside the value it stands for"));
                };
                self.budget.copy(node, at)?;
                Budget::depth(self.open.len() + node.height, at)?;
                let node = node.clone();
                self.add(0, node)
            }
            Event::MappingStart(anchor, _) => {
                let fields = Fields::new(at);
                self.enter(at, Open::Fields { anchor, fields, key: Key::Expected, merges: Vec::new() })
            }
            Event::SequenceStart(anchor, _) => self.enter(at, Open::Items { anchor, items: Items::new(at) }),
            Event::MappingEnd | Event::SequenceEnd => self.leave(),
            Event::DocumentEnd => {
                self.finish_document();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open::Fields { key: Key::Expected, .. }))
    }

    fn expect_merge_value(&mut self, at: Position) {
        if let Some(Open::Fields { key, .. }) = self.open.last_mut() {
            *key = Key::Merge(at);
        }
    }

    fn enter(&mut self, at: Position, open: Open) -> Result<(), SyntaxError> {
        self.budget.node(at)?;
        if self.expects_key() {
            return Err(fail(at, "a mapping or list cannot be a key"));
        }
        Budget::depth(self.open.len() + 1, at)?;
        self.open.push(open);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), SyntaxError> {
        let (anchor, node) = match self.open.pop() {
            Some(Open::Fields { anchor, mut fields, merges, .. }) => {
                merges.into_iter().for_each(|node| fields.merge(node));
                (anchor, fields.finish())
            }
            Some(Open::Items { anchor, items }) => (anchor, items.finish()),
            None => return Ok(()),
        };
        self.add(anchor, node)
    }

    /// Puts a finished value where it belongs: as a key, a field, an item or the root.
    fn add(&mut self, anchor: usize, node: Node) -> Result<(), SyntaxError> {
        let at = node.places.at;
        if anchor > 0 {
            self.budget.copy(&node, at)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::Items { items, .. }) => items.push(node),
            Some(Open::Fields { fields, key, merges, .. }) => match std::mem::replace(key, Key::Expected) {
                Key::Expected => {
                    let text = scalar::key_text(&node.value)
                        .ok_or_else(|| fail(at, "a key must be a text, a number or a boolean"))?;
                    *key = Key::Named(text, at);
                }
                Key::Named(text, key_at) => fields.insert(text, key_at, node)?,
                Key::Merge(key_at) => merges.extend(merge_sources(node, key_at)?),
            },
        }
        Ok(())
    }

    fn finish_document(&mut self) {
        self.anchors.clear();
        if let Some(root) = self.root.take()
            && !root.value.is_null()
        {
            self.documents.push(Document::new(root.value, root.places));
        }
    }
}

/// The mappings a `<<` key names: one, or a list of them in order of precedence.
fn merge_sources(node: Node, at: Position) -> Result<Vec<Node>, SyntaxError> {
    const REASON: &str = "a merge key (<<) takes a mapping or a list of mappings";
    let height = node.height;
    match (node.value, node.places.inside) {
        (value @ Value::Object(_), inside) => {
            let places = Places { at: node.places.at, inside };
            Ok(vec![Node {
                value,
                places,
                nodes: node.nodes,
                bytes: node.bytes,
                height: height.saturating_sub(1),
            }])
        }
        (Value::Array(values), Inside::Items(places)) => {
            // The list as a whole was paid for; its weight must be counted once, not per mapping.
            let mut weight = (node.nodes, node.bytes);
            let mut sources = Vec::new();
            for (value, places) in values.into_iter().zip(places) {
                if !value.is_object() {
                    return Err(fail(places.at, REASON));
                }
                let (nodes, bytes) = std::mem::take(&mut weight);
                sources.push(Node { value, places, nodes, bytes, height: height.saturating_sub(2) });
            }
            Ok(sources)
        }
        _ => Err(fail(at, REASON)),
    }
}

fn is_merge(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    let plain = style == ScalarStyle::Plain && tag.is_none();
    text == "<<" && (plain || core_tag(tag) == Some("merge"))
}

fn scalar_value(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: Position,
) -> Result<Value, SyntaxError> {
    let plain = || scalar::resolve(text).map_err(|_| fail(at, "infinity and not-a-number are not supported"));
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain() } else { Ok(Value::from(text)) };
    };
    let mismatch = |kind: &str| fail(at, &format!("{text:?} is not {kind}, as its tag says"));
    match core_tag(Some(tag)) {
        Some("int") => plain()?
            .as_number()
            .filter(|n| !n.is_f64())
            .cloned()
            .map(Value::Number)
            .ok_or_else(|| mismatch("an integer")),
        Some("float") => plain()?.as_number().cloned().map(Value::Number).ok_or_else(|| mismatch("a number")),
        Some("bool") => plain()?.as_bool().map(Value::Bool).ok_or_else(|| mismatch("a boolean")),
        Some("null") => plain()?.as_null().map(Value::from).ok_or_else(|| mismatch("null")),
        Some("binary") => Err(fail(at, "the tag !!binary is not supported; write base64 text without it")),
        Some(_) | None => Ok(Value::from(text)),
    }
}

/// The name of a tag of the YAML core schema (`!!int` is `int`).
fn core_tag(tag: Option<&Tag>) -> Option<&str> {
    tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str())
}

fn fail(at: Position, reason: &str) -> SyntaxError {
    SyntaxError { position: at, reason: reason.to_owned() }
}
