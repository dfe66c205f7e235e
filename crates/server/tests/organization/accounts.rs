//! Sign-up, sign-in and the account of a person, over TCP.

use sortie_api::SignUpRule;

use crate::prelude::*;

crate::settings::everywhere! {
    a_person_signs_up_in_and_out,
    refused_sign_ins_are_equal_and_end_in_a_wait,
    a_sign_up_that_is_closed_or_lacks_an_invitation_is_refused,
    a_changed_password_keeps_the_session_that_asks_and_ends_the_others,
    an_account_is_exported_and_deleted,
}

const PASSWORD: &str = "correct horse battery staple";
const OTHER: &str = "seventeen purple elephants";

pub(crate) fn send(client: &Client, method: Method, path: &str, body: &str) -> Pending {
    client.send(method, path, Bytes::from(body.to_owned()))
}

async fn post(client: &Client, path: &str, body: &str) -> Answer {
    send(client, Method::POST, path, body).await.unwrap()
}

fn credentials(email: &str, password: &str) -> String {
    serde_json::json!({"email": email, "password": password}).to_string()
}

async fn sign_up(client: &Client, email: &str) -> Answer {
    let body = serde_json::json!({"email": email, "password": PASSWORD, "name": "Ann"});
    post(client, "/v1/auth/signup", &body.to_string()).await
}

/// Client with the token of a sign-in answer.
fn signed_in(rig: &Rig, answer: &Answer) -> Client {
    let token = answer.json().unwrap()["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("stu_"));
    Client::new(rig.address, Some(token))
}

/// Parts of an answer that a stranger sees, except for the id and the time.
fn shown(answer: &Answer) -> (u16, String, Vec<String>) {
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "date"))
        .filter(|(name, _)| !name.as_str().contains("ratelimit"))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    (answer.status, answer.text(), headers)
}

async fn a_person_signs_up_in_and_out() {
    let rig = Rig::start().await;
    let anybody = Client::new(rig.address, None);
    let created = sign_up(&anybody, "Ann@Example.com").await.expect(201).unwrap();
    assert_eq!(created.header("cache-control").unwrap(), "no-store");
    let body = created.json().unwrap();
    assert_eq!(body["user"]["email"], "Ann@Example.com");
    assert_eq!(
        (&body["user"]["email_verified"], &body["user"]["second_factor"]),
        (&false.into(), &false.into())
    );
    assert_eq!(body["organizations"], serde_json::json!([]));
    sign_up(&anybody, "ann@example.com")
        .await
        .refused("conflict")
        .unwrap();

    let login = post(
        &anybody,
        "/v1/auth/login",
        &credentials("ann@example.com", PASSWORD),
    )
    .await;
    let (first, second) = (
        signed_in(&rig, &created),
        signed_in(&rig, &login.expect(200).unwrap()),
    );
    let me = second.get("/v1/auth/me").must_json(200).await;
    assert_eq!(me, body["user"]);
    let renamed = send(&second, Method::PATCH, "/v1/auth/me", r#"{"name":" Ann B. "}"#)
        .await
        .unwrap();
    assert_eq!(renamed.expect(200).unwrap().json().unwrap()["name"], "Ann B.");
    let sessions = second.get("/v1/auth/sessions").await.unwrap().json().unwrap();
    let current: Vec<_> = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["current"].as_bool().unwrap())
        .collect();
    assert_eq!(current.iter().filter(|current| **current).count(), 1);
    assert_eq!(current.len(), 2);

    post(&second, "/v1/auth/logout", "").await.expect(204).unwrap();
    let refusal = rig.soon(401, async || second.get("/v1/auth/me").await.unwrap());
    refusal.await.refused("unauthorized").unwrap();
    first.get("/v1/auth/me").must(200).await;
    rig.end().await;
}

async fn refused_sign_ins_are_equal_and_end_in_a_wait() {
    let rig = Rig::start().await;
    let anybody = Client::new(rig.address, None);
    sign_up(&anybody, "ann@example.com").await.expect(201).unwrap();
    let login = async |email: &str, password: &str| {
        post(&anybody, "/v1/auth/login", &credentials(email, password)).await
    };
    let (known, unknown) = (
        login("ann@example.com", OTHER).await,
        login("bob@example.com", OTHER).await,
    );
    assert_eq!(shown(&known), shown(&unknown));
    known.refused("unauthorized").unwrap();
    for _ in 1..10 {
        login("ann@example.com", OTHER)
            .await
            .refused("unauthorized")
            .unwrap();
        login("bob@example.com", OTHER)
            .await
            .refused("unauthorized")
            .unwrap();
    }
    let (known, unknown) = (
        login("ann@example.com", PASSWORD).await,
        login("bob@example.com", PASSWORD).await,
    );
    assert_eq!(shown(&known), shown(&unknown));
    let wait: u64 = known.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=4_200).contains(&wait), "{wait}");
    known.refused("rate_limited").unwrap();
    rig.clock
        .set(rig.clock.now() + std::time::Duration::from_mins(70));
    login("ann@example.com", PASSWORD).await.expect(200).unwrap();
    rig.end().await;
}

async fn a_sign_up_that_is_closed_or_lacks_an_invitation_is_refused() {
    for rule in [SignUpRule::Closed, SignUpRule::Invited] {
        let rig = Rig::start_with(|options| options.sign_up = rule).await;
        let anybody = Client::new(rig.address, None);
        sign_up(&anybody, "ann@example.com")
            .await
            .refused("forbidden")
            .unwrap();
        rig.end().await;
    }
}

async fn a_changed_password_keeps_the_session_that_asks_and_ends_the_others() {
    let rig = Rig::start().await;
    let anybody = Client::new(rig.address, None);
    let first = signed_in(
        &rig,
        &sign_up(&anybody, "ann@example.com").await.expect(201).unwrap(),
    );
    let login = post(
        &anybody,
        "/v1/auth/login",
        &credentials("ann@example.com", PASSWORD),
    )
    .await;
    let second = signed_in(&rig, &login.expect(200).unwrap());
    let change = serde_json::json!({"current_password": PASSWORD, "new_password": OTHER}).to_string();
    send(&second, Method::PUT, "/v1/me/password", &change)
        .must(204)
        .await;
    second.get("/v1/auth/me").must(200).await;
    first.get("/v1/auth/me").must_refuse("unauthorized").await;
    let again = send(&second, Method::PUT, "/v1/me/password", &change)
        .await
        .unwrap();
    assert!(
        again
            .refused("invalid_request")
            .unwrap()
            .error
            .starts_with("current_password: ")
    );
    let forgot = post(
        &anybody,
        "/v1/auth/forgot-password",
        r#"{"email":"ann@example.com"}"#,
    )
    .await;
    forgot.refused("conflict").unwrap();
    rig.end().await;
}

async fn an_account_is_exported_and_deleted() {
    let rig = Rig::start().await;
    let anybody = Client::new(rig.address, None);
    let ann = signed_in(
        &rig,
        &sign_up(&anybody, "ann@example.com").await.expect(201).unwrap(),
    );
    let export = ann.get("/v1/auth/me/export").must_json(200).await;
    assert_eq!(export["user"]["email"], "ann@example.com");
    assert_eq!(export["sessions"].as_array().unwrap().len(), 1);
    let delete = async |password: &str| {
        let body = serde_json::json!({"password": password}).to_string();
        send(&ann, Method::DELETE, "/v1/auth/me", &body).await.unwrap()
    };
    delete(OTHER).await.refused("invalid_request").unwrap();
    delete(PASSWORD).await.expect(204).unwrap();
    let refusal = rig.soon(401, async || ann.get("/v1/auth/me").await.unwrap());
    refusal.await.refused("unauthorized").unwrap();
    sign_up(&anybody, "ann@example.com").await.expect(201).unwrap();
    rig.end().await;
}
