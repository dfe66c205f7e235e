//! Parameters of a request: a form with brackets in its names, read one by one. The rest is unknown parameters.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use url::form_urlencoded;

use super::failure::Failure;

/// Maximum number of metadata entries, and maximum length of a name and of a value, in characters.
const METADATA: (usize, usize, usize) = (50, 40, 500);

/// Text by name.
pub(super) type Metadata = BTreeMap<String, String>;

/// Reads a form: `a[b]=c` is a member of an object, `a[]=c` and `a[0]=c` are elements of a list.
pub(super) fn decode(text: &[u8]) -> Result<Map<String, Value>, Failure> {
    let mut root = Map::new();
    for (name, value) in form_urlencoded::parse(text) {
        let malformed = || Failure::invalid(format!("Invalid parameter name: {name}"));
        let (first, rest) = name.split_once('[').unwrap_or((&name, ""));
        let mut path = vec![first];
        if !rest.is_empty() {
            let rest = rest.strip_suffix(']').ok_or_else(malformed)?;
            path.extend(rest.split("]["));
        }
        insert(&mut root, &path, value.into_owned()).ok_or_else(malformed)?;
    }
    Ok(root
        .into_iter()
        .map(|(name, value)| (name, listed(value)))
        .collect())
}

/// Sets a value at a path. `None` if another value is in the way. A list is an object with numbers as names here.
fn insert(object: &mut Map<String, Value>, path: &[&str], value: String) -> Option<()> {
    let (first, rest) = path.split_first()?;
    let name = if first.is_empty() {
        // A list with consecutive elements.
        object.len().to_string()
    } else {
        (*first).to_owned()
    };
    if rest.is_empty() {
        return object.insert(name, Value::String(value)).is_none().then_some(());
    }
    let inner = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    insert(inner.as_object_mut()?, rest, value)
}

/// Makes lists of the objects that have the names 0, 1, 2 and so on.
fn listed(value: Value) -> Value {
    let Value::Object(members) = value else {
        return value;
    };
    let count = members.len();
    let mut members: Map<_, _> = members
        .into_iter()
        .map(|(name, value)| (name, listed(value)))
        .collect();
    if count > 0 && (0..count).all(|at| members.contains_key(&at.to_string())) {
        return (0..count)
            .filter_map(|at| members.remove(&at.to_string()))
            .collect();
    }
    Value::Object(members)
}

/// Parameters that were not read yet.
#[derive(Debug)]
pub(super) struct Parameters {
    values: Map<String, Value>,
    /// Name of the object that the parameters are members of.
    within: String,
}

impl Parameters {
    pub(super) fn new(values: Map<String, Value>) -> Self {
        Self {
            values,
            within: String::new(),
        }
    }

    fn name_of(&self, name: &str) -> String {
        if self.within.is_empty() {
            name.to_owned()
        } else {
            format!("{}[{name}]", self.within)
        }
    }

    /// Takes a text. `None` if it was not sent, or is empty.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(_) => Err(Failure::parameter(
                "parameter_invalid_string_empty",
                &self.name_of(name),
                "Invalid string",
            )),
        }
    }

    pub(super) fn needed_text(&mut self, name: &str) -> Result<String, Failure> {
        self.text(name)?
            .ok_or_else(|| Failure::missing(&self.name_of(name)))
    }

    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let wrong = |_| {
            let message = format!("Invalid integer: {text}");
            Failure::parameter("parameter_invalid_integer", &self.name_of(name), message)
        };
        text.parse().map(Some).map_err(wrong)
    }

    pub(super) fn needed_integer(&mut self, name: &str) -> Result<i64, Failure> {
        self.integer(name)?
            .ok_or_else(|| Failure::missing(&self.name_of(name)))
    }

    /// Takes a truth value; false if it was not sent.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                Err(Failure::invalid(format!("Invalid boolean: {other}")).with("param", self.name_of(name)))
            }
        }
    }

    /// Takes one of some words.
    pub(super) fn one_of(&mut self, name: &str, words: &[&str]) -> Result<Option<String>, Failure> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        if words.contains(&text.as_str()) {
            return Ok(Some(text));
        }
        let name = self.name_of(name);
        let message = format!("Invalid {name}: must be one of {}", words.join(", "));
        Err(Failure::invalid(message).with("param", name))
    }

    pub(super) fn metadata(&mut self) -> Result<Metadata, Failure> {
        let (most, name_length, value_length) = METADATA;
        let members = self.object("metadata")?.values;
        let wrong = || Failure::invalid("Invalid metadata").with("param", "metadata");
        if members.len() > most {
            return Err(wrong());
        }
        let entry = |(name, value): (String, Value)| {
            let value = value.as_str().ok_or_else(wrong)?;
            let fits = name.chars().count() <= name_length && value.chars().count() <= value_length;
            fits.then(|| (name, value.to_owned())).ok_or_else(wrong)
        };
        members.into_iter().map(entry).collect()
    }

    /// Takes the members of an object; empty if it was not sent.
    pub(super) fn object(&mut self, name: &str) -> Result<Self, Failure> {
        let within = self.name_of(name);
        match self.values.remove(name) {
            None => Ok(Self {
                values: Map::new(),
                within,
            }),
            Some(Value::Object(values)) => Ok(Self { values, within }),
            Some(_) => Err(Failure::invalid("Invalid object").with("param", within)),
        }
    }

    /// Takes the objects of a list; empty if it was not sent.
    pub(super) fn objects(&mut self, name: &str) -> Result<Vec<Self>, Failure> {
        let within = self.name_of(name);
        let wrong = || Failure::invalid("Invalid array").with("param", within.as_str());
        let items = match self.values.remove(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(wrong()),
        };
        let object = |(at, item): (usize, Value)| {
            let values = item.as_object().cloned().ok_or_else(wrong)?;
            Ok(Self {
                values,
                within: format!("{within}[{at}]"),
            })
        };
        items.into_iter().enumerate().map(object).collect()
    }

    /// Takes the texts of a list; empty if it was not sent.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, Failure> {
        let wrong = || Failure::invalid("Invalid array").with("param", name);
        match self.values.remove(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .into_iter()
                .map(|item| item.as_str().map(ToOwned::to_owned).ok_or_else(wrong))
                .collect(),
            Some(_) => Err(wrong()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Refuses the remaining parameters as unknown.
    pub(super) fn finish(self) -> Result<(), Failure> {
        if self.values.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = self.values.keys().map(|name| self.name_of(name)).collect();
        Err(Failure::unknown(&names))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_with_brackets_are_objects_and_lists() {
        let form = b"amount=7&metadata[topup]=a%5Bb&line_items[0][price_data][currency]=usd&line_items[0][quantity]=1\
            &types[]=x&types[]=y";
        let values = decode(form).unwrap();
        let expected = json!({
            "amount": "7",
            "metadata": {"topup": "a[b"},
            "line_items": [{"price_data": {"currency": "usd"}, "quantity": "1"}],
            "types": ["x", "y"],
        });
        assert_eq!(Value::Object(values), expected);
        for malformed in ["a[b=1", "a=1&a=2", "a=1&a[b]=2"] {
            assert!(decode(malformed.as_bytes()).is_err(), "{malformed}");
        }
    }

    #[test]
    fn what_nobody_takes_is_unknown_under_its_whole_name() {
        let mut parameters = Parameters::new(decode(b"items[0][a]=1&items[0][b]=2").unwrap());
        let mut item = parameters.objects("items").unwrap().remove(0);
        assert_eq!(item.integer("a").unwrap(), Some(1));
        assert!(parameters.finish().is_ok());
        let refused = item.finish().unwrap_err();
        assert_eq!(refused.message(), "Received unknown parameter: items[0][b]");
        assert_eq!(refused.body("req_1")["error"]["code"], "parameter_unknown");
    }
}
