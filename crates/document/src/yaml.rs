//! Builds trees from YAML parser events: keys, merge keys, anchors and bounds.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use serde_json::Value;

use crate::{
    position::{Position, SyntaxError},
    scalar,
    tree::{Budget, ChildPositions, Document, ListBuilder, MappingBuilder, Node, PositionTree},
};

/// Maximum number of tabs after a colon that are tolerated; each one costs another parse of the whole text.
const MAX_TABS_AFTER_COLON: usize = 64;

/// Parses all non-empty documents of a YAML stream.
pub(crate) fn parse(text: &str) -> Result<Vec<Document>, SyntaxError> {
    reject_control_characters(text)?;
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_TABS_AFTER_COLON {
        match parse_once(&text) {
            Ok(documents) => return Ok(documents),
            Err(ReadError::TabAfterColon(offset)) => text = Cow::Owned(tabs_to_spaces_before(&text, offset)),
            Err(ReadError::Syntax(error)) => return Err(error),
        }
    }
    parse_once(&text).map_err(|error| match error {
        ReadError::Syntax(error) => error,
        ReadError::TabAfterColon(_) => {
            syntax_error(Position::START, "too many tabs after colons; use spaces")
        }
    })
}

enum ReadError {
    Syntax(SyntaxError),
    /// The parser rejects `key:<tab>value`, which YAML allows. Contains the character offset of the value.
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
            ReadError::Syntax(syntax_error(marker_position(*error.marker()), error.info()))
        })?;
        builder.handle(event, span).map_err(ReadError::Syntax)?;
    }
    Ok(builder.documents)
}

fn tabs_to_spaces_before(text: &str, offset: usize) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let before = characters.get_mut(..offset).unwrap_or_default();
    before.iter_mut().rev().take_while(|c| **c == '\t').for_each(|tab| *tab = ' ');
    characters.into_iter().collect()
}

/// The parser treats NUL as the end of the text and would silently ignore everything after it.
fn reject_control_characters(text: &str) -> Result<(), SyntaxError> {
    let found = text.find(|c: char| (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || c == '\u{7f}');
    let Some(offset) = found else { return Ok(()) };
    let position = Position::at_end_of(text.get(..offset).unwrap_or_default());
    Err(SyntaxError { position, reason: "control characters are not allowed".to_owned() })
}

fn marker_position(marker: Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// A mapping or list whose end has not been read yet.
enum OpenNode {
    Fields { anchor: usize, fields: MappingBuilder, key: KeyState, merges: Vec<Node> },
    Items { anchor: usize, items: ListBuilder },
}

/// The next element that an open mapping expects.
enum KeyState {
    Expected,
    /// The value of this key, which is at this position.
    Named(String, Position),
    /// The value of a merge key (`<<`), which is at this position.
    Merge(Position),
}

struct Builder {
    budget: Budget,
    open: Vec<OpenNode>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    documents: Vec<Document>,
}

impl Builder {
    fn handle(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        let position = marker_position(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.budget.charge_node(position)?;
                if self.expects_key() && is_merge(&text, style, tag.as_deref()) {
                    self.expect_merge_value(position);
                    return Ok(());
                }
                let value = scalar_value(&text, style, tag.as_deref(), position)?;
                self.add(anchor, Node::scalar(value, position))
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(syntax_error(
                        position,
                        "an alias must not refer to a value that contains it",
                    ));
                };
                self.budget.charge_copy(node, position)?;
                Budget::check_depth(self.open.len() + node.height, position)?;
                let node = node.clone();
                self.add(0, node)
            }
            Event::MappingStart(anchor, _) => {
                let fields = MappingBuilder::new(position);
                self.enter(
                    position,
                    OpenNode::Fields { anchor, fields, key: KeyState::Expected, merges: Vec::new() },
                )
            }
            Event::SequenceStart(anchor, _) => {
                self.enter(position, OpenNode::Items { anchor, items: ListBuilder::new(position) })
            }
            Event::MappingEnd | Event::SequenceEnd => self.leave(),
            Event::DocumentEnd => {
                self.finish_document();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(OpenNode::Fields { key: KeyState::Expected, .. }))
    }

    fn expect_merge_value(&mut self, position: Position) {
        if let Some(OpenNode::Fields { key, .. }) = self.open.last_mut() {
            *key = KeyState::Merge(position);
        }
    }

    fn enter(&mut self, position: Position, open: OpenNode) -> Result<(), SyntaxError> {
        self.budget.charge_node(position)?;
        if self.expects_key() {
            return Err(syntax_error(position, "a mapping or list cannot be a key"));
        }
        Budget::check_depth(self.open.len() + 1, position)?;
        self.open.push(open);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), SyntaxError> {
        let (anchor, node) = match self.open.pop() {
            Some(OpenNode::Fields { anchor, mut fields, merges, .. }) => {
                merges.into_iter().for_each(|node| fields.merge(node));
                (anchor, fields.finish())
            }
            Some(OpenNode::Items { anchor, items }) => (anchor, items.finish()),
            None => return Ok(()),
        };
        self.add(anchor, node)
    }

    /// Adds a finished value to its parent, as a key, a field or an item, or makes it the root.
    fn add(&mut self, anchor: usize, node: Node) -> Result<(), SyntaxError> {
        let position = node.positions.start;
        if anchor > 0 {
            self.budget.charge_copy(&node, position)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(OpenNode::Items { items, .. }) => items.push(node),
            Some(OpenNode::Fields { fields, key, merges, .. }) => {
                match std::mem::replace(key, KeyState::Expected) {
                    KeyState::Expected => {
                        let text = scalar::key_text(&node.value).ok_or_else(|| {
                            syntax_error(position, "a key must be a string, a number or a boolean")
                        })?;
                        *key = KeyState::Named(text, position);
                    }
                    KeyState::Named(text, key_position) => fields.insert(text, key_position, node)?,
                    KeyState::Merge(key_position) => merges.extend(merge_sources(node, key_position)?),
                }
            }
        }
        Ok(())
    }

    fn finish_document(&mut self) {
        self.anchors.clear();
        if let Some(root) = self.root.take()
            && !root.value.is_null()
        {
            self.documents.push(Document::new(root.value, root.positions));
        }
    }
}

/// The mappings that a merge key (`<<`) refers to, in order of precedence.
fn merge_sources(node: Node, position: Position) -> Result<Vec<Node>, SyntaxError> {
    const REASON: &str = "a merge key (<<) takes a mapping or a list of mappings";
    let height = node.height;
    match (node.value, node.positions.children) {
        (value @ Value::Object(_), children) => {
            let positions = PositionTree { start: node.positions.start, children };
            Ok(vec![Node {
                value,
                positions,
                nodes: node.nodes,
                bytes: node.bytes,
                height: height.saturating_sub(1),
            }])
        }
        (Value::Array(values), ChildPositions::Items(positions)) => {
            // The budget was charged for the whole list, so its size is attributed to the first mapping only.
            let mut size = (node.nodes, node.bytes);
            let mut sources = Vec::new();
            for (value, positions) in values.into_iter().zip(positions) {
                if !value.is_object() {
                    return Err(syntax_error(positions.start, REASON));
                }
                let (nodes, bytes) = std::mem::take(&mut size);
                sources.push(Node { value, positions, nodes, bytes, height: height.saturating_sub(2) });
            }
            Ok(sources)
        }
        _ => Err(syntax_error(position, REASON)),
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
    position: Position,
) -> Result<Value, SyntaxError> {
    let plain =
        || scalar::resolve(text).map_err(|_| syntax_error(position, "infinity and NaN are not supported"));
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain() } else { Ok(Value::from(text)) };
    };
    let mismatch =
        // Without the value, which may be part of a Secret.
        |kind: &str| syntax_error(position, &format!("the value is not {kind}, as its tag requires"));
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
        Some("binary") => Err(syntax_error(
            position,
            "the tag !!binary is not supported; remove the tag and write the base64 text as a string",
        )),
        Some(_) | None => Ok(Value::from(text)),
    }
}

/// The name of a tag of the YAML core schema (`!!int` is `int`).
fn core_tag(tag: Option<&Tag>) -> Option<&str> {
    tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str())
}

fn syntax_error(position: Position, reason: &str) -> SyntaxError {
    SyntaxError { position, reason: reason.to_owned() }
}
