//! Saving, showing, replacing, deleting and testing.

use super::put;
use crate::prelude::*;

both_databases![a_connection_is_saved_shown_replaced_and_deleted_and_its_credentials_never_come_back];

async fn a_connection_is_saved_shown_replaced_and_deleted_and_its_credentials_never_come_back(
    database: Database,
) -> Checked {
    let (_node, client) = started(database).await?;
    let definition = json!({
        "type": "http", "url": "https://api.example.com/v1?key=hush1", "auth": {"type": "basic", "username": "hush2", "password": "hush3"},
        "headers": {"X-Key": "hush4"}, "allowed_methods": ["GET", "POST"], "description": "Customers.",
    });
    let made = put(&client, "crm", &definition).json(201).await?;
    assert_eq!(
        made,
        json!({
            "name": "crm", "type": "http", "url": "https://api.example.com/v1", "auth": {"type": "basic"}, "headers": ["X-Key"],
            "allowed_methods": ["GET", "POST"], "description": "Customers.", "status": "ready",
            "created_at": made["created_at"], "updated_at": made["updated_at"], "used_by": [],
        })
    );
    assert_eq!(client.get("/v1/connections/crm").json(200).await?, made);
    put(
        &client,
        "another",
        &json!({"type": "mcp", "url": "https://mcp.example.com/mcp", "allowed_tools": ["find"]}),
    )
    .expect(201)
    .await?;
    let listed = client.get("/v1/connections").json(200).await?;
    let names: Vec<&Value> = listed
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["another", "crm"]);

    let replaced = put(
        &client,
        "crm",
        &json!({"type": "http", "url": "https://api.example.com/v2"}),
    )
    .json(200)
    .await?;
    assert_has!(replaced, {"url": "https://api.example.com/v2", "auth": {"type": "none"}});
    assert_eq!(replaced["created_at"], made["created_at"]);
    ensure!(
        replaced.get("allowed_methods").is_none() && replaced["headers"] == json!([]),
        "{replaced}"
    );

    let workflow = json!({"prompt": "x", "connections": {"customers": {"ref": "crm"}}});
    client.put("/v1/workflows/report", &workflow).expect(201).await?;
    let listed = client.get("/v1/connections").json(200).await?;
    assert_eq!(listed[0]["used_by"], json!([]), "another");
    assert_eq!(listed[1]["used_by"], json!(["report"]), "crm");
    client.delete("/v1/workflows/report").expect(204).await?;
    assert_eq!(
        client.get("/v1/connections/crm").json(200).await?["used_by"],
        json!([])
    );

    client.delete("/v1/connections/crm").expect(204).await?;
    client.get("/v1/connections/crm").refused("not_found").await?;
    client.delete("/v1/connections/crm").refused("not_found").await?;
    Ok(())
}

/// Each rule once over HTTP; the unit tests cover the whole table of rules.
#[tokio::test]
async fn a_definition_that_breaks_a_rule_is_refused_by_name_and_nothing_is_saved() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let good = json!({"type": "http", "url": "https://api.example.com"});
    for (name, fields, told) in rows! {
        "crm", json!({"url": "ftp://a.example"}), "url: must be http or https";
        "crm", json!({"url": "https://a:hush@a.example"}), "url: must not contain user info";
        "crm", json!({"url": "http://169.254.169.254/"}), "url: leads to an address";
        "crm", json!({"auth": {"type": "bearer"}}), "auth.token: required";
        "crm", json!({"auth": {"type": "bearer", "tokn": "hush"}}), "auth.tokn: unknown field";
        "crm", json!({"auth": {"type": "bearer", "token": 7}}), "auth.token: must be a string";
        "crm", json!({"headers": {"Host": "hush"}}), "headers.Host: belongs";
        "crm", json!({"headers": ["hush"]}), "headers: must be an object";
        "crm", json!({"allowed_methods": ["TRACE"]}), "allowed_methods[0]: must be one of";
        "crm", json!({"allowed_method": ["GET"]}), "allowed_method: unknown field";
        "crm", json!({"type": "grpc"}), "type: must be ";
        "crm", json!({"name": "crm"}), "name: unknown field";
        "Crm", json!({}), "name: a name is";
        "catalog%2F", json!({}), "name: a name is";
    } {
        let mut definition = good.clone();
        for (field, value) in fields.as_object().into_iter().flatten() {
            definition[field] = value.clone();
        }
        let refusal = put(&client, name, &definition).refused("invalid_request").await?;
        ensure!(
            refusal.error.starts_with(told),
            "{name} {fields}: {}",
            refusal.error
        );
        ensure!(
            !refusal.error.contains("hush"),
            "a credential is repeated: {}",
            refusal.error
        );
    }
    assert_eq!(client.get("/v1/connections").expect(200).await?.text(), "[]");
    Ok(())
}

#[tokio::test]
async fn well_known_services_are_listed_and_their_route_is_no_name() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let services = client.get("/v1/connections/catalog").json(200).await?;
    ensure!(
        services
            .as_array()
            .into_iter()
            .flatten()
            .any(|service| service["name"] == "github" && service["auth"] == json!({"type": "bearer"})),
        "{services}"
    );
    put(
        &client,
        "catalog",
        &json!({"type": "http", "url": "https://api.example.com"}),
    )
    .refused("method_not_allowed")
    .await?;
    Ok(())
}

#[tokio::test]
async fn private_addresses_are_refused_where_the_configuration_says_so() -> Checked {
    let service = Service::start().await?;
    let options = NodeOptions::default().env("SORTIE_PRIVATE_ADDRESSES", "callbacks");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    let by_address = json!({"type": "http", "url": service.url()});
    let refusal = put(&client, "crm", &by_address)
        .refused("invalid_request")
        .await?;
    ensure!(
        refusal.error.starts_with("url: leads to an address"),
        "{}",
        refusal.error
    );
    let run = json!({"prompt": "x", "connections": {"crm": by_address}});
    let refusal = client.post("/v1/runs", &run).refused("invalid_request").await?;
    ensure!(
        refusal.error.starts_with("connections.crm.url: leads to"),
        "{}",
        refusal.error
    );
    Ok(())
}

async fn tested(node: &Node, name: &str) -> Result<Value> {
    let path = format!("/v1/connections/{name}/test");
    node.client()?.post_empty(&path).json(200).await
}

#[tokio::test]
async fn a_test_calls_the_other_side_and_becomes_the_status() -> Checked {
    let service = Service::start().await?;
    let (node, client) = started(Database::Sqlite).await?;
    let bearer = json!({"type": "bearer", "token": "hush-hush"});
    put(
        &client,
        "good",
        &json!({"type": "http", "url": format!("{}/echo", service.url()), "auth": bearer}),
    )
    .expect(201)
    .await?;
    put(
        &client,
        "refused",
        &json!({"type": "http", "url": format!("{}/guarded", service.url()), "auth": bearer}),
    )
    .expect(201)
    .await?;
    put(
        &client,
        "gone",
        &json!({"type": "http", "url": "http://127.0.0.1:9/", "auth": bearer}),
    )
    .expect(201)
    .await?;
    put(
        &client,
        "tools",
        &json!({"type": "mcp", "url": format!("{}/mcp", service.url())}),
    )
    .expect(201)
    .await?;

    let found = tested(&node, "good").await?;
    assert_has!(found, {"status": "ready", "http_status": 200});
    let asked = service.received();
    ensure!(
        asked[0].method == "HEAD" && asked[0].headers["authorization"] == "Bearer hush-hush",
        "{asked:?}"
    );
    let found = tested(&node, "tools").await?;
    assert_has!(found, {"status": "ready", "tools": ["echo", "other"]});
    for name in ["refused", "gone"] {
        let found = tested(&node, name).await?;
        assert_eq!(found["status"], "error", "{found}");
        ensure!(!found.to_string().contains("hush-hush"), "{found}");
        let shown = client.get(&format!("/v1/connections/{name}")).await?.json()?;
        assert_has!(shown, {"status": "error", "error": found["detail"]});
    }
    client
        .post_empty("/v1/connections/nothing/test")
        .refused("not_found")
        .await?;
    Ok(())
}

/// Runs `sortie serve` on the node's data, expects a refusal, and returns its message.
fn refused(node: &Node, environment: &[(&str, &str)]) -> Result<String> {
    let mut command = node.sortie(&["serve", "--listen", "127.0.0.1:0"]);
    command.envs(environment.iter().copied());
    Ok(text(&exits(command, 78)?.stderr))
}

/// Credentials can be read only with the key of the data folder. A node with another key, or without one, does not
/// start, so it claims no runs that other nodes could execute. It also makes no new key, which would look like the
/// missing one.
#[tokio::test]
async fn credentials_outlive_a_restart_and_need_the_key_they_were_sealed_with() -> Checked {
    let service = Service::start().await?;
    let mut node = node(Database::Sqlite).await?;
    let definition = json!({"type": "http", "url": format!("{}/echo", service.url()), "auth": {"type": "bearer", "token": "hush-hush"}});
    put(&node.client()?, "crm", &definition).expect(201).await?;
    node.stop().await?;
    node.restart().await?;
    assert_eq!(tested(&node, "crm").await?["status"], "ready");

    node.stop().await?;
    let (other, file) = ("5".repeat(64), node.data_dir().join("master.key"));
    let old = std::fs::read_to_string(&file)?;
    let key: sortie_engine::MasterKey = old.trim().parse()?;
    let sealed_with = format!("this database is sealed with master key {}", key.id());
    let said = refused(&node, &[("SORTIE_MASTER_KEY", &other)])?;
    assert_contains!(said, &sealed_with, "SORTIE_MASTER_KEY");
    std::fs::remove_file(&file)?;
    let said = refused(&node, &[])?;
    assert_contains!(said, &sealed_with, "no master key");
    ensure!(!file.exists(), "a key was made");
    // An engine of one command as well.
    let said = text(&exits(node.sortie(&["connections", "list"]), 78)?.stderr);
    ensure!(said.contains(&sealed_with) && !file.exists(), "{said}");

    // The new key first, then the old one: existing values still open, and newly saved ones are sealed with the new
    // key.
    node.options_mut()
        .environment
        .push(("SORTIE_MASTER_KEY".to_owned(), format!("{other}, {}", old.trim())));
    node.restart().await?;
    assert_eq!(tested(&node, "crm").await?["status"], "ready");
    put(&node.client()?, "crm", &definition).expect(200).await?;
    ensure!(
        !node.log().contains(&other) && !node.log().contains(old.trim()),
        "a key is logged"
    );
    Ok(())
}
