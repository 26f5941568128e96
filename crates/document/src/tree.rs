//! The parsed tree: a JSON value and, next to it, the positions of its fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    path::{FieldPath, Segment},
    position::{Position, SyntaxError},
};

/// Maximum nesting depth of mappings and lists.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of values in one text, after aliases are expanded.
pub const MAX_NODES: usize = 1_000_000;
/// Maximum number of bytes that the aliases of one text may expand to.
pub const MAX_ALIAS_BYTES: usize = 4 << 20;

/// One document of a text: a JSON value together with the position of each of its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    value: Value,
    positions: PositionTree,
}

impl Document {
    pub(crate) fn new(value: Value, positions: PositionTree) -> Self {
        Self { value, positions }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn into_value(self) -> Value {
        self.value
    }

    pub fn get(&self, path: &FieldPath) -> Option<&Value> {
        path.segments().iter().try_fold(&self.value, |current, segment| match segment {
            Segment::Key(key) => current.as_object()?.get(key),
            Segment::Index(index) => current.as_array()?.get(*index),
        })
    }

    /// Removes a field of a mapping and returns whether it existed. Its position remains available afterwards.
    pub fn remove(&mut self, path: &FieldPath) -> bool {
        let Some((Segment::Key(last), parents)) = path.segments().split_last() else { return false };
        let parent = parents.iter().try_fold(&mut self.value, |current, segment| match segment {
            Segment::Key(key) => current.as_object_mut()?.get_mut(key),
            Segment::Index(index) => current.as_array_mut()?.get_mut(*index),
        });
        parent.and_then(Value::as_object_mut).is_some_and(|fields| fields.remove(last).is_some())
    }

    /// Removes all fields whose value is null, for decoders that treat null as "not set".
    pub fn drop_nulls(&mut self) {
        drop_nulls(&mut self.value);
    }

    /// The position of a field's key or, in a list, of the item.
    ///
    /// If the document does not have the field, this is the position of its nearest existing ancestor.
    pub fn position(&self, path: &FieldPath) -> Option<Position> {
        let mut current = &self.positions;
        for segment in path.segments() {
            let next = match (segment, &current.children) {
                (Segment::Key(key), ChildPositions::Fields(fields)) => fields.get(key),
                (Segment::Index(index), ChildPositions::Items(items)) => items.get(*index),
                (
                    Segment::Key(_) | Segment::Index(_),
                    ChildPositions::Scalar | ChildPositions::Fields(_) | ChildPositions::Items(_),
                ) => None,
            };
            let Some(next) = next else { break };
            current = next;
        }
        Some(current.start)
    }
}

/// Removes the fields of all objects that are null.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The position of a value and of everything inside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PositionTree {
    pub(crate) start: Position,
    pub(crate) children: ChildPositions,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChildPositions {
    Scalar,
    Fields(BTreeMap<String, PositionTree>),
    Items(Vec<PositionTree>),
}

/// A finished subtree, with the node count, text bytes and height that count against the bounds when an alias repeats it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) positions: PositionTree,
    pub(crate) nodes: usize,
    pub(crate) bytes: usize,
    pub(crate) height: usize,
}

impl Node {
    pub(crate) fn scalar(value: Value, position: Position) -> Self {
        let bytes = value.as_str().map_or(0, str::len);
        Self {
            value,
            positions: PositionTree { start: position, children: ChildPositions::Scalar },
            nodes: 1,
            bytes,
            height: 0,
        }
    }
}

/// A mapping under construction.
#[derive(Debug)]
pub(crate) struct MappingBuilder {
    position: Position,
    values: Map<String, Value>,
    positions: BTreeMap<String, PositionTree>,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl MappingBuilder {
    pub(crate) fn new(position: Position) -> Self {
        Self { position, values: Map::new(), positions: BTreeMap::new(), nodes: 1, bytes: 0, height: 0 }
    }

    /// Adds a field; a duplicate key is an error.
    pub(crate) fn insert(&mut self, key: String, position: Position, node: Node) -> Result<(), SyntaxError> {
        if let Some(first) = self.positions.get(&key) {
            let reason = format!("field {key:?} is already set on line {}", first.start.line);
            return Err(SyntaxError { position, reason });
        }
        self.add(key, position, node);
        Ok(())
    }

    /// Adds the fields of a merged mapping (`<<`) that are not set yet.
    pub(crate) fn merge(&mut self, node: Node) {
        let (Value::Object(values), ChildPositions::Fields(mut positions)) =
            (node.value, node.positions.children)
        else {
            return;
        };
        for (key, value) in values {
            let Some(positions) = positions.remove(&key) else { continue };
            if !self.positions.contains_key(&key) {
                self.positions.insert(key.clone(), positions);
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
            positions: PositionTree {
                start: self.position,
                children: ChildPositions::Fields(self.positions),
            },
            nodes: self.nodes,
            bytes: self.bytes,
            height: self.height + 1,
        }
    }

    fn add(&mut self, key: String, position: Position, node: Node) {
        self.nodes += node.nodes;
        self.bytes += node.bytes + key.len();
        self.height = self.height.max(node.height);
        self.positions
            .insert(key.clone(), PositionTree { start: position, children: node.positions.children });
        self.values.insert(key, node.value);
    }
}

/// A list under construction.
#[derive(Debug)]
pub(crate) struct ListBuilder {
    position: Position,
    values: Vec<Value>,
    positions: Vec<PositionTree>,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl ListBuilder {
    pub(crate) fn new(position: Position) -> Self {
        Self { position, values: Vec::new(), positions: Vec::new(), nodes: 1, bytes: 0, height: 0 }
    }

    pub(crate) fn push(&mut self, node: Node) {
        self.nodes += node.nodes;
        self.bytes += node.bytes;
        self.height = self.height.max(node.height);
        self.positions.push(node.positions);
        self.values.push(node.value);
    }

    pub(crate) fn finish(self) -> Node {
        Node {
            value: Value::Array(self.values),
            positions: PositionTree { start: self.position, children: ChildPositions::Items(self.positions) },
            nodes: self.nodes,
            bytes: self.bytes,
            height: self.height + 1,
        }
    }
}

/// The remaining allowance of the bounds while one text is parsed.
#[derive(Debug)]
pub(crate) struct Budget {
    nodes: usize,
    alias_bytes: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { nodes: MAX_NODES, alias_bytes: MAX_ALIAS_BYTES }
    }

    /// Counts one more value against [`MAX_NODES`].
    pub(crate) fn charge_node(&mut self, position: Position) -> Result<(), SyntaxError> {
        self.nodes = self.nodes.checked_sub(1).ok_or_else(|| too_many_nodes(position))?;
        Ok(())
    }

    /// Counts a copy of a subtree against [`MAX_NODES`] and [`MAX_ALIAS_BYTES`].
    pub(crate) fn charge_copy(&mut self, node: &Node, position: Position) -> Result<(), SyntaxError> {
        self.nodes = self.nodes.checked_sub(node.nodes).ok_or_else(|| too_many_nodes(position))?;
        self.alias_bytes = self.alias_bytes.checked_sub(node.bytes).ok_or_else(|| SyntaxError {
            position,
            reason: format!("aliases expand to more than {MAX_ALIAS_BYTES} bytes of text"),
        })?;
        Ok(())
    }

    /// Rejects a mapping or list that is nested too deeply.
    pub(crate) fn check_depth(depth: usize, position: Position) -> Result<(), SyntaxError> {
        if depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(SyntaxError { position, reason: format!("nested more than {MAX_DEPTH} levels deep") })
    }
}

fn too_many_nodes(position: Position) -> SyntaxError {
    SyntaxError { position, reason: format!("more than {MAX_NODES} values after expanding aliases") }
}
