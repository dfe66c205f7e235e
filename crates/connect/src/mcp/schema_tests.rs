//! Schemas of real servers in the forms that providers accept.

use proptest::prelude::*;

use super::*;

fn of(schema: &Value) -> Result<Repaired, &'static str> {
    repaired(schema.clone())
}

fn repaired_to(schema: &Value) -> Value {
    let repaired = of(schema).unwrap();
    assert!(repaired.is_changed, "{schema}");
    Value::Object(repaired.schema)
}

#[test]
fn a_schema_that_every_provider_takes_stays_as_it_is() {
    for schema in [
        json!({"type": "object", "properties": {}}),
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
            "properties": {
                "a.b-c_1": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
                "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
                "type": {"type": ["string", "null"], "enum": ["x", null], "description": "Of type dict."},
                "required": {"oneOf": [{"const": 1}, {"type": "integer", "exclusiveMinimum": 3}], "x-own": null},
                "deep": {"type": "object", "properties": {"fields[]": {"allOf": [{"type": "string"}]}}}
            },
            "required": ["type", "unknown"],
            "$defs": {"Item": {"type": "object", "additionalProperties": {"type": "string"}, "examples": [1]}}
        }),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {}, "then": {"required": ["a"]}}),
    ] {
        let repaired = of(&schema).unwrap();
        assert!(!repaired.is_changed && repaired.renamed.is_empty(), "{schema}");
        assert_eq!(Value::Object(repaired.schema), schema);
    }
}

#[test]
fn alternatives_at_the_top_become_one_object() {
    // A choice between alternatives, as for an attachment.
    let attachment = json!({"type": "object", "anyOf": [
        {"properties": {"name": {"type": "string"}, "content": {"type": "string"}}, "required": ["name", "content"]},
        {"properties": {"name": {"type": "string"}, "url": {"type": "string"}}, "required": ["name", "url"]},
    ]});
    assert_eq!(
        repaired_to(&attachment),
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"}, "content": {"type": "string"}, "url": {"type": "string"}
            },
            "required": ["name"],
            "description": "Needed: content; or url."
        })
    );
    // The alternatives differ only in their required fields.
    let coverage = json!({
        "type": "object", "description": "Checks.",
        "properties": {"project": {"type": "string"}, "paths": {"type": "array", "items": {}}, "scopes": {"type": "string"}},
        "required": ["project"], "anyOf": [{"required": ["paths"]}, {"required": ["scopes"]}]
    });
    let repaired = repaired_to(&coverage);
    assert_eq!(repaired["required"], json!(["project"]));
    assert_eq!(repaired["description"], "Checks. Needed: paths; or scopes.");
    assert_eq!(repaired["properties"], coverage["properties"]);
    // A union with a discriminator field, and one with a field of different types.
    let union = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a", "type": "string"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
        {"$ref": "#/$defs/B"},
        {"type": "array", "items": {}}
    ], "discriminator": {"propertyName": "kind"}, "$defs": {"B": {
        "type": "object", "properties": {"kind": {"enum": ["b", "c"]}, "x": {"type": "integer"}}, "required": ["kind"]
    }}});
    let repaired = repaired_to(&union);
    assert_eq!(
        repaired["properties"]["kind"],
        json!({"type": "string", "enum": ["a", "b", "c"]})
    );
    assert_eq!(
        repaired["properties"]["x"],
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})
    );
    assert_eq!(repaired["required"], json!(["kind"]));
    assert!(repaired.get("discriminator").is_none() && repaired["$defs"]["B"].is_object());
}

#[test]
fn parts_that_all_hold_become_one_object() {
    let all = json!({
        "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "allOf": [
            {"properties": {"a": {"maxLength": 9}, "b": {"type": "integer"}}, "required": ["b"]},
            {"if": {"properties": {"a": {"const": "x"}}}, "then": {"properties": {"c": {"type": "boolean"}}, "required": ["c"]}},
            {"anyOf": [{"required": ["a"]}, {"required": ["d"], "properties": {"d": {"type": "null"}}}]}
        ],
        "not": {"required": ["z"]}, "additionalProperties": false
    });
    assert_eq!(
        repaired_to(&all),
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "a": {"type": "string", "maxLength": 9}, "b": {"type": "integer"}, "c": {"type": "boolean"},
                "d": {"type": "null"}
            },
            "required": ["a", "b"],
            "description": "Needed: a; or d."
        })
    );
}

#[test]
fn a_reference_at_the_top_is_followed() {
    let referring = json!({
        "$ref": "#/definitions/Call", "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"Call": {"type": "object", "properties": {"a": {"$ref": "#/definitions/A"}}}, "A": {"type": "string"}}
    });
    let repaired = repaired_to(&referring);
    assert_eq!(repaired["properties"], json!({"a": {"$ref": "#/definitions/A"}}));
    assert_eq!(repaired["definitions"], referring["definitions"]);
    // If the top level loses the target of a reference, the target is inlined. A reference without a target allows everything.
    let relative = json!({"anyOf": [{"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/anyOf/0/properties/a"}}}],
        "properties": {"c": {"$ref": "#/$defs/Gone", "description": "d"}}});
    let repaired = repaired_to(&relative);
    assert_eq!(repaired["properties"]["b"], json!({"type": "integer"}));
    assert_eq!(repaired["properties"]["c"], json!({"description": "d"}));
    for (schema, why) in [
        (json!({"$ref": "#"}), "its schema refers to itself"),
        (json!({"$ref": "#/$defs/X"}), "its schema refers to nothing"),
        (
            json!({"$ref": "https://example.com/s"}),
            "its schema refers to another document",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "array"}]}),
            "its arguments are not an object",
        ),
        (
            json!({"type": ["string", "null"]}),
            "its arguments are not an object",
        ),
    ] {
        assert_eq!(of(&schema).unwrap_err(), why);
    }
}

#[test]
fn subschemas_are_written_as_the_strictest_provider_wants_them() {
    for (field, is) in [
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (
            json!({"type": ["array", "null"], "description": "d"}),
            json!({"type": ["array", "null"], "description": "d", "items": {}}),
        ),
        (
            json!({"type": "array", "items": [{"type": "str"}, true], "additionalItems": false}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {}], "items": false}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}]}),
            json!({"type": "array", "prefixItems": [{"type": "integer"}], "items": {}}),
        ),
        (
            json!({"type": "object", "properties": {"x": {"items": {"type": "array"}}}}),
            json!({"type": "object", "properties": {"x": {"items": {"type": "array", "items": {}}}}}),
        ),
        (
            json!({"type": "INTEGER", "minimum": 1, "exclusiveMinimum": true}),
            json!({"type": "integer", "exclusiveMinimum": 1}),
        ),
        (
            json!({"type": "integer", "exclusiveMaximum": false, "maximum": 9}),
            json!({"type": "integer", "maximum": 9}),
        ),
        (json!({"type": "any", "required": true}), json!({})),
        (
            json!({"type": ["dict", "None", "x"]}),
            json!({"type": ["object", "null"]}),
        ),
        (
            json!({"type": "string", "description": null, "enum": [], "minLength": "3", "default": null}),
            json!({"type": "string", "default": null}),
        ),
        (
            json!({"anyOf": [], "oneOf": [{"type": "array"}]}),
            json!({"oneOf": [{"type": "array", "items": {}}]}),
        ),
        (
            json!({"type": "object", "required": ["a", "a"], "properties": null}),
            json!({"type": "object"}),
        ),
        (
            json!({"additionalProperties": {"type": "array"}}),
            json!({"additionalProperties": {"type": "array", "items": {}}}),
        ),
        (json!("string"), json!({"type": "string"})),
        (json!("list"), json!({"type": "array", "items": {}})),
        (json!("a name"), json!({})),
        (json!(true), json!({})),
        (json!(null), json!({})),
    ] {
        let repaired = repaired_to(&json!({"type": "object", "properties": {"f": field}}));
        assert_eq!(repaired["properties"]["f"], is, "{field}");
    }
}

#[test]
fn names_of_properties_that_providers_refuse_are_replaced() {
    let long = "n".repeat(65);
    let repaired = of(&json!({
        "type": "object",
        "properties": {"fields[]": {"type": "string"}, "fields": {}, "$filter": {}, "größe": {}, "": {}, &long: {}, "ok.1": {}},
        "required": ["ok.1", "fields[]"]
    }))
    .unwrap();
    assert!(repaired.is_changed);
    let mut renamed = repaired.renamed;
    renamed.sort();
    let pairs: Vec<(&str, &str)> = renamed
        .iter()
        .map(|(shown, real)| (shown.as_str(), real.as_str()))
        .collect();
    let cut = "n".repeat(60);
    assert_eq!(
        pairs,
        [
            ("field", ""),
            ("fields_2", "fields[]"),
            ("filter", "$filter"),
            ("gr__e", "größe"),
            (&*cut, &*long)
        ]
    );
    assert_eq!(repaired.schema["required"], json!(["ok.1", "fields_2"]));
    assert_eq!(
        repaired.schema["properties"]["fields_2"],
        json!({"type": "string"})
    );
}

#[test]
fn alternatives_that_multiply_are_refused() {
    let mut defs = Map::new();
    for level in 0..7 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        defs.insert(level.to_string(), json!({"anyOf": vec![next; 9]}));
    }
    defs.insert("7".to_owned(), json!({"properties": {}}));
    let schema = json!({"$ref": "#/$defs/0", "$defs": defs});
    assert_eq!(of(&schema).unwrap_err(), "its schema has too many alternatives");
}

#[test]
fn references_that_multiply_when_they_are_put_in_place_are_refused() {
    let mut parts = vec![json!({"properties": {"x": {"$ref": "#/allOf/1"}}})];
    for part in 2..40 {
        let next = json!({"$ref": format!("#/allOf/{part}")});
        parts.push(json!({"properties": {"p": next, "q": next}}));
    }
    parts.push(json!({"properties": {"p": {}, "q": {}}}));
    assert_eq!(
        of(&json!({"allOf": parts})).unwrap_err(),
        "its schema is too large"
    );
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..9).prop_map(Value::from),
        prop::sample::select(vec![
            "object",
            "array",
            "string",
            "STR",
            "#",
            "#/anyOf/0",
            "a",
            "b[]"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 4, |inner| {
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "required",
            "enum",
            "const",
            "a",
            "b[]",
            "additionalProperties",
            "exclusiveMinimum",
            "minimum",
            "$defs",
            "then",
        ])
        .prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Whether a schema violates a rule of a provider.
fn is_refused(schema: &Value) -> bool {
    let Value::Object(fields) = schema else {
        return !schema.is_boolean();
    };
    let within = |value: &Value| match value.as_array() {
        Some(all) => all.iter().any(is_refused),
        None => is_refused(value),
    };
    (is_array(fields) && !fields.contains_key("items"))
        || fields.iter().any(|(keyword, value)| !fits(keyword, value))
        || ["properties", "$defs"].iter().any(|keyword| {
            let all = fields.get(*keyword).and_then(Value::as_object);
            all.is_some_and(|all| all.values().any(is_refused))
        })
        || ["items", "anyOf", "oneOf", "allOf", "then"]
            .iter()
            .any(|keyword| fields.get(*keyword).is_some_and(within))
}

proptest! {
    #[test]
    fn whatever_is_repaired_breaks_no_rule_and_stays_as_it_is_then(schema in any_schema()) {
        let Ok(first) = repaired(schema) else { return Ok(()) };
        let at_top = REFUSED_AT_TOP.iter().any(|keyword| first.schema.contains_key(*keyword));
        prop_assert!(!at_top && first.schema["type"] == "object", "{:?}", first.schema);
        prop_assert!(!is_refused(&Value::Object(first.schema.clone())), "{:?}", first.schema);
        let again = repaired(Value::Object(first.schema.clone())).unwrap();
        prop_assert!(!again.is_changed, "{:?} {:?}", first.schema, again.schema);
    }
}
