//! OAuth: a person authorizes a connection, runs use its tokens, and the engine refreshes them.

use futures_util::future::try_join_all;

use super::{calls, put};
use crate::prelude::*;

both_databases![
    a_connection_is_authorized_and_its_tokens_are_renewed,
    tokens_that_are_refused_ask_for_a_person_again,
    one_refused_request_does_not_cost_the_authorization,
    a_call_that_lacks_a_scope_asks_for_it_at_the_next_authorization,
    a_run_that_fails_for_want_of_authorization_tells_it_of_its_connection,
];

pub(super) fn definition(service: &Service) -> Value {
    let url = service.url();
    json!({"type": "http", "url": format!("{url}/guarded"), "auth": {
        "type": "oauth", "client_id": "sortie", "client_secret": "hush-client", "scopes": ["read"],
        "authorization_url": format!("{url}/authorize"), "token_url": format!("{url}/token"),
    }})
}

pub(super) fn call() -> Value {
    calls(
        &[("crm__request", json!({"method": "GET"}))],
        &json!({"crm": {"ref": "crm"}}),
    )
}

/// The path and query of an address on the node or the service.
pub(super) fn path_of(url: &str) -> Result<&str> {
    let rest = url.split_once("://").context("not a URL")?.1;
    rest.find('/').and_then(|at| rest.get(at..)).context("no path")
}

/// Opens the page as a browser does, and returns the path of the redirect.
pub(super) async fn browse(service: &Service, authorization_url: &str) -> Result<String> {
    let address = service.url().trim_start_matches("http://").parse()?;
    let answer = Client::new(address, None)
        .get(path_of(authorization_url)?)
        .expect(303)
        .await?;
    Ok(path_of(answer.header("location")?)?.to_owned())
}

pub(super) async fn begin(client: &Client) -> Result<String> {
    let begun = client.post_empty("/v1/connections/crm/oauth").json(200).await?;
    Ok(begun["authorization_url"].as_str().context("no URL")?.to_owned())
}

/// The code on the page after the redirect.
pub(super) fn code(page: &Answer) -> Result<String> {
    let text = page.text();
    let behind = text.split_once("<strong><code>").context("no code")?.1;
    Ok(behind.split('<').next().context("no end")?.to_owned())
}

/// Presents a code.
pub(super) fn confirm(client: &Client, code: &str) -> Pending {
    client.post("/v1/connections/crm/oauth/confirm", &json!({"code": code}))
}

/// Begins an authorization and consents. Returns the page after the redirect.
pub(super) async fn consent(client: &Client, service: &Service) -> Result<Answer> {
    let back = browse(service, &begin(client).await?).await?;
    client.anonymous().get(&back).expect(200).await
}

/// Saves the connection and authorizes it.
pub(crate) async fn authorize(client: &Client, service: &Service) -> Result<Answer> {
    put(client, "crm", &definition(service)).await?;
    let page = consent(client, service).await?;
    confirm(client, &code(&page)?).await
}

pub(super) async fn status(client: &Client) -> Result<Value> {
    Ok(client.get("/v1/connections/crm").await?.json()?["status"].clone())
}

/// The audit log shows that it was begun with a key, consented to by a browser without a key, and confirmed with a key.
async fn is_written_down(client: &Client) -> Checked {
    let log = client.get("/v1/admin/audit?target=crm").json(200).await?;
    for (at, action, has_key) in [
        (0, "connection.authorized", true),
        (1, "connection.consented", false),
        (2, "connection.authorize", true),
    ] {
        let entry = &log["items"][at];
        assert_eq!(entry["action"], action);
        assert_eq!(entry["address"], "127.0.0.1");
        assert_eq!(entry.get("key_id").is_some(), has_key, "{log}");
    }
    Ok(())
}

async fn a_connection_is_authorized_and_its_tokens_are_renewed(database: Database) -> Checked {
    let service = Service::start().await?;
    // A lifetime so short that the token is refreshed before its first use.
    service.give_tokens_for(1);
    let (node, client) = started(database).await?;
    let made = put(&client, "crm", &definition(&service)).json(201).await?;
    assert_eq!(made["status"], "needs_authorization");
    let (_, run) = client.complete(&call()).await?;
    assert_eq!(run.status, RunStatus::Failed);
    assert_contains!(run.error, "needs to be authorized");

    let url = begin(&client).await?;
    assert_contains!(url, "code_challenge_method=S256", "scope=read");
    let back = browse(&service, &url).await?;
    let page = client.anonymous().get(&back).expect(200).await?;
    ensure!(page.text().contains("crm") && page.header("content-type")?.starts_with("text/html"));
    for (header, value) in [
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.header(header)?, value);
    }
    assert_contains!(page.header("content-security-policy")?, "frame-ancestors 'none'");
    // The state is valid once, and does not lead to the tokens that wait for the code.
    client.anonymous().get(&back).refused("invalid_request").await?;
    confirm(&client, &code(&page)?).expect(200).await?;
    assert_eq!(status(&client).await?, "ready");
    is_written_down(&client).await?;

    service.give_tokens_for(3600);
    let (_, run) = client.complete(&call()).await?;
    assert_ended!(run, Succeeded);
    assert_eq!((service.grants(), service.refused()), (2, 0));
    let (_, run) = client.complete(&call()).await?;
    assert_ended!(run, Succeeded);
    assert_eq!(service.grants(), 2, "a token that is good is used again");
    let shown = client.get(&format!("/v1/runs/{}", run.id)).await?.text() + &node.log();
    let tokens = service.tokens();
    ensure!(tokens.len() > 1, "{} tokens were given", tokens.len());
    ensure!(
        tokens.iter().all(|token| !shown.contains(token)),
        "a token is shown"
    );

    // With the same address and client, the authorization stays. With another client, it is dropped.
    let mut changed = definition(&service);
    changed["description"] = json!("changed");
    assert_eq!(put(&client, "crm", &changed).json(200).await?["status"], "ready");
    changed["auth"]["client_id"] = json!("another");
    assert_eq!(
        put(&client, "crm", &changed).json(200).await?["status"],
        "needs_authorization"
    );
    Ok(())
}

async fn tokens_that_are_refused_ask_for_a_person_again(database: Database) -> Checked {
    let service = Service::start().await?;
    // A lifetime so short that the token is refreshed before its first use.
    service.give_tokens_for(1);
    let (_node, client) = started(database).await?;
    authorize(&client, &service).await?.expect(200)?;
    service.revoke();
    let (_, run) = client.complete(&call()).await?;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(status(&client).await?, "needs_authorization");
    let shown = client.get("/v1/connections/crm").await?.text();
    ensure!(shown.contains("no longer"), "{shown}");
    Ok(())
}

/// The server answers one path with 401, whatever the token: no grant is lost or used up by that, whether it can be
/// refreshed or not.
async fn one_refused_request_does_not_cost_the_authorization(database: Database) -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(database).await?;
    let never = json!({"method": "GET", "path": "/never"});
    let forbidden = calls(
        &[("crm__request", never.clone()), ("crm__request", never)],
        &json!({"crm": {"ref": "crm"}}),
    );
    for (grants, told) in [(1, "HTTP 401"), (2, "refuses the access token")] {
        authorize(&client, &service).await?.expect(200)?;
        let (events, _) = client.complete(&forbidden).await?;
        let events = serde_json::to_string(&events)?;
        ensure!(events.contains(told), "{events}");
        assert_eq!((service.grants(), service.refused()), (grants, 0));
        assert_eq!(status(&client).await?, "ready");
        let (_, run) = client.complete(&call()).await?;
        assert_ended!(run, Succeeded);
        service.give_no_refresh_tokens();
    }
    Ok(())
}

/// The earlier scopes are requested as well.
async fn a_call_that_lacks_a_scope_asks_for_it_at_the_next_authorization(database: Database) -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(database).await?;
    authorize(&client, &service).await?.expect(200)?;
    let scoped = calls(
        &[("crm__request", json!({"method": "GET", "path": "/scoped"}))],
        &json!({"crm": {"ref": "crm"}}),
    );
    let (events, _) = client.complete(&scoped).await?;
    ensure!(serde_json::to_string(&events)?.contains("HTTP 403"), "{events:?}");
    // Other runs still use the tokens.
    let (_, run) = client.complete(&call()).await?;
    assert_ended!(run, Succeeded);
    let shown = client.get("/v1/connections/crm").await?.json()?;
    assert_eq!(shown["status"], "needs_authorization");
    assert_eq!(
        shown["error"],
        "the server requires the scope `write`: authorize the connection again (`sortie connections authorize crm`)"
    );
    let url = begin(&client).await?;
    ensure!(url.contains("scope=read+write"), "{url}");
    let back = browse(&service, &url).await?;
    let page = client.anonymous().get(&back).expect(200).await?;
    confirm(&client, &code(&page)?).expect(200).await?;
    let shown = client.get("/v1/connections/crm").await?.json()?;
    assert_has!(shown, {"status": "ready", "error": null});
    let (_, run) = client.complete(&scoped).await?;
    assert_ended!(run, Succeeded);
    let url = begin(&client).await?;
    ensure!(!url.contains("write"), "the challenge was answered: {url}");
    Ok(())
}

/// An MCP server refuses every token at the start of the run.
async fn a_run_that_fails_for_want_of_authorization_tells_it_of_its_connection(
    database: Database,
) -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(database).await?;
    let mut refusing = definition(&service);
    refusing["type"] = json!("mcp");
    refusing["url"] = json!(format!("{}/guarded/never", service.url()));
    put(&client, "crm", &refusing).expect(201).await?;
    let page = consent(&client, &service).await?;
    confirm(&client, &code(&page)?).expect(200).await?;
    assert_eq!(status(&client).await?, "ready");
    let (_, run) = client
        .complete(&calls(&[], &json!({"crm": {"ref": "crm"}})))
        .await?;
    assert_eq!(run.status, RunStatus::Failed);
    let shown = client.get("/v1/connections/crm").await?.json()?;
    assert_has!(shown, {"status": "needs_authorization", "error": "the server answers HTTP 401"});
    // The refusal may have been temporary: the next run tries again.
    let (_, run) = client
        .complete(&calls(&[], &json!({"crm": {"ref": "crm"}})))
        .await?;
    let error = run.error.unwrap_or_default();
    ensure!(error.contains("the server answers HTTP 401"), "{error}");
    Ok(())
}

/// A refresh token is valid for one use: two nodes with many concurrent runs use each of them once.
#[tokio::test]
async fn many_runs_on_two_nodes_renew_tokens_once() -> Checked {
    let service = Service::start().await?;
    let key = "4".repeat(64);
    let options = NodeOptions::default()
        .env("SORTIE_MASTER_KEY", &key)
        .env("SORTIE_CONCURRENCY", "8");
    let node = node_with(Database::Postgres, options).await?;
    let beside: Node = node.beside().await?;
    let client = node.client()?;
    service.give_tokens_for(1);
    authorize(&client, &service).await?.expect(200)?;
    service.give_tokens_for(3600);
    let clients = [client.clone(), beside.client()?];
    let request = call();
    let runs = (0..16).map(|n| clients[n % 2].complete(&request));
    for (_, run) in try_join_all(runs).await? {
        assert_ended!(run, Succeeded);
    }
    assert_eq!((service.grants(), service.refused()), (2, 0));
    Ok(())
}

/// The state identifies the authorization: an unknown or wrong state, or a refusal by the person, changes nothing.
#[tokio::test]
async fn a_way_back_that_is_not_ours_authorizes_nothing() -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(Database::Sqlite).await?;
    put(&client, "crm", &definition(&service)).expect(201).await?;
    let nobody = client.anonymous();
    for query in [
        "",
        "?code=c",
        "?state=",
        "?state=guess&code=c",
        "?state=a&state=b&code=c",
    ] {
        nobody
            .get(&format!("/v1/oauth/callback{query}"))
            .refused("invalid_request")
            .await?;
    }
    let browser = nobody.with_header("accept", "text/html");
    let page = browser
        .get("/v1/oauth/callback?state=%3Cscript%3E")
        .expect(400)
        .await?;
    ensure!(
        page.header("content-type")?.starts_with("text/html") && !page.text().contains("<script"),
        "{}",
        page.text()
    );

    let back = browse(&service, &begin(&client).await?).await?;
    let state = back.split("state=").nth(1).context("no state")?;
    let refused = nobody
        .get(&format!("/v1/oauth/callback?error=access_denied&state={state}"))
        .await?;
    refused.refused("conflict")?;
    nobody.get(&back).refused("invalid_request").await?;

    // If a person refuses after an earlier authorization, that authorization stays.
    let page = consent(&client, &service).await?;
    confirm(&client, &code(&page)?).expect(200).await?;
    let back = browse(&service, &begin(&client).await?).await?;
    let state = back.split("state=").nth(1).context("no state")?;
    let refused = nobody
        .get(&format!("/v1/oauth/callback?error=access_denied&state={state}"))
        .await?;
    refused.refused("conflict")?;
    let shown = client.get("/v1/connections/crm").await?.json()?;
    assert_eq!(shown["status"], "ready");
    ensure!(
        shown["error"]
            .as_str()
            .is_some_and(|error| error.contains("access_denied")),
        "{shown}"
    );
    let mut another = definition(&service);
    another["auth"]["client_id"] = json!("another");
    put(&client, "crm", &another).expect(200).await?;

    // A code that is not the server's.
    let back = browse(&service, &begin(&client).await?).await?;
    let forged = back.replace("code=code-", "code=forged-");
    nobody.get(&forged).refused("conflict").await?;
    assert_eq!(status(&client).await?, "needs_authorization");
    assert_eq!(service.grants(), 1);

    // An authorization that began before the connection was replaced.
    let back = browse(&service, &begin(&client).await?).await?;
    put(&client, "crm", &definition(&service)).expect(200).await?;
    nobody.get(&back).refused("conflict").await?;
    put(&client, "plain", &json!({"type": "http", "url": service.url()}))
        .expect(201)
        .await?;
    client
        .post_empty("/v1/connections/plain/oauth")
        .refused("conflict")
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_engine_with_an_https_address_says_who_it_is() -> Checked {
    let options = NodeOptions::default().env("SORTIE_ADVERTISE_URL", "https://sortie.example.com/");
    let node = node_with(Database::Sqlite, options).await?;
    // Each connection has a separate one at each authorization server.
    let tag = "0123456789abcdef".repeat(2);
    let nobody = node.client()?.anonymous();
    let path = format!("/v1/oauth/client-metadata/{tag}");
    let own = nobody.get(&path).json(200).await?;
    assert_eq!(own["client_id"], format!("https://sortie.example.com{path}"));
    assert_eq!(
        own["redirect_uris"],
        json!([format!("https://sortie.example.com/v1/oauth/callback/{tag}")])
    );
    let path = "/v1/oauth/client-metadata/x";
    nobody.get(path).refused("not_found").await?;
    Ok(())
}
