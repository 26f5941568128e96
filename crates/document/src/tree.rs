//! The parsed tree: a JSON value side by side with the places of its fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    path::{FieldPath, Segment},
    position::{Position, SyntaxError},
};

/// How deep mappings and lists may nest.
pub const MAX_DEPTH: usize = 64;
/// How many values a text may hold, aliases expanded.
pub const MAX_NODES: usize = 1_000_000;
/// How many bytes of text the aliases of one text may repeat.
pub const MAX_ALIAS_BYTES: usize = 4 << 20;

/// One document of a text: a JSON value that knows where each of its fields stood.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    value: Value,
    places: Places,
}

impl Document {
    pub(crate) fn new(value: Value, places: Places) -> Self {
        Self { value, places }
    }

    /// The document as a JSON value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The document as a JSON value, without the positions.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The value of a field.
    pub fn get(&self, path: &FieldPath) -> Option<&Value> {
        path.segments().iter().try_fold(&self.value, |here, segment| match segment {
            Segment::Key(key) => here.as_object()?.get(key),
            Segment::Index(index) => here.as_array()?.get(*index),
        })
    }

    /// Removes a field of a mapping, and says whether it was there; its place is still known afterwards.
    pub fn remove(&mut self, path: &FieldPath) -> bool {
        let Some((Segment::Key(last), parents)) = path.segments().split_last() else { return false };
        let parent = parents.iter().try_fold(&mut self.value, |here, segment| match segment {
            Segment::Key(key) => here.as_object_mut()?.get_mut(key),
            Segment::Index(index) => here.as_array_mut()?.get_mut(*index),
        });
        parent.and_then(Value::as_object_mut).is_some_and(|fields| fields.remove(last).is_some())
    }

    /// Removes all fields whose value is null, for readers to whom null means "not set".
    pub fn drop_nulls(&mut self) {
        drop_nulls(&mut self.value);
    }

    /// Where a field stands: the place of its key or, in a list, of its item.
    ///
    /// When the document does not have the field, the place of its nearest existing ancestor.
    pub fn position(&self, path: &FieldPath) -> Option<Position> {
        let mut here = &self.places;
        for segment in path.segments() {
            let next = match (segment, &here.inside) {
                (Segment::Key(key), Inside::Fields(fields)) => fields.get(key),
                (Segment::Index(index), Inside::Items(items)) => items.get(*index),
                (
                    Segment::Key(_) | Segment::Index(_),
                    Inside::Scalar | Inside::Fields(_) | Inside::Items(_),
                ) => None,
            };
            let Some(next) = next else { break };
            here = next;
        }
        Some(here.at)
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Where a value and everything inside it stood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Places {
    pub(crate) at: Position,
    pub(crate) inside: Inside,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Inside {
    Scalar,
    Fields(BTreeMap<String, Places>),
    Items(Vec<Places>),
}

/// A finished subtree and what it weighs when an alias repeats it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) places: Places,
    pub(crate) nodes: usize,
    pub(crate) bytes: usize,
    pub(crate) height: usize,
}

impl Node {
    pub(crate) fn scalar(value: Value, at: Position) -> Self {
        let bytes = value.as_str().map_or(0, str::len);
        Self { value, places: Places { at, inside: Inside::Scalar }, nodes: 1, bytes, height: 0 }
    }
}

/// A mapping under construction.
#[derive(Debug)]
pub(crate) struct Fields {
    at: Position,
    values: Map<String, Value>,
    places: BTreeMap<String, Places>,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl Fields {
    pub(crate) fn new(at: Position) -> Self {
        Self { at, values: Map::new(), places: BTreeMap::new(), nodes: 1, bytes: 0, height: 0 }
    }

    /// Adds a field; a key given twice is an error.
    pub(crate) fn insert(&mut self, key: String, at: Position, node: Node) -> Result<(), SyntaxError> {
        if let Some(first) = self.places.get(&key) {
            let reason = format!("field {key:?} is already set on line {}", first.at.line);
            return Err(SyntaxError { position: at, reason });
        }
        self.add(key, at, node);
        Ok(())
    }

    /// Adds the fields of a merged mapping (`<<`) that are not set yet.
    pub(crate) fn merge(&mut self, node: Node) {
        let (Value::Object(values), Inside::Fields(mut places)) = (node.value, node.places.inside) else {
            return;
        };
        for (key, value) in values {
            let Some(places) = places.remove(&key) else { continue };
            if !self.places.contains_key(&key) {
                self.places.insert(key.clone(), places);
                self.values.insert(key, value);
            }
        }
        self.nodes += node.nodes;
        self.bytes += node.bytes;
        self.height = self.height.max(node.height);
    }

    pub(crate) fn finish(self) -> Node {
        Node {
            value: Value::Object(self.values),
            places: Places { at: self.at, inside: Inside::Fields(self.places) },
            nodes: self.nodes,
            bytes: self.bytes,
            height: self.height + 1,
        }
    }

    fn add(&mut self, key: String, at: Position, node: Node) {
        self.nodes += node.nodes;
        self.bytes += node.bytes + key.len();
        self.height = self.height.max(node.height);
        self.places.insert(key.clone(), Places { at, inside: node.places.inside });
        self.values.insert(key, node.value);
    }
}

/// A list under construction.
#[derive(Debug)]
pub(crate) struct Items {
    at: Position,
    values: Vec<Value>,
    places: Vec<Places>,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl Items {
    pub(crate) fn new(at: Position) -> Self {
        Self { at, values: Vec::new(), places: Vec::new(), nodes: 1, bytes: 0, height: 0 }
    }

    pub(crate) fn push(&mut self, node: Node) {
        self.nodes += node.nodes;
        self.bytes += node.bytes;
        self.height = self.height.max(node.height);
        self.places.push(node.places);
        self.values.push(node.value);
    }

    pub(crate) fn finish(self) -> Node {
        Node {
            value: Value::Array(self.values),
            places: Places { at: self.at, inside: Inside::Items(self.places) },
            nodes: self.nodes,
            bytes: self.bytes,
            height: self.height + 1,
        }
    }
}

/// What is left of the bounds while one text is read.
#[derive(Debug)]
pub(crate) struct Budget {
    nodes: usize,
    alias_bytes: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { nodes: MAX_NODES, alias_bytes: MAX_ALIAS_BYTES }
    }

    /// Pays for one more value.
    pub(crate) fn node(&mut self, at: Position) -> Result<(), SyntaxError> {
        self.nodes = self.nodes.checked_sub(1).ok_or_else(|| too_many_nodes(at))?;
        Ok(())
    }

    /// Pays for a copy of a subtree.
    pub(crate) fn copy(&mut self, node: &Node, at: Position) -> Result<(), SyntaxError> {
        self.nodes = self.nodes.checked_sub(node.nodes).ok_or_else(|| too_many_nodes(at))?;
        self.alias_bytes = self.alias_bytes.checked_sub(node.bytes).ok_or_else(|| SyntaxError {
            position: at,
            reason: format!("aliases repeat more than {MAX_ALIAS_BYTES} bytes"),
        })?;
        Ok(())
    }

    /// Refuses a mapping or list that would nest too deep.
    pub(crate) fn depth(depth: usize, at: Position) -> Result<(), SyntaxError> {
        if depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(SyntaxError { position: at, reason: format!("nested more than {MAX_DEPTH} levels deep") })
    }
}

fn too_many_nodes(at: Position) -> SyntaxError {
    SyntaxError { position: at, reason: format!("more than {MAX_NODES} values, aliases expanded") }
}
