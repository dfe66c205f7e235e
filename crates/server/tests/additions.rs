//! Within a version the API only grows (`docs/API.md#versions`): the description is held against the last released one,
//! `released.json` beside this file, which is replaced at each release and at no other time.
//!
//! What a client may send must still be taken, and what it may get must still be there: requests may be less strict
//! than they were, answers may have more in them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and what a document lacks is null"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

/// Reader of a value that a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// The engine: it must take whatever it took.
    Engine,
    /// A client: it must find whatever it found.
    Client,
}

/// The two documents, and what a client of the first would stumble over in the second.
struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    breaks: BTreeSet<String>,
    /// Schemas under comparison, which may contain themselves.
    open: Vec<(String, Option<String>)>,
}

fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut comparison = Comparison {
        old,
        new,
        breaks: BTreeSet::new(),
        open: Vec::new(),
    };
    comparison.document();
    comparison.breaks.into_iter().collect()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A list of texts as a set; a single text counts as a list of one.
fn texts(value: &Value) -> BTreeSet<&str> {
    items(value)
        .filter_map(Value::as_str)
        .chain(value.as_str())
        .collect()
}

/// The thing itself where `value` refers to another place of its document.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(target) => document.pointer(target.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

impl Comparison<'_> {
    fn broken(&mut self, place: &str, rule: &str) {
        self.breaks.insert(format!("{place}: {rule}"));
    }

    fn document(&mut self) {
        let (old, new) = (self.old, self.new);
        for (path, operations) in members(&old["paths"]) {
            for method in METHODS {
                let Some(before) = operations.get(method) else {
                    continue;
                };
                let place = format!("{} {path}", method.to_uppercase());
                match new["paths"][path].get(method) {
                    Some(after) => self.operation(&place, before, after),
                    None => self.broken(&place, "is gone"),
                }
            }
        }
    }

    fn operation(&mut self, place: &str, old: &Value, new: &Value) {
        if old["operationId"] != new["operationId"] {
            self.broken(place, "has another operationId");
        }
        if old["security"] != new["security"] {
            self.broken(place, "needs another role");
        }
        let find = |list: &Value, document: &Value, wanted: &Value| {
            items(list)
                .map(|parameter| resolved(document, parameter).clone())
                .find(|parameter| parameter["name"] == wanted["name"] && parameter["in"] == wanted["in"])
        };
        for before in items(&old["parameters"]) {
            let before = resolved(self.old, before).clone();
            let place = format!("{place} parameter {}", before["name"]);
            match find(&new["parameters"], self.new, &before) {
                Some(after) => self.schema(&place, &before["schema"], &after["schema"], Reader::Engine),
                None => self.broken(&place, "is gone"),
            }
        }
        for after in items(&new["parameters"]) {
            let after = resolved(self.new, after).clone();
            let before = find(&old["parameters"], self.old, &after);
            let was_required = before.is_some_and(|before| before["required"] == true);
            if after["required"] == true && !was_required {
                self.broken(&format!("{place} parameter {}", after["name"]), "is required now");
            }
        }
        self.body(place, &old["requestBody"], &new["requestBody"]);
        for (status, before) in members(&old["responses"]) {
            let place = format!("{place} answer {status}");
            let Some(after) = new["responses"].get(status) else {
                self.broken(&place, "is gone");
                continue;
            };
            let (before, after) = (
                resolved(self.old, before).clone(),
                resolved(self.new, after).clone(),
            );
            for (name, _) in members(&before["headers"]) {
                if after["headers"].get(name).is_none() {
                    self.broken(&format!("{place} header {name}"), "is gone");
                }
            }
            self.contents(&place, &before["content"], &after["content"], Reader::Client);
        }
    }

    fn body(&mut self, place: &str, old: &Value, new: &Value) {
        let place = format!("{place} body");
        if old.is_null() {
            if new["required"] == true {
                self.broken(&place, "is required now");
            }
            return;
        }
        if new["required"] == true && old["required"] != true {
            self.broken(&place, "is required now");
        }
        self.contents(&place, &old["content"], &new["content"], Reader::Engine);
    }

    fn contents(&mut self, place: &str, old: &Value, new: &Value, reader: Reader) {
        for (media, before) in members(old) {
            match new.get(media) {
                Some(after) => self.schema(place, &before["schema"], &after["schema"], reader),
                None => self.broken(place, &format!("is not {media} any more")),
            }
        }
    }

    fn schema(&mut self, place: &str, old: &Value, new: &Value, reader: Reader) {
        let names = (
            old["$ref"].as_str().unwrap_or_default().to_owned(),
            new["$ref"].as_str().map(str::to_owned),
        );
        if !names.0.is_empty() {
            if self.open.contains(&names) {
                return;
            }
            self.open.push(names);
            let (before, after) = (resolved(self.old, old).clone(), resolved(self.new, new).clone());
            self.plain(place, &before, &after, reader);
            self.open.pop();
            return;
        }
        let after = resolved(self.new, new).clone();
        self.plain(place, old, &after, reader);
    }

    fn plain(&mut self, place: &str, old: &Value, new: &Value, reader: Reader) {
        let (types, now) = (texts(&old["type"]), texts(&new["type"]));
        let fits = match reader {
            Reader::Engine => now.is_empty() || (!types.is_empty() && types.is_subset(&now)),
            Reader::Client => types.is_empty() || (!now.is_empty() && now.is_subset(&types)),
        };
        if !fits {
            self.broken(place, &format!("was {types:?}, is {now:?}"));
        }
        self.values(place, old, new, reader);
        if reader == Reader::Engine {
            self.bounds(place, old, new);
        }
        for (name, before) in members(&old["properties"]) {
            let place = format!("{place}.{name}");
            match new["properties"].get(name) {
                Some(after) => self.schema(&place, before, after, reader),
                None => self.broken(&place, "is gone"),
            }
        }
        let (required, now) = (texts(&old["required"]), texts(&new["required"]));
        let missing: Vec<_> = match reader {
            Reader::Engine => now.difference(&required).collect(),
            Reader::Client => required.difference(&now).collect(),
        };
        for name in missing {
            let rule = match reader {
                Reader::Engine => "is required now",
                Reader::Client => "may be absent now",
            };
            self.broken(&format!("{place}.{name}"), rule);
        }
        for inner in ["items", "additionalProperties"] {
            if old[inner].is_object() {
                self.schema(&format!("{place}[]"), &old[inner], &new[inner], reader);
            }
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            let (before, after) = (&old[choice], &new[choice]);
            for (at, before) in items(before).enumerate() {
                match after.get(at) {
                    Some(after) => self.schema(&format!("{place}|{at}"), before, after, reader),
                    None => self.broken(place, &format!("{choice} has one less")),
                }
            }
        }
    }

    /// Values from a list: new ones may come in answers (`docs/API.md#versions`); none of the old may be refused.
    fn values(&mut self, place: &str, old: &Value, new: &Value, reader: Reader) {
        if reader == Reader::Client {
            return;
        }
        if old["enum"].is_null() {
            if !new["enum"].is_null() {
                self.broken(place, "takes only some values now");
            }
            return;
        }
        for value in items(&old["enum"]) {
            if !new["enum"].is_null() && !items(&new["enum"]).any(|now| now == value) {
                self.broken(place, &format!("does not take {value} any more"));
            }
        }
    }

    fn bounds(&mut self, place: &str, old: &Value, new: &Value) {
        for (bound, least) in [
            ("minimum", true),
            ("minLength", true),
            ("minItems", true),
            ("minProperties", true),
            ("maximum", false),
            ("maxLength", false),
            ("maxItems", false),
            ("maxProperties", false),
        ] {
            let Some(now) = new[bound].as_f64() else { continue };
            let stricter = old[bound]
                .as_f64()
                .is_none_or(|before| if least { now > before } else { now < before });
            if stricter {
                self.broken(place, &format!("{bound} is {now} now"));
            }
        }
        if !new["pattern"].is_null() && new["pattern"] != old["pattern"] {
            self.broken(place, "has another pattern");
        }
    }
}

#[test]
fn nothing_that_was_released_is_gone_or_stricter() {
    let released: Value = serde_json::from_str(include_str!("released.json")).unwrap();
    let found = breaks(&released, &sortie_server::openapi(sortie_server::Api::Engine));
    assert!(
        found.is_empty(),
        "clients of the last release break:\n{}",
        found.join("\n")
    );
}

/// A document with one operation, changed by `change`.
fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "paths": {"/v1/things": {"post": {
            "operationId": "create_thing", "security": [{"api_key": ["member"]}],
            "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 100}}],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/New"}}}},
            "responses": {"201": {"headers": {"X-Request-Id": {}}, "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Thing"}}}}, "404": {"$ref": "#/components/responses/NotFound"}}
        }}},
        "components": {
            "responses": {"NotFound": {"content": {"application/json": {"schema": {"type": "object"}}}}},
            "schemas": {
                "New": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "maxLength": 10}, "kind": {"type": "string", "enum": ["a", "b"]}}},
                "Thing": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string"}, "kind": {"type": "string", "enum": ["a", "b"]},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}}}
            }
        }
    });
    change(&mut document);
    document
}

#[test]
fn what_only_adds_is_let_through() {
    let old = changed(|_| {});
    let additions: [fn(&mut Value); 7] = [
        |_| {},
        |new| new["paths"]["/v1/others"] = json!({"get": {}}),
        |new| new["components"]["schemas"]["New"]["properties"]["size"] = json!({"type": "integer"}),
        |new| new["components"]["schemas"]["Thing"]["properties"]["size"] = json!({"type": "integer"}),
        |new| new["components"]["schemas"]["Thing"]["properties"]["kind"]["enum"] = json!(["a", "b", "c"]),
        |new| new["components"]["schemas"]["New"]["properties"]["name"]["maxLength"] = json!(11),
        |new| {
            new["paths"]["/v1/things"]["post"]["parameters"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "tag", "in": "query", "schema": {}}));
        },
    ];
    for addition in additions {
        assert_eq!(breaks(&old, &changed(addition)), Vec::<String>::new());
    }
}

#[test]
fn what_breaks_a_client_is_named() {
    type Change = fn(&mut Value);
    let old = changed(|_| {});
    let changes: [(Change, &str); 13] = [
        (|new| new["paths"] = json!({}), "POST /v1/things: is gone"),
        (
            |new| new["paths"]["/v1/things"]["post"]["operationId"] = json!("make_thing"),
            "POST /v1/things: has another operationId",
        ),
        (
            |new| new["paths"]["/v1/things"]["post"]["security"] = json!([{"api_key": ["admin"]}]),
            "POST /v1/things: needs another role",
        ),
        (
            |new| new["paths"]["/v1/things"]["post"]["parameters"] = json!([]),
            "POST /v1/things parameter \"limit\": is gone",
        ),
        (
            |new| new["paths"]["/v1/things"]["post"]["parameters"][0]["schema"]["maximum"] = json!(99),
            "POST /v1/things parameter \"limit\": maximum is 99 now",
        ),
        (
            |new| new["paths"]["/v1/things"]["post"]["parameters"][0]["required"] = json!(true),
            "POST /v1/things parameter \"limit\": is required now",
        ),
        (
            |new| new["components"]["schemas"]["New"]["required"] = json!(["name", "kind"]),
            "POST /v1/things body.kind: is required now",
        ),
        (
            |new| new["components"]["schemas"]["New"]["properties"]["kind"]["enum"] = json!(["a"]),
            "POST /v1/things body.kind: does not take \"b\" any more",
        ),
        (
            |new| new["components"]["schemas"]["New"]["properties"]["name"]["pattern"] = json!("^x"),
            "POST /v1/things body.name: has another pattern",
        ),
        (
            |new| new["components"]["schemas"]["Thing"]["required"] = json!([]),
            "POST /v1/things answer 201.id: may be absent now",
        ),
        (
            |new| new["components"]["schemas"]["Thing"]["properties"]["id"]["type"] = json!("integer"),
            "POST /v1/things answer 201.id: was {\"string\"}, is {\"integer\"}",
        ),
        (
            |new| new["paths"]["/v1/things"]["post"]["responses"]["201"]["headers"] = json!({}),
            "POST /v1/things answer 201 header X-Request-Id: is gone",
        ),
        (
            |new| new["components"]["responses"]["NotFound"]["content"] = json!({"text/plain": {}}),
            "POST /v1/things answer 404: is not application/json any more",
        ),
    ];
    for (change, named) in changes {
        assert_eq!(breaks(&old, &changed(change)), [named]);
    }
}
