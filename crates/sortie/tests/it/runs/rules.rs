//! Every rule of the run request (`docs/RUNS.md#fields-of-a-request`) as a table: a request that breaks one is answered
//! with 400 `invalid_request`, the message names the field, and nothing is created.

use crate::prelude::*;

both_databases![a_request_that_breaks_a_rule_is_refused_by_name_and_creates_nothing];

/// A request that breaks one rule: the field that the error must name, and the fields to add to a valid prompt.
type Case = (&'static str, Value);

fn forms() -> Vec<Case> {
    vec![
        ("prompt", json!({"prompt": null})),
        ("prompt", json!({"prompt": 7})),
        ("prompt", json!({"prompt": ["x"]})),
        ("prompt", json!({"prompt": ""})),
        ("prompt", json!({"prompt": "p".repeat(128 * 1024 + 1)})),
        ("prompt", json!({"prompt": "ä".repeat(64 * 1024) + "x"})),
        ("prompt", json!({"prompt": "a\u{0}b"})),
        ("instructions", json!({"instructions": 7})),
        ("instructions", json!({"instructions": null})),
        ("instructions", json!({"instructions": "i".repeat(64 * 1024 + 1)})),
        (
            "instructions",
            json!({"instructions": "ä".repeat(32 * 1024) + "x"}),
        ),
        ("instructions", json!({"instructions": "a\u{0}b"})),
        ("input", json!({"input": "i".repeat(1024 * 1024 - 1)})),
        ("promt", json!({"promt": "x"})),
        ("__proto__", json!({"__proto__": {}})),
        ("model", json!({"model": "gpt-nothing"})),
        ("model", json!({"model": ""})),
        ("model", json!({"model": 1})),
        ("description", json!({"description": "ä".repeat(501)})),
        ("description", json!({"description": "a\u{0}b"})),
        ("description", json!({"description": {}})),
        ("timeout_seconds", json!({"timeout_seconds": 0})),
        ("timeout_seconds", json!({"timeout_seconds": 3601})),
        ("timeout_seconds", json!({"timeout_seconds": -1})),
        ("timeout_seconds", json!({"timeout_seconds": 1.5})),
        ("timeout_seconds", json!({"timeout_seconds": "60"})),
        ("timeout_seconds", json!({"timeout_seconds": u64::MAX})),
        ("max_steps", json!({"max_steps": 0})),
        ("max_steps", json!({"max_steps": 1_001})),
        ("max_steps", json!({"max_steps": "7"})),
        ("max_cost_micros", json!({"max_cost_micros": 0})),
        ("max_cost_micros", json!({"max_cost_micros": 100_000_001})),
        ("max_cost_micros", json!({"max_cost_micros": -1})),
        ("max_cost_micros", json!({"max_cost_micros": 0.5})),
        ("max_cost_micros", json!({"max_cost_micros": i64::MIN})),
        ("shell", json!({"shell": "yes"})),
        ("shell", json!({"shell": null})),
    ]
}

fn metadata() -> Vec<Case> {
    let of = |metadata: Value| json!({"metadata": metadata});
    let many: serde_json::Map<String, Value> =
        (0..17).map(|number| (number.to_string(), json!(""))).collect();
    vec![
        ("metadata", of(json!(["a"]))),
        ("metadata", of(json!("a"))),
        ("metadata", of(json!(null))),
        ("metadata", of(Value::Object(many))),
        ("metadata.", of(json!({"": "x"}))),
        ("metadata.a", of(json!({"a": 1}))),
        ("metadata.a", of(json!({"a": null}))),
        ("metadata.a", of(json!({"a": {"b": "c"}}))),
        ("metadata.a", of(json!({"a": "v".repeat(513)}))),
        ("metadata.a", of(json!({"a": "x\u{0}y"}))),
        ("metadata.a\\nb", of(json!({"a\nb": "x"}))),
        ("metadata.a\\u{1f}b", of(json!({"a\u{1f}b": "x"}))),
        ("metadata.kkk", of(json!({"k".repeat(65): "x"}))),
    ]
}

fn files() -> Vec<Case> {
    let mut cases: Vec<Case> = vec![
        ("files", json!({"files": {}})),
        (
            "files",
            json!({"files": (0..33).map(|n| json!({"path": format!("f{n}"), "content": ""})).collect::<Vec<_>>()}),
        ),
        (
            "files",
            json!({"files": [{"path": "a", "content": "x"}, {"path": "a", "content": "y"}]}),
        ),
        (
            "files",
            json!({"files": [{"path": "a", "content": "x"}, {"path": "a/b", "content": "y"}]}),
        ),
        (
            "files",
            json!({"files": [{"path": "a/b/c", "content": "x"}, {"path": "a", "content": "y"}]}),
        ),
        ("files", json!({"files": [{"path": "a"}]})),
        ("files", json!({"files": [{"content": "x"}]})),
        (
            "files",
            json!({"files": [{"path": "a", "content": "x", "file": "y"}]}),
        ),
        ("files", json!({"files": [{"path": "a", "content": 1}]})),
        ("files", json!({"files": [{"path": "a", "content": "x\u{0}y"}]})),
        ("files", json!({"files": ["a"]})),
        ("text", json!({"files": [{"path": "a", "text": "x"}]})),
        (
            "files",
            json!({"files": (0..9).map(|n| json!({"path": format!("f{n}"), "content": "x".repeat(1 << 20)})).collect::<Vec<_>>()}),
        ),
    ];
    let long = format!("{}/x", "d".repeat(1_023));
    let hostile = [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../b",
        "a/..",
        ".",
        "./a",
        "a/./b",
        "a//b",
        "a/",
        "/a",
        "a\u{0}b",
        "a\nb",
        "a\u{7f}",
        "a\u{1b}[31m",
        "photo\u{202e}gpj.exe",
        "\u{feff}a",
        "a\u{2028}b",
        long.as_str(),
    ];
    cases.extend(hostile.map(|path| {
        (
            "files[1].path",
            json!({"files": [
                {"path": "good", "content": ""}, {"path": path, "content": "x"},
            ]}),
        )
    }));
    cases
}

fn schemas() -> Vec<Case> {
    // Each level doubles the work of the check: 2^30 in all.
    let mut definitions = json!({"d0": {"type": "string"}});
    for n in 1..=30 {
        let below = format!("#/$defs/d{}", n - 1);
        definitions[format!("d{n}")] = json!({"allOf": [{"$ref": below}, {"$ref": below}]});
    }
    let exponential = json!({"$defs": definitions, "$ref": "#/$defs/d30"});
    let mut deep = json!({"type": "string"});
    for _ in 0..90 {
        deep = json!({"properties": {"x": deep}});
    }
    let large = json!({"enum": (0..12_000).map(|n| format!("value{n}")).collect::<Vec<_>>()});
    let bad = [
        json!(true),
        json!("object"),
        json!([]),
        json!({"type": "strng"}),
        json!({"type": 7}),
        json!({"required": "name"}),
        json!({"minLength": -1}),
        json!({"pattern": "("}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "http://127.0.0.1/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "other.json"}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"properties": {"x": {"$ref": "https://example.com/x"}}}),
        json!({"$dynamicRef": "https://example.com/x"}),
        json!({"$schema": "https://example.com/own-dialect"}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
        json!({"$id": "https://example.com/x", "$ref": "y"}),
        large,
        deep,
        exponential,
    ];
    let input = bad
        .iter()
        .map(|schema| ("input_schema", json!({"input_schema": schema, "input": {"x": 1}})));
    let output = bad
        .iter()
        .map(|schema| ("output_schema", json!({"output_schema": schema})));
    input.chain(output).collect()
}

/// `docs/RUNS.md#schemas`: `input` must match `input_schema`; the message consists of path and reason.
fn inputs() -> Vec<Case> {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
        },
    });
    let with = |input: Value| json!({"input_schema": schema, "input": input});
    vec![
        ("input.name: required", with(json!({}))),
        ("input.name: not of type \"string\"", with(json!({"name": 7}))),
        (
            "input.items[2].price: not of type \"number\"",
            with(json!({"name": "x", "items": [{}, {"price": 1}, {"price": "2"}]})),
        ),
        ("input: not of type \"object\"", with(json!([]))),
        ("input: not of type \"object\"", with(Value::Null)),
        ("input: required", json!({"input_schema": schema})),
    ]
}

/// References to objects that do not exist in the organization, and fields of the wrong form.
fn not_yet() -> Vec<Case> {
    let callback = |url: &str| json!({"callback": {"url": url, "secret": "s"}});
    vec![
        ("workflow", json!({"workflow": "nightly"})),
        ("workflow", json!({"workflow": "No Name"})),
        ("workflow", json!({"workflow": 1})),
        (
            "files[0].file",
            json!({"files": [{"path": "a", "file": "report.csv"}]}),
        ),
        (
            "files[0].file",
            json!({"files": [{"path": "a", "file": "file_01hf7yat31e4ar9bcdefghjkmn"}]}),
        ),
        ("connections", json!({"connections": {"crm": {"ref": "crm"}}})),
        (
            "connections.crm.url",
            json!({"connections": {"crm": {"type": "http", "url": "ftp://example.com"}}}),
        ),
        (
            "connections.crm.url",
            json!({"connections": {"crm": {"type": "http", "url": "http://169.254.169.254/latest"}}}),
        ),
        ("connections", json!({"connections": {"crm": {}}})),
        ("connections", json!({"connections": []})),
        (
            "token",
            json!({"connections": {"crm": {"ref": "crm", "token": "x"}}}),
        ),
        (
            "connections",
            json!({"connections": (0..17).map(|n| (format!("c{n}"), json!({"ref": "x"}))).collect::<serde_json::Map<_, _>>()}),
        ),
        ("web.allow[0]", json!({"web": {"allow": ["https://example.com"]}})),
        ("web.search", json!({"web": {"search": true}})),
        ("web", json!({"web": "on"})),
        ("alow", json!({"web": {"alow": []}})),
        ("zero_data_retention", json!({"zero_data_retention": "no"})),
        ("callback.url", callback("ftp://example.com/hook")),
        ("callback.url", callback("example.com/hook")),
        ("callback.url", callback("https://ann@example.com/hook")),
        ("callback.url", callback("https://:hush@example.com/hook")),
        (
            "callback.url",
            callback(&format!("https://example.com/{}", "x".repeat(2_048))),
        ),
        (
            "callback.url",
            callback("http://169.254.169.254/latest/meta-data"),
        ),
        ("callback.url", callback("http://[fe80::1]/")),
        (
            "callback.secret",
            json!({"callback": {"url": "https://example.com", "secret": ""}}),
        ),
        (
            "callback.secret",
            json!({"callback": {"url": "https://example.com", "secret": "x".repeat(257)}}),
        ),
        ("callback", json!({"callback": {"url": "https://example.com"}})),
        ("callback", json!({"callback": "https://example.com"})),
        (
            "headers",
            json!({"callback": {"url": "https://example.com", "secret": "s", "headers": {}}}),
        ),
    ]
}

async fn a_request_that_breaks_a_rule_is_refused_by_name_and_creates_nothing(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let cases = [forms(), metadata(), files(), schemas(), inputs(), not_yet()].concat();
    let mut wrong = Vec::new();
    for (named, fields) in cases {
        let mut request = json!({"prompt": "x"});
        for (field, value) in fields.as_object().into_iter().flatten() {
            request[field] = value.clone();
        }
        let answer = client.post("/v1/runs", &request).await?;
        let shown: String = fields.to_string().chars().take(120).collect();
        match answer.refused("invalid_request") {
            // A message is for people: it never quotes a megabyte.
            Ok(refusal) if refusal.error.contains(named) && refusal.error.len() < 2_000 => {}
            Ok(refusal) => wrong.push(format!(
                "{shown}: the message does not name {named}: {}",
                refusal.error
            )),
            Err(error) => wrong.push(format!("{shown}: {error}")),
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of the rules do not hold:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let missing = client
        .post("/v1/runs", &json!({}))
        .refused("invalid_request")
        .await?;
    ensure!(missing.error.contains("prompt"), "{}", missing.error);
    assert_eq!(
        client.get("/v1/runs").expect(200).await?.text(),
        "[]",
        "something was created"
    );
    Ok(())
}

/// `docs/RUNS.md#schemas`: several mismatches are joined by `; `, at most ten of them.
#[tokio::test]
async fn several_mismatches_are_told_together_but_not_endlessly() -> Checked {
    let node = node(Database::Sqlite).await?;
    let names: Vec<String> = (0..25).map(|n| format!("f{n}")).collect();
    let request = json!({"prompt": "x", "input": {}, "input_schema": {"required": names}});
    let refusal = node
        .client()?
        .post("/v1/runs", &request)
        .refused("invalid_request")
        .await?;
    let told = refusal.error.matches(": required").count();
    ensure!(told == 10 && refusal.error.contains("; "), "{}", refusal.error);
    Ok(())
}

/// `docs/RUNS.md#schemas`: the drafts a schema may name, and references within it.
#[tokio::test]
async fn local_references_and_the_known_drafts_are_accepted() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for schema in [
        json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {}}, "$ref": "#/definitions/n"}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object"}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}),
        json!({"type": "object", "properties": {"child": {"$ref": "#"}}}),
        json!({}),
    ] {
        let request = json!({"prompt": "x", "input": {"child": {"child": {}}}, "input_schema": schema});
        client
            .create(&request)
            .await
            .with_context(|| schema.to_string())?;
    }
    Ok(())
}
