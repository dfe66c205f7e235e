//! The description document: a snapshot of the whole document, and rules for every operation.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;

use serde_json::{Map, Value, json, value::RawValue};
use sortie_api::{
    EventType, Micros, RunStatus,
    event::{AnswerReason, ConnectionCall, ModelCall, Spent, ToolEnd},
};

const PUBLIC: [&str; 12] = [
    "get_console",
    "begin_console_session",
    "list_models",
    "get_health",
    "get_readiness",
    "get_metrics",
    "get_description",
    "finish_authorization",
    "finish_own_authorization",
    "get_own_client_metadata",
    "get_resource_metadata",
    "get_resource_metadata_of_path",
];

/// Operations outside of `/v1/admin` that need the role admin.
const ADMIN: [&str; 7] = [
    "put_budget",
    "delete_budget",
    "put_connection",
    "delete_connection",
    "test_connection",
    "authorize_connection",
    "confirm_authorization",
];

const HEADERS: [&str; 6] = [
    "X-Request-Id",
    "RateLimit-Policy",
    "RateLimit",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];

fn operations(document: &Value) -> Vec<(String, String, &Map<String, Value>)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push((
                method.to_uppercase(),
                path.clone(),
                operation.as_object().unwrap(),
            ));
        }
    }
    found
}

/// Every value of the document with its path.
fn walk(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, value);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                walk(member, &format!("{path}/{name}"), visit);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                walk(item, &format!("{path}/{at}"), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_document_is_the_reviewed_one() {
    insta::assert_json_snapshot!(sortie_server::openapi(sortie_server::Api::Engine));
}

#[test]
fn every_operation_says_what_it_does_and_who_may_call_it() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for (method, path, operation) in operations(&document) {
        let name = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap();
        ids.push(id);
        for text in ["summary", "description"] {
            assert!(
                operation[text].as_str().is_some_and(|text| text.len() > 4),
                "{name}: {text}"
            );
        }
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{name}");
        let role = if path.starts_with("/v1/admin/") || ADMIN.contains(&id) {
            "admin"
        } else {
            "member"
        };
        let security = match id {
            "get_run" | "follow_run" | "follow_ui_messages" | "list_run_artifacts" | "get_run_artifact" => {
                json!([{"api_key": ["member"]}, {"run_token": ["read"]}])
            }
            "cancel_run" => json!([{"api_key": ["member"]}, {"run_token": ["cancel"]}]),
            id if PUBLIC.contains(&id) => json!([]),
            _ => json!([{"api_key": [role]}]),
        };
        assert_eq!(operation["security"], security, "{name}");
        if let Some(body) = operation.get("requestBody") {
            for (kind, media) in body["content"].as_object().unwrap() {
                assert!(
                    !media["example"].is_null(),
                    "{name}: an example of the body as {kind}"
                );
            }
            assert_eq!(body["required"], true, "{name}");
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "operation ids are unique");
}

#[test]
fn every_summary_is_one_line() {
    for api in [sortie_server::Api::Engine, sortie_server::Api::Organization] {
        let document = sortie_server::openapi(api);
        for (method, path, operation) in operations(&document) {
            let summary = operation["summary"].as_str().unwrap();
            assert!(!summary.contains('\n'), "{method} {path}: {summary}");
        }
    }
}

#[test]
fn every_operation_names_each_failure_it_can_have() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    for (method, path, operation) in operations(&document) {
        let name = format!("{method} {path}");
        let mut expected = vec![500];
        if operation["security"] != json!([]) {
            expected.extend([401, 403]);
        }
        if path.starts_with("/v1/") {
            expected.extend([429, 503]);
        }
        if operation.contains_key("requestBody") {
            expected.extend([400, 413]);
        }
        if path.contains('{') {
            expected.push(404);
        }
        let responses = operation["responses"].as_object().unwrap();
        for status in expected {
            assert!(responses.contains_key(&status.to_string()), "{name}: {status}");
        }
        for (status, response) in responses {
            check_response(&document, &format!("{name} {status}"), status, response);
        }
    }
}

fn check_response(document: &Value, name: &str, status: &str, response: &Value) {
    let response = match response["$ref"].as_str() {
        Some(target) => document.pointer(target.strip_prefix('#').unwrap()).unwrap(),
        None => response,
    };
    assert!(
        response["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{name}"
    );
    for header in HEADERS {
        assert!(response["headers"][header].is_object(), "{name}: {header}");
    }
    let Some(content) = response["content"].as_object() else {
        assert!(matches!(status, "204" | "304"), "{name}: only these have no body");
        return;
    };
    for (kind, media) in content {
        assert!(!media["example"].is_null(), "{name}: an example of {kind}");
    }
    if status.starts_with(['4', '5']) {
        let media = &content["application/json"];
        assert_eq!(
            media["schema"]["$ref"], "#/components/schemas/ErrorBody",
            "{name}"
        );
        let error: sortie_api::ErrorBody = serde_json::from_value(media["example"].clone()).unwrap();
        let of_example = error.code.status().to_string();
        // A range of statuses has the example of one status in it.
        let is_in_range = status.ends_with("XX") && of_example.starts_with(&status[..1]);
        assert!(is_in_range || of_example == status, "{name}");
    }
}

#[test]
fn the_document_avoids_what_client_generators_stumble_over() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    walk(&document, "", &mut |path, value| {
        let is_said = ["properties", "additionalProperties"].map(|of| value.get(of).is_some());
        if value.get("type") == Some(&json!("object")) && !path.contains("/example") {
            assert_ne!(
                is_said, [false; 2],
                "{path}: an object of any fields has additionalProperties"
            );
        }
        if let Some(types) = value.get("type").and_then(Value::as_array) {
            // In a patch, `null` resets a field to its default.
            let is_patch = path.starts_with("/components/schemas/UpdateSchedule/");
            assert!(
                is_patch || !types.contains(&json!("null")),
                "{path}: absent is not null"
            );
        }
        let parent = path.rsplit('/').nth(1);
        if path.ends_with("/schema") || parent == Some("properties") {
            assert!(!value.is_boolean(), "{path}: a boolean schema");
        }
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            assert!(
                document.pointer(target.trim_start_matches('#')).is_some(),
                "{path}: {target} is not there"
            );
        }
    });
}

/// An event of each type, with every field.
fn events() -> Vec<EventType> {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let spent = Spent {
        spent_micros: Micros::new(8).unwrap(),
        limit_micros: Micros::new(10).unwrap(),
    };
    let text = || "text".to_owned();
    let calls = vec![
        EventType::Status {
            status: RunStatus::Failed,
            error: Some(text()),
        },
        EventType::WorkerStarted {
            runtime: "landlock",
            mode: sortie_api::Mode::Hosted,
            shell: true,
        },
        EventType::ModelCall(ModelCall {
            model: text(),
            step: 1,
            input_tokens: 1,
            output_tokens: 1,
            cache_read_tokens: 1,
            cache_write_tokens: 1,
            cost_micros: Micros::new(1).unwrap(),
            duration_ms: 1,
            stop_reason: "end_turn",
        }),
        EventType::Message {
            text: text(),
            step: 1,
        },
        EventType::ThinkingSummary {
            text: text(),
            step: 1,
        },
        EventType::ToolStart {
            tool: text(),
            id: text(),
            arguments: raw(r#"{"command": "ls"}"#),
        },
        EventType::ToolEnd(ToolEnd {
            tool: text(),
            id: text(),
            is_error: false,
            output: text(),
            output_bytes: 4,
            duration_ms: 1,
            cost_micros: Micros::new(1).unwrap(),
        }),
        EventType::Retry {
            what: text(),
            attempt: 2,
            delay_ms: 1,
            reason: text(),
        },
        EventType::BudgetWarning(spent),
        EventType::BudgetReached(spent),
        EventType::ConnectionCall(ConnectionCall {
            connection: text(),
            method: text(),
            path: text(),
            status: Some(200),
            bytes: 1,
            duration_ms: 1,
        }),
    ];
    calls.into_iter().chain(turns()).collect()
}

/// An event of each type that is about a turn, or about the end of a run.
fn turns() -> Vec<EventType> {
    let text = || "text".to_owned();
    vec![
        EventType::ContextCompacted {
            before_tokens: 2,
            after_tokens: 1,
        },
        EventType::AnswerRequested {
            reason: AnswerReason::Time,
            step: 1,
        },
        EventType::Resumed { step: 1, attempt: 2 },
        EventType::Interrupted {
            reason: "uncertain_call",
            step: 1,
            tool: Some(text()),
            id: Some(text()),
        },
        EventType::OutputRejected {
            errors: vec![text()],
            attempt: 1,
        },
        EventType::Artifact(sortie_api::Artifact {
            path: text(),
            size: 1,
            sha256: sortie_api::Sha256::new([1; 32]),
            content_type: text(),
        }),
        EventType::ArtifactSkipped {
            path: text(),
            reason: text(),
        },
        EventType::Result { output: text() },
        EventType::OutputTruncated {
            limit_bytes: 1,
            output_bytes: 2,
        },
    ]
}

fn names(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn each_recorded_event_has_the_schema_of_its_type() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    let resolved = |schema: &Value| {
        let target = schema["$ref"].as_str();
        target.map_or_else(
            || schema.clone(),
            |target| document.pointer(&target[1..]).unwrap().clone(),
        )
    };
    let event = &document["components"]["schemas"]["Event"];
    assert_eq!(event["discriminator"]["propertyName"], "type");
    let types = &event["discriminator"]["mapping"];
    let events = events();
    let kinds: BTreeSet<&str> = events.iter().map(EventType::kind).collect();
    assert_eq!(kinds, names(types));
    assert_eq!(kinds.len(), event["oneOf"].as_array().unwrap().len());
    let any = json!({"allOf": [event], "components": document["components"]});
    let any = jsonschema::draft202012::new(&any).unwrap();
    for recorded in &events {
        let kind = recorded.kind();
        let schema = resolved(&json!({"$ref": types[kind]}));
        assert_eq!(schema["properties"]["type"]["enum"], json!([kind]));
        assert!(
            schema["description"].as_str().is_some_and(|text| text.len() > 4),
            "{kind}"
        );
        let data = serde_json::to_value(recorded).unwrap();
        assert_eq!(
            names(&data),
            names(&resolved(&schema["properties"]["data"])["properties"]),
            "{kind}"
        );
        let event = json!({"id": 1, "type": kind, "data": data, "created_at": "2026-11-20T21:30:00.000Z"});
        if let Err(error) = any.validate(&event) {
            panic!("{kind}: {error}");
        }
    }
}

#[test]
fn request_bodies_refuse_unknown_fields() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    for name in [
        "RunRequest",
        "RunFile",
        "RunConnection",
        "ConnectionDefinition",
        "ConnectionAuth",
        "WebRestriction",
        "Callback",
        "CreateKey",
        "WorkflowDefinition",
        "RotateKey",
        "RenameFile",
        "CreateSchedule",
        "UpdateSchedule",
    ] {
        let schema = &document["components"]["schemas"][name];
        assert_eq!(schema["additionalProperties"], json!(false), "{name}");
    }
}

#[test]
fn the_examples_of_runs_are_runs() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    let mut seen = 0;
    for (_, _, operation) in operations(&document) {
        for response in operation["responses"].as_object().unwrap().values() {
            let media = &response["content"]["application/json"];
            if media["schema"]["$ref"] == "#/components/schemas/Run" {
                let run: sortie_api::Run = serde_json::from_value(media["example"].clone()).unwrap();
                assert_eq!(serde_json::to_value(run).unwrap(), media["example"]);
                seen += 1;
            }
        }
    }
    assert!(seen >= 4);
    let body =
        &document["paths"]["/v1/runs"]["post"]["requestBody"]["content"]["application/json"]["example"];
    serde_json::from_value::<sortie_api::RunRequest>(body.clone()).unwrap();
}

const APIS: [sortie_server::Api; 2] = [sortie_server::Api::Engine, sortie_server::Api::Organization];

/// Contents of the request and of the answers of an operation, with their names.
fn contents(operation: &Map<String, Value>) -> Vec<(&str, &Map<String, Value>)> {
    let answers = operation["responses"].as_object().unwrap();
    let answers = answers.iter().map(|(status, answer)| (status.as_str(), answer));
    let body = operation.get("requestBody").map(|body| ("body", body));
    body.into_iter()
        .chain(answers)
        .filter_map(|(name, part)| Some((name, part["content"].as_object()?)))
        .collect()
}

/// Examples of a media type or of a parameter.
fn examples(media: &Value) -> Vec<&Value> {
    let named = media["examples"].as_object().into_iter().flat_map(Map::values);
    media
        .get("example")
        .into_iter()
        .chain(named.filter_map(|example| example.get("value")))
        .collect()
}

#[test]
fn each_example_fits_its_schema() {
    for api in APIS {
        let document = sortie_server::openapi(api);
        let mut seen = 0;
        let mut fits = |media: &Value, place: &str| {
            let schema = json!({"allOf": [media["schema"]], "components": document["components"]});
            for example in examples(media) {
                seen += 1;
                let validator = jsonschema::draft202012::new(&schema).unwrap();
                if let Err(error) = validator.validate(example) {
                    panic!("{place}: {error}");
                }
            }
        };
        for (method, path, operation) in operations(&document) {
            for parameter in operation
                .get("parameters")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                fits(parameter, &format!("{method} {path} {}", parameter["name"]));
            }
            for (name, content) in contents(operation) {
                for (media_type, media) in content {
                    fits(media, &format!("{method} {path} {name} {media_type}"));
                }
            }
        }
        assert!(seen >= 150, "{seen}");
    }
}

#[test]
fn dates_in_examples_of_requests_stay_in_the_future() {
    let mut seen = 0;
    for api in APIS {
        let document = sortie_server::openapi(api);
        for (method, path, operation) in operations(&document) {
            let contents = contents(operation)
                .into_iter()
                .filter(|(name, _)| *name == "body");
            for example in contents.flat_map(|(_, content)| content.values().flat_map(examples)) {
                walk(example, "", &mut |at, value| {
                    let year = value.as_str().filter(|text| text.get(4..5) == Some("-"));
                    let year = year.and_then(|text| text.get(..4)?.parse::<u32>().ok());
                    if let Some(year) = year {
                        seen += 1;
                        assert!(year >= 2099, "{method} {path}{at}: {value}");
                    }
                });
            }
        }
    }
    assert!(seen > 0);
}

#[test]
fn what_a_generator_or_a_linter_refuses_is_in_no_document() {
    for api in APIS {
        let document = sortie_server::openapi(api);
        for (method, path, operation) in operations(&document) {
            for (name, content) in contents(operation) {
                assert!(
                    !content.contains_key("*/*") || content.contains_key("application/octet-stream"),
                    "{method} {path} {name}"
                );
            }
            let answers = operation["responses"].as_object().unwrap();
            assert!(
                answers.keys().any(|status| status.starts_with('4')),
                "{method} {path} has no 4XX"
            );
            let links = answers.values().filter_map(|answer| answer["links"].as_object());
            for (name, link) in links.flatten() {
                assert!(link.get("requestBody").is_none(), "{method} {path} {name}");
            }
        }
    }
}

/// Adds the schemas that a part of the document refers to.
fn add_schemas<'a>(document: &'a Value, part: &'a Value, found: &mut BTreeSet<&'a str>) {
    let mut targets = Vec::new();
    collect_references(part, &mut targets);
    for target in targets {
        let is_new = target
            .strip_prefix("#/components/schemas/")
            .is_none_or(|name| found.insert(name));
        if is_new {
            add_schemas(document, document.pointer(&target[1..]).unwrap(), found);
        }
    }
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    found.extend(value["$ref"].as_str());
    let members = value.as_object().into_iter().flat_map(Map::values);
    for part in members.chain(value.as_array().into_iter().flatten()) {
        collect_references(part, found);
    }
}

/// Whether a value of this schema may be `null`.
fn may_be_null(schema: &Value) -> bool {
    let types = schema["type"].as_array().into_iter().flatten();
    let choices = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|choice| schema[choice].as_array());
    types.chain([&schema["type"]]).any(|of| of == "null") || choices.flatten().any(may_be_null)
}

// Answers never use null for an optional field, so a field that may be null is always present.
#[test]
fn a_field_of_an_answer_that_may_be_null_is_required() {
    let mut seen = 0;
    for api in APIS {
        let document = sortie_server::openapi(api);
        let mut schemas = BTreeSet::new();
        for (_, _, operation) in operations(&document) {
            add_schemas(&document, &operation["responses"], &mut schemas);
        }
        for name in schemas {
            let schema = &document["components"]["schemas"][name];
            walk(schema, name, &mut |path, part| {
                for (field, schema) in part["properties"].as_object().into_iter().flatten() {
                    if may_be_null(schema) {
                        seen += 1;
                        let required = part["required"].as_array().into_iter().flatten();
                        assert!(required.into_iter().any(|of| of == field), "{path}: {field}");
                    }
                }
            });
        }
    }
    assert!(seen >= 5, "{seen}");
}
