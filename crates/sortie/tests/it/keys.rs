//! `/v1/admin/keys` (`docs/ADMINISTRATION.md#keys`) and the permissions of keys (`docs/API.md#authentication`).

use crate::prelude::*;

both_databases![
    a_key_is_shown_once_works_and_is_revoked,
    a_lost_admin_key_is_replaced_while_the_engine_is_stopped
];

async fn a_key_is_shown_once_works_and_is_revoked(database: Database) -> Checked {
    let (_node, admin) = started(database).await?;
    let created = admin
        .post("/v1/admin/keys", &json!({"name": " deploy "}))
        .json(201)
        .await?;
    assert_has!(created, {"name": "deploy", "role": "member"});
    let secret = created["key"].as_str().unwrap_or_default();
    ensure!(secret.starts_with("sts_") && secret.len() == 53, "{created}");
    let listed = admin.get("/v1/admin/keys").expect(200).await?;
    assert_eq!(listed.json()?.as_array().map(Vec::len), Some(2));
    ensure!(
        !listed.text().contains(secret) && !listed.text().contains("\"key\""),
        "a secret is listed"
    );

    let member = admin.with_key(secret);
    assert_eq!(member.get("/v1/me").json(200).await?["role"], "member");
    member.create(&plain("a member's run")).await?;
    for (method, path) in [(Method::GET, "/v1/admin/keys"), (Method::POST, "/v1/admin/keys")] {
        let body = if method == Method::POST {
            r#"{"name":"x"}"#
        } else {
            ""
        };
        member
            .send(method, path, Bytes::from(body))
            .refused("forbidden")
            .await?;
    }

    let path = format!("/v1/admin/keys/{}", created["id"].as_str().unwrap_or_default());
    member.delete(&path).refused("forbidden").await?;
    admin.delete(&path).expect(204).await?;
    member.get("/v1/me").refused("unauthorized").await?;
    admin.delete(&path).refused("not_found").await?;
    Ok(())
}

/// `docs/ADMINISTRATION.md#a-lost-admin-key`.
async fn a_lost_admin_key_is_replaced_while_the_engine_is_stopped(database: Database) -> Checked {
    let mut node = node(database).await?;
    let address = node.records_address();
    let offline = |node: &Node, name: &str| {
        let mut command = node.sortie(&["keys", "create", name, "--role", "admin", "--offline"]);
        command.args(["--database-url", &address]);
        command
    };
    if database == Database::Sqlite {
        let refused = text(&exits(offline(&node, "early"), 69)?.stderr);
        assert_contains!(refused, "an engine works in the data folder");
    }
    node.stop().await?;
    std::fs::remove_file(node.data_dir().join("admin.key"))?;
    let made = text(&exits(offline(&node, "found again"), 0)?.stdout);
    exits(offline(&node, " "), 64)?;
    node.restart().await?;
    let admin = node.client()?.with_key(made.trim());
    assert_eq!(admin.get("/v1/me").json(200).await?["role"], "admin");
    let log = admin.get("/v1/admin/audit?action=key.create").expect(200).await?;
    let entry = &log.json()?["items"][0];
    assert_eq!(entry["actor_kind"], "operator", "{entry}");
    let keys = admin.get("/v1/admin/keys").json(200).await?;
    let names: Vec<_> = keys
        .as_array()
        .into_iter()
        .flatten()
        .map(|key| &key["name"])
        .collect();
    assert_eq!(names, ["first admin key", "found again"]);
    Ok(())
}

/// A database on which no engine has started has no organization that could own a key.
#[tokio::test]
async fn no_key_is_created_offline_before_the_first_start() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    node.stop().await?;
    let elsewhere = node.data_dir().join("elsewhere.db");
    let mut command = node.sortie(&["keys", "create", "early", "--offline"]);
    command.env("SORTIE_DATABASE_URL", format!("sqlite:{}", elsewhere.display()));
    let refused = text(&exits(command, 69)?.stderr);
    ensure!(
        refused.contains("does not exist yet") && !elsewhere.exists(),
        "{refused}"
    );
    Ok(())
}

/// `docs/ADMINISTRATION.md#keys`: no admin can lock themselves out.
#[tokio::test]
async fn the_last_admin_key_cannot_be_deleted() -> Checked {
    let (_node, admin) = started(Database::Sqlite).await?;
    let keys = admin.get("/v1/admin/keys").json(200).await?;
    let path = format!("/v1/admin/keys/{}", keys[0]["id"].as_str().unwrap_or_default());
    admin.delete(&path).refused("conflict").await?;
    let second = json!({"name": "second", "role": "admin"});
    let second = admin.post("/v1/admin/keys", &second).json(201).await?;
    admin.delete(&path).expect(204).await?;
    let second = admin.with_key(second["key"].as_str().unwrap_or_default());
    assert_eq!(second.get("/v1/me").json(200).await?["role"], "admin");
    Ok(())
}

#[tokio::test]
async fn a_key_without_a_name_or_with_another_role_is_refused() -> Checked {
    let (_node, admin) = started(Database::Sqlite).await?;
    for (body, field) in [
        (json!({}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": "  "}), "name"),
        (json!({"name": "n".repeat(201)}), "name"),
        (json!({"name": 7}), "name"),
        (json!({"name": "x", "role": "owner"}), "role"),
        (json!({"name": "x", "role": "root"}), "role"),
        (json!({"name": "x", "admin": true}), "admin"),
    ] {
        let refusal = admin
            .post("/v1/admin/keys", &body)
            .refused("invalid_request")
            .await?;
        ensure!(refusal.error.contains(field), "{body}: {}", refusal.error);
    }
    assert_eq!(
        admin
            .get("/v1/admin/keys")
            .await?
            .json()?
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    Ok(())
}
