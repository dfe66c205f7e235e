//! Attacks on the authorization of a connection: a link that is passed on, codes that are guessed, and authorization
//! servers that try to get the credentials of another one.

use super::{
    authorization::{begin, browse, call, code, confirm, consent, definition, path_of, status},
    put,
};
use crate::prelude::*;

both_databases![
    a_link_that_is_passed_on_gives_nobody_the_tokens_of_who_opens_it,
    a_code_is_good_for_its_organization_once_and_for_five_tries,
    a_client_secret_is_sent_to_no_other_authorization_server,
];

/// The admin sends the link to another person, who consents. A run uses that account only after this person has given
/// the code of the page to the admin.
async fn a_link_that_is_passed_on_gives_nobody_the_tokens_of_who_opens_it(database: Database) -> Checked {
    let service = Service::start().await?;
    service.give_tokens_of("victim@example.com");
    let (node, client) = started(database).await?;
    put(&client, "crm", &definition(&service)).expect(201).await?;
    let link = begin(&client).await?;

    let page = client
        .anonymous()
        .get(&browse(&service, &link).await?)
        .expect(200)
        .await?;
    assert_eq!(status(&client).await?, "needs_authorization");
    let (_, run) = client.complete(&call()).await?;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(service.received(), []);
    // The page names the account, the organization and the service to the person; the admin does not see the code.
    let text = page.text();
    for part in [
        "victim@example.com",
        "crm",
        "127.0.0.1",
        &service.url(),
        "keep the code below to yourself",
    ] {
        ensure!(text.contains(part), "{part}: {text}");
    }
    let shown = client.get("/v1/connections/crm").await?.text()
        + &client.get("/v1/admin/audit").await?.text()
        + &node.log();
    let code = code(&page)?;
    ensure!(!shown.contains(&code), "the code is shown to others");
    ensure!(
        service
            .tokens()
            .iter()
            .all(|token| !(shown.clone() + &text).contains(token))
    );
    ensure!(shown.contains("waits for its confirmation"), "{shown}");

    let confirmed = confirm(&client, &code).json(200).await?;
    assert_eq!(
        confirmed,
        json!({"connection": "crm", "status": "ready", "account": "victim@example.com", "scope": "read"})
    );
    let (_, run) = client.complete(&call()).await?;
    assert_ended!(run, Succeeded);
    Ok(())
}

async fn a_code_is_good_for_its_organization_once_and_for_five_tries(database: Database) -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(database).await?;
    put(&client, "crm", &definition(&service)).expect(201).await?;
    confirm(&client, "BCDF-GHJK").refused("conflict").await?;
    confirm(&client, "A").refused("invalid_request").await?;
    let path = "/v1/connections/none/oauth/confirm";
    client
        .post(path, &json!({"code": "BCDF-GHJK"}))
        .refused("not_found")
        .await?;

    let first = code(&consent(&client, &service).await?)?;
    let wrong = if first == "BBBB-BBBB" {
        "CCCC-CCCC"
    } else {
        "BBBB-BBBB"
    };
    for _ in 0..4 {
        let refused = confirm(&client, wrong).refused("conflict").await?;
        ensure!(
            refused.error.starts_with("code: is not the one"),
            "{}",
            refused.error
        );
    }
    let log = client
        .get("/v1/admin/audit?action=connection.confirmation_refused")
        .await?;
    assert_eq!(log.json()?["items"].as_array().context("no items")?.len(), 4);
    // People write it as they like.
    let typed = first.to_lowercase().replace('-', " ");
    confirm(&client, &typed).expect(200).await?;
    confirm(&client, &first).refused("conflict").await?;
    assert_eq!(status(&client).await?, "ready");

    // The fifth wrong code ends the authorization, and the right one is then refused as well.
    let second = code(&consent(&client, &service).await?)?;
    let wrong = if second == "BBBB-BBBB" {
        "CCCC-CCCC"
    } else {
        "BBBB-BBBB"
    };
    for _ in 0..5 {
        confirm(&client, wrong).refused("conflict").await?;
    }
    confirm(&client, &second).refused("conflict").await?;

    // A code is also refused after the connection was replaced.
    let third = code(&consent(&client, &service).await?)?;
    put(&client, "crm", &definition(&service)).expect(200).await?;
    confirm(&client, &third).refused("conflict").await?;
    Ok(())
}

fn discovered(service: &Service, client: &Value) -> Value {
    let mut auth = json!({"type": "oauth"});
    for (field, value) in client.as_object().into_iter().flatten() {
        auth[field] = value.clone();
    }
    json!({"type": "mcp", "url": format!("{}/guarded", service.url()), "auth": auth})
}

fn begun(client: &Client) -> Pending {
    client.post_empty("/v1/connections/crm/oauth")
}

/// The resource server names an attacker's authorization server after the connection was authorized with the right one.
async fn a_client_secret_is_sent_to_no_other_authorization_server(database: Database) -> Checked {
    let (service, attacker) = (Service::start().await?, Service::start().await?);
    let (_node, client) = started(database).await?;
    let given = json!({"client_id": "sortie", "client_secret": "hush-client"});
    put(&client, "crm", &discovered(&service, &given))
        .expect(201)
        .await?;
    let page = consent(&client, &service).await?;
    let confirmed = confirm(&client, &code(&page)?).expect(200).await?;
    assert_eq!(confirmed.json()?["issuer"], service.url());
    assert_eq!(service.token_requests().len(), 1);

    service.name_authorization_server(&attacker.url());
    let refused = begun(&client).await?;
    if refused.status == 200 {
        // If the attack gets this far, carry it out to the end.
        let url = refused.json()?["authorization_url"].clone();
        let back = browse(&attacker, url.as_str().context("no URL")?).await?;
        client.anonymous().get(&back).await?;
    }
    assert_eq!(attacker.token_requests(), [] as [String; 0]);
    let refused = refused.refused("conflict")?;
    for part in [
        attacker.url(),
        format!("belongs to {}", service.url()),
        "auth.issuer".to_owned(),
    ] {
        ensure!(refused.error.contains(&part), "{part}: {}", refused.error);
    }
    // The pin also holds if the tokens are gone and the connection is unchanged.
    let same = put(&client, "crm", &discovered(&service, &given))
        .expect(200)
        .await?;
    assert_eq!(same.json()?["status"], "ready");
    begun(&client).refused("conflict").await?;
    // An administrator who names the new server intends the change.
    let named = json!({"client_id": "sortie", "client_secret": "hush-client", "issuer": attacker.url()});
    put(&client, "crm", &discovered(&service, &named))
        .expect(200)
        .await?;
    begun(&client).expect(200).await?;
    // If the issuer is configured with the client, it applies from the first authorization on.
    let named = json!({"client_id": "sortie", "client_secret": "hush-client", "issuer": service.url()});
    put(&client, "crm", &discovered(&service, &named))
        .expect(200)
        .await?;
    begun(&client).refused("conflict").await?;
    assert_eq!(attacker.token_requests(), [] as [String; 0]);
    Ok(())
}

fn parameter(url: &str, name: &str) -> Result<String> {
    let query = url.split_once('?').context("no query")?.1;
    let pair = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    Ok(pair
        .context("no such parameter")?
        .replace("%3A", ":")
        .replace("%2F", "/"))
}

/// A mix-up attack: the attacker's server redirects the browser to an honest one, with the state of the attacker's
/// flow. The code of the honest server then comes back under that state.
#[tokio::test]
async fn a_code_of_one_server_is_not_sent_to_another() -> Checked {
    let (honest, attacker) = (Service::start().await?, Service::start().await?);
    let (_node, client) = started(Database::Sqlite).await?;
    let nobody = client.anonymous();
    let own = json!({});
    put(&client, "crm", &discovered(&honest, &own))
        .expect(201)
        .await?;
    let to_honest = begin(&client).await?;
    put(&client, "crm", &discovered(&attacker, &own))
        .expect(200)
        .await?;
    let to_attacker = begin(&client).await?;

    let arrives = parameter(&to_honest, "redirect_uri")?;
    let state = parameter(&to_attacker, "state")?;
    let back = format!(
        "{}?code=code-of-the-honest-server&state={state}",
        path_of(&arrives)?
    );
    nobody.get(&back).refused("conflict").await?;
    assert_eq!(attacker.token_requests(), [] as [String; 0]);
    // At its own address the flow works.
    let page = consent(&client, &attacker).await?;
    confirm(&client, &code(&page)?).expect(200).await?;

    // Given endpoints: a callback that names another server is refused.
    let given = Service::start().await?;
    given.call_back_as("https://evil.example");
    put(&client, "crm", &definition(&given)).expect(200).await?;
    let back = browse(&given, &begin(&client).await?).await?;
    let refused = nobody.get(&back).refused("conflict").await?;
    assert_contains!(refused.error, "https://evil.example");
    assert_eq!(given.token_requests(), [] as [String; 0]);
    given.call_back_as(&given.url());
    let page = consent(&client, &given).await?;
    confirm(&client, &code(&page)?).expect(200).await?;
    let log = client
        .get("/v1/admin/audit?action=connection.not_authorized")
        .await?;
    assert_eq!(log.json()?["items"].as_array().context("no items")?.len(), 2);
    Ok(())
}

/// Without a terminal, the command prints the address and the next step.
#[tokio::test]
async fn a_connection_is_authorized_from_the_command_line() -> Checked {
    let service = Service::start().await?;
    service.give_tokens_of("ann@example.com");
    let (node, client) = started(Database::Sqlite).await?;
    put(&client, "crm", &definition(&service)).expect(201).await?;
    let begun = node.sortie(&["connections", "authorize", "crm"]).output()?;
    let (url, told) = (String::from_utf8(begun.stdout)?, String::from_utf8(begun.stderr)?);
    ensure!(told.contains("sortie connections confirm crm CODE"), "{told}");
    let page = client
        .anonymous()
        .get(&browse(&service, url.trim()).await?)
        .await?;
    let code = code(&page.expect(200)?)?;
    let confirmed = node.sortie(&["connections", "confirm", "crm", &code]).output()?;
    assert_eq!(
        String::from_utf8(confirmed.stdout)?,
        "connection crm is authorized as ann@example.com\n"
    );
    let again = node.sortie(&["connections", "confirm", "crm", &code]).output()?;
    ensure!(
        !again.status.success() && String::from_utf8(again.stderr)?.contains("no authorization waits"),
        "a code is good once"
    );
    Ok(())
}
