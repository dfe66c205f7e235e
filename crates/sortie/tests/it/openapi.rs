//! `/openapi.json` (`docs/API.md#versions`), compared with the node that it describes.

use crate::prelude::*;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Every operation of the document: method, path, description.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let operations = METHODS
                .iter()
                .filter_map(move |method| Some((method, item.get(method)?)));
            operations
                .map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
        })
        .collect()
}

#[tokio::test]
async fn the_document_is_openapi_3_1_and_names_each_operation_once() -> Checked {
    let node = node(Database::Sqlite).await?;
    let document = node.client()?.anonymous().get("/openapi.json").json(200).await?;
    ensure!(
        document["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1."))
    );
    let operations = operations(&document);
    let mut names = Vec::new();
    for (method, path, operation) in &operations {
        for field in ["operationId", "summary"] {
            ensure!(operation[field].is_string(), "{method} {path} has no {field}");
        }
        names.push(operation["operationId"].clone());
        let responses = operation["responses"].as_object().context("no responses")?;
        ensure!(
            responses.keys().any(|status| status.starts_with('2')),
            "{method} {path}"
        );
        ensure!(
            responses
                .values()
                .all(|response| response["description"].is_string() || response["$ref"].is_string()),
            "{method} {path}: a response without a description"
        );
    }
    let count = names.len();
    ensure!(count > 50, "{count} operations");
    names.sort_by_key(ToString::to_string);
    names.dedup();
    assert_eq!(names.len(), count, "an operationId is there twice");
    Ok(())
}

/// To add an operation, add its callers here.
#[tokio::test]
async fn every_operation_answers_without_a_key_as_the_document_says() -> Checked {
    let node = node(Database::Sqlite).await?;
    let nobody = node.client()?.anonymous();
    let document = nobody.get("/openapi.json").json(200).await?;
    for (method, path, operation) in operations(&document) {
        let concrete = path
            .replace("{id}", "run_01hf7yat31e4ar9bcdefghjkmn")
            .replace("{name}", "crm");
        let answer = nobody
            .send(Method::from_bytes(method.as_bytes())?, &concrete, Bytes::new())
            .await?;
        let security = operation.get("security").or_else(|| document.get("security"));
        let open = security.and_then(Value::as_array).is_none_or(Vec::is_empty);
        if open {
            // The first two need the state of an authorization and the third one a key, the next one an engine with an
            // https address, and the last two a hosted deployment.
            let expected = match path.as_str() {
                "/v1/oauth/callback" | "/v1/oauth/callback/{tag}" | "/v1/console/sessions" => 400,
                "/v1/oauth/client-metadata/{tag}" => 404,
                path if path.starts_with("/.well-known/oauth-protected-resource") => 404,
                _ => 200,
            };
            answer
                .expect(expected)
                .with_context(|| format!("{method} {path} is described as open"))?;
        } else {
            answer
                .refused("unauthorized")
                .with_context(|| format!("{method} {path}"))?;
        }
    }
    Ok(())
}
