//! JSON Schemas from strangers: compiled within bounds, without a network, checked with messages that name the field.

/// A compiled schema.
pub struct Schema;

/// Why a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(pub String);

impl Schema {
    /// Compiles the text of a schema.
    pub fn compile(_schema: &str) -> Result<Self, InvalidSchema> {
        unimplemented!()
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        unimplemented!()
    }

    /// Checks a JSON text; messages such as `input.items[2].price: not of type "number"`, at most 10, where `root`
    /// is `input` or `output`.
    pub fn check(&self, _root: &str, _instance: &str) -> Result<(), Vec<String>> {
        unimplemented!()
    }
}
