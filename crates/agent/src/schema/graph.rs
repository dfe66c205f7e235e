//! References between the parts of a schema, and the cost of applying them.
//!
//! A part is applied *in place* (to the same value: `allOf`, `$ref`, `if` …) or to *children* of the value
//! (`properties`, `items` …). In place, `allOf` of two references to a part that does the same again doubles at each
//! step; through children the same happens along a nested instance. The first is counted once, when the schema is
//! accepted; the second at each check, by walking schema and instance together until the walk is too long.

use std::{collections::HashMap, rc::Rc};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// In-place paths from any part of a schema at most.
const PATHS: u64 = 10_000;
/// Longest chain of parts applied in place.
const CHAIN: usize = 200;
/// Maximum cost of a check: well under a second of computing.
const COST: u64 = 5_000_000;
/// Maximum depth of parts applied within each other, over the whole depth of an instance. A stack of 2 MiB holds it
/// with room to spare.
const DEPTH: usize = 1_000;

/// Cost of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// This many applied keywords.
    Units(u64),
    /// Too much.
    TooMuch,
}

/// A schema and its anchors.
pub(super) struct Graph<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
}

/// A step from a part of a schema to another.
enum Edge<'a> {
    /// Applied to the same value.
    InPlace(&'a Value),
    /// Applied to this property.
    Property(&'a str, &'a Value),
    /// Applied to properties that `properties` does not name.
    OtherProperties(&'a Value),
    /// Applied to all properties.
    Properties(&'a Value),
    /// Applied to the names of all properties.
    Names(&'a Value),
    /// Applied to the item at this index.
    Item(usize, &'a Value),
    /// Applied to all items.
    Items(&'a Value),
}

impl<'a> Edge<'a> {
    fn target(&self) -> &'a Value {
        match self {
            Self::InPlace(part)
            | Self::Property(_, part)
            | Self::OtherProperties(part)
            | Self::Properties(part)
            | Self::Names(part)
            | Self::Item(_, part)
            | Self::Items(part) => part,
        }
    }
}

/// In-place paths from a part, and the longest of them.
#[derive(Clone, Copy)]
enum Reach {
    Counting,
    Counted { paths: u64, chain: usize },
}

impl<'a> Graph<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let mut anchors = HashMap::new();
        collect_anchors(root, &mut anchors);
        Self { root, anchors }
    }

    /// Refuses references that lead to other documents, are unresolved or circular, or have too many paths.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut reached = HashMap::new();
        let mut waiting = vec![self.root];
        while let Some(part) = waiting.pop() {
            if reached.contains_key(&key(part)) {
                continue;
            }
            self.count(part, &mut reached, &mut waiting, 0)?;
        }
        Ok(())
    }

    /// Counts the in-place paths from `part`; adds the parts that it applies to children to `waiting`.
    fn count(
        &self,
        part: &'a Value,
        reached: &mut HashMap<*const Value, Reach>,
        waiting: &mut Vec<&'a Value>,
        depth: usize,
    ) -> Result<(u64, usize), String> {
        match reached.get(&key(part)) {
            Some(Reach::Counted { paths, chain }) => return Ok((*paths, *chain)),
            Some(Reach::Counting) => return Err("$ref: a part refers to itself without end".to_owned()),
            None => {}
        }
        if depth > CHAIN {
            return Err(format!("$ref: a chain of more than {CHAIN} references"));
        }
        if key(part) != key(self.root) && has_own_base(part) {
            return Err("$id: only at the top of the schema".to_owned());
        }
        reached.insert(key(part), Reach::Counting);
        let (mut paths, mut chain) = (1_u64, 0);
        for edge in self.edges(part)? {
            let Edge::InPlace(target) = edge else {
                waiting.push(edge.target());
                continue;
            };
            let (more, longer) = self.count(target, reached, waiting, depth + 1)?;
            paths = paths.saturating_add(more);
            chain = chain.max(longer + 1);
        }
        if paths > PATHS {
            return Err(format!("$ref: more than {PATHS} paths through the references"));
        }
        if chain > CHAIN {
            return Err(format!("$ref: a chain of more than {CHAIN} references"));
        }
        reached.insert(key(part), Reach::Counted { paths, chain });
        Ok((paths, chain))
    }

    /// Returns the maximum cost of checking `instance`.
    pub(super) fn cost(&self, instance: &Value) -> Cost {
        let mut walk = Walk {
            graph: self,
            parts: HashMap::new(),
            cost: 0,
        };
        match walk.apply(self.root, instance, 0) {
            Some(()) => Cost::Units(walk.cost),
            None => Cost::TooMuch,
        }
    }

    /// Returns all steps from a part.
    fn edges(&self, part: &'a Value) -> Result<Vec<Edge<'a>>, String> {
        let Value::Object(keywords) = part else {
            return Ok(Vec::new());
        };
        let mut edges = Vec::new();
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    edges.extend(self.resolve(reference)?.into_iter().map(Edge::InPlace));
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                    edges.extend(parts.iter().map(Edge::InPlace));
                }
                ("not" | "if" | "then" | "else", part) => edges.push(Edge::InPlace(part)),
                ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                    edges.extend(parts.values().map(Edge::InPlace));
                }
                ("properties", Value::Object(parts)) => {
                    edges.extend(parts.iter().map(|(name, part)| Edge::Property(name, part)));
                }
                ("patternProperties", Value::Object(parts)) => {
                    edges.extend(parts.values().map(Edge::Properties));
                }
                ("additionalProperties" | "unevaluatedProperties", part) => {
                    edges.push(Edge::OtherProperties(part));
                }
                ("propertyNames", part) => edges.push(Edge::Names(part)),
                ("items" | "prefixItems", Value::Array(parts)) => {
                    edges.extend(
                        parts
                            .iter()
                            .enumerate()
                            .map(|(index, part)| Edge::Item(index, part)),
                    );
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", part) => {
                    edges.push(Edge::Items(part));
                }
                _ => {}
            }
        }
        Ok(edges)
    }

    fn resolve(&self, reference: &str) -> Result<Vec<&'a Value>, String> {
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err("$ref: must stay within the schema, beginning with `#`".to_owned());
        };
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        let found: Vec<&Value> = if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment).into_iter().collect()
        } else {
            self.anchors.get(fragment.as_ref()).cloned().unwrap_or_default()
        };
        if found.is_empty() {
            return Err(format!(
                "$ref: {:?} leads to nothing",
                crate::text::head(reference, 100)
            ));
        }
        Ok(found)
    }
}

/// A walk through a schema and an instance together.
struct Walk<'g, 'a> {
    graph: &'g Graph<'a>,
    /// Facts about the parts that were met.
    parts: HashMap<*const Value, Rc<Part<'a>>>,
    cost: u64,
}

struct Part<'a> {
    weight: u64,
    edges: Vec<Edge<'a>>,
    /// Parts that `properties` names.
    named: Option<&'a Map<String, Value>>,
}

impl<'a> Walk<'_, 'a> {
    /// Applies a part to a value; `None` when that goes too far.
    fn apply(&mut self, part: &'a Value, value: &Value, depth: usize) -> Option<()> {
        let part = self.part(part)?;
        self.cost += part.weight;
        if self.cost > COST || depth > DEPTH {
            return None;
        }
        for edge in &part.edges {
            match (edge, value) {
                (Edge::InPlace(target), _) => self.apply(target, value, depth + 1)?,
                (Edge::Property(name, target), Value::Object(fields)) => {
                    self.apply_all(target, fields.get(*name), depth)?;
                }
                (Edge::OtherProperties(target), Value::Object(fields)) => {
                    let is_other = |name: &str| part.named.is_none_or(|named| !named.contains_key(name));
                    let others = fields
                        .iter()
                        .filter(|(name, _)| is_other(name))
                        .map(|(_, value)| value);
                    self.apply_all(target, others, depth)?;
                }
                (Edge::Properties(target), Value::Object(fields)) => {
                    self.apply_all(target, fields.values(), depth)?;
                }
                (Edge::Names(target), Value::Object(fields)) => {
                    self.apply_all(target, fields.values().map(|_| &Value::Null), depth)?;
                }
                (Edge::Item(index, target), Value::Array(items)) => {
                    self.apply_all(target, items.get(*index), depth)?;
                }
                (Edge::Items(target), Value::Array(items)) => self.apply_all(target, items, depth)?,
                // The keyword applies to another type of value.
                (_, _) => {}
            }
        }
        Some(())
    }

    fn apply_all<'v>(
        &mut self,
        part: &'a Value,
        values: impl IntoIterator<Item = &'v Value>,
        depth: usize,
    ) -> Option<()> {
        values
            .into_iter()
            .try_for_each(|value| self.apply(part, value, depth + 1))
    }

    fn part(&mut self, part: &'a Value) -> Option<Rc<Part<'a>>> {
        if let Some(known) = self.parts.get(&key(part)) {
            return Some(Rc::clone(known));
        }
        let found = Rc::new(Part {
            weight: weight(part),
            edges: self.graph.edges(part).ok()?,
            named: part.get("properties").and_then(Value::as_object),
        });
        self.parts.insert(key(part), Rc::clone(&found));
        Some(found)
    }
}

/// Returns the weight of a part without its subparts: its keywords, and the lists that are iterated.
fn weight(part: &Value) -> u64 {
    let Value::Object(keywords) = part else { return 1 };
    let length = |keyword| {
        keywords
            .get(keyword)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    1 + (keywords.len() + length("enum") + length("required")) as u64
}

fn key(part: &Value) -> *const Value {
    std::ptr::from_ref(part)
}

/// Whether a part begins a separate document, to which the references within it would belong.
fn has_own_base(part: &Value) -> bool {
    part.get("$id")
        .and_then(Value::as_str)
        .is_some_and(|id| !id.starts_with('#'))
}

fn collect_anchors<'a>(value: &'a Value, anchors: &mut HashMap<&'a str, Vec<&'a Value>>) {
    match value {
        Value::Object(fields) => {
            for keyword in ["$anchor", "$dynamicAnchor", "$id"] {
                let Some(Value::String(name)) = fields.get(keyword) else {
                    continue;
                };
                let name = if keyword == "$id" {
                    name.strip_prefix('#')
                } else {
                    Some(name.as_str())
                };
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    anchors.entry(name).or_default().push(value);
                }
            }
            fields.values().for_each(|value| collect_anchors(value, anchors));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_anchors(value, anchors)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
