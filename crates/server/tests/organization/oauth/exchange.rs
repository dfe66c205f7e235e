//! The token endpoint: codes, refresh tokens, clients with a secret, revocation.

use super::{
    anybody, client_id, code, form, me, redemption, refresh, refused, refuses, register, text, tokens,
};
use crate::{browser::encoded, prelude::*};

crate::settings::everywhere! {
    a_code_is_bound_to_its_client_redirect_and_verifier,
    a_code_ends_after_a_minute,
    a_second_use_of_a_refresh_token_ends_the_family,
    a_confidential_client_proves_itself_by_the_header_or_by_the_form,
    a_client_revokes_its_own_tokens_and_is_not_told_about_others,
}

async fn a_code_is_bound_to_its_client_redirect_and_verifier() {
    let rig = Rig::start().await;
    let (client, other) = (client_id(&rig).await, client_id(&rig).await);
    let code = code(&rig, &rig.member, &client, "").await;
    let with = |name: &'static str, value: &'static str| {
        let mut fields = redemption(&client, &code);
        fields.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            fields.push((name, value));
        }
        fields
    };
    for (fields, status, error) in rows! {
        with("grant_type", ""), 400, "invalid_request";
        with("grant_type", "password"), 400, "unsupported_grant_type";
        with("client_id", ""), 400, "invalid_request";
        with("client_id", "client_01kafs6w1cefkstv6qr1ptb0mp"), 401, "invalid_client";
        with("client_id", "x"), 401, "invalid_client";
        with("client_secret", "stc_x"), 401, "invalid_client";
        with("code", ""), 400, "invalid_request";
        with("code", "sta_x"), 400, "invalid_grant";
        with("code_verifier", ""), 400, "invalid_request";
        with("code_verifier", "short"), 400, "invalid_request";
        with("code_verifier", "aBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"), 400, "invalid_grant";
        with("redirect_uri", "https://app.example.com/other"), 400, "invalid_grant";
        with("resource", "https://other.example"), 400, "invalid_target";
    } {
        refuses(&rig, "/oauth/token", &fields, status, error).await;
    }
    refuses(
        &rig,
        "/oauth/token",
        &redemption(&other, &code),
        400,
        "invalid_grant",
    )
    .await;
    let mut twice = redemption(&client, &code);
    twice.push(("code", &code));
    refuses(&rig, "/oauth/token", &twice, 400, "invalid_request").await;
    let answer = anybody(&rig)
        .post("/oauth/token", &json!({"grant_type": "x"}))
        .await
        .unwrap();
    refused(&answer, 400, "invalid_request");

    let answer = form(&rig, "/oauth/token", &redemption(&client, &code))
        .must(200)
        .await;
    assert_eq!(answer.header("cache-control").unwrap(), "no-store");
    let issued = answer.json().unwrap();
    let access = text(&issued, "access_token");
    // A replay without the verifier ends nothing.
    let wrong = with("code_verifier", "aBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    refuses(&rig, "/oauth/token", &wrong, 400, "invalid_grant").await;
    assert_eq!(me(&rig, access).await.unwrap().status, 200);
    refuses(
        &rig,
        "/oauth/token",
        &redemption(&client, &code),
        400,
        "invalid_grant",
    )
    .await;
    let refusal = rig.soon(401, async || me(&rig, access).await.unwrap()).await;
    refusal.refused("unauthorized").unwrap();
    rig.end().await;
}

async fn a_code_ends_after_a_minute() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let code = code(&rig, &rig.member, &client, "").await;
    rig.clock.set(rig.clock.now() + Duration::from_mins(1));
    refuses(
        &rig,
        "/oauth/token",
        &redemption(&client, &code),
        400,
        "invalid_grant",
    )
    .await;
    rig.end().await;
}

async fn a_second_use_of_a_refresh_token_ends_the_family() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let first = tokens(&rig, &rig.member, &client, "").await;
    let old = text(&first, "refresh_token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", &*client),
        ("refresh_token", old),
        ("scope", "admin"),
    ];
    refuses(&rig, "/oauth/token", &fields, 400, "invalid_scope").await;
    refused(
        &refresh(&rig, &client_id(&rig).await, old).await,
        400,
        "invalid_grant",
    );
    refused(&refresh(&rig, &client, "str_x").await, 400, "invalid_grant");

    let second = refresh(&rig, &client, old)
        .await
        .expect(200)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(second["scope"], "member");
    let access = text(&second, "access_token");
    assert_eq!(me(&rig, access).await.unwrap().status, 200);
    assert_eq!(me(&rig, text(&first, "access_token")).await.unwrap().status, 200);
    refused(&refresh(&rig, &client, old).await, 400, "invalid_grant");
    let refusal = rig.soon(401, async || me(&rig, access).await.unwrap()).await;
    refusal.refused("unauthorized").unwrap();
    refused(
        &refresh(&rig, &client, text(&second, "refresh_token")).await,
        400,
        "invalid_grant",
    );
    rig.end().await;
}

async fn a_confidential_client_proves_itself_by_the_header_or_by_the_form() {
    let rig = Rig::start().await;
    let client = register(
        &rig,
        &json!({"token_endpoint_auth_method": "client_secret_basic"}),
    )
    .await;
    let (id, secret) = (text(&client, "client_id"), text(&client, "client_secret"));
    let code = code(&rig, &rig.member, id, "").await;
    let without = redemption(id, &code);
    refuses(&rig, "/oauth/token", &without, 401, "invalid_client").await;
    let mut wrong = without.clone();
    wrong.push(("client_secret", "stc_x"));
    let refusal = form(&rig, "/oauth/token", &wrong).await.unwrap();
    refused(&refusal, 401, "invalid_client");
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        "Basic realm=\"Sortie\""
    );
    let mut right = without.clone();
    right.push(("client_secret", secret));
    let issued = form(&rig, "/oauth/token", &right).must_json(200).await;

    let basic = format!("Basic {}", base64(&format!("{id}:{secret}")));
    let with_header = anybody(&rig)
        .with_header("authorization", basic)
        .with_header("content-type", "application/x-www-form-urlencoded");
    let body = encoded(&[
        ("grant_type", "refresh_token"),
        ("refresh_token", text(&issued, "refresh_token")),
    ]);
    let next = with_header
        .send(Method::POST, "/oauth/token", body.into())
        .must_json(200)
        .await;
    let body = encoded(&[("token", text(&next, "access_token"))]);
    let revoked = with_header
        .send(Method::POST, "/oauth/revoke", body.into())
        .await
        .unwrap();
    assert_eq!(revoked.status, 200);
    me(&rig, text(&next, "access_token"))
        .must_refuse("unauthorized")
        .await;
    rig.end().await;
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

async fn a_client_revokes_its_own_tokens_and_is_not_told_about_others() {
    let rig = Rig::start().await;
    let (client, other) = (client_id(&rig).await, client_id(&rig).await);
    for kind in ["access_token", "refresh_token"] {
        let issued = tokens(&rig, &rig.member, &client, "").await;
        let (token, access) = (text(&issued, kind), text(&issued, "access_token"));
        assert_eq!(me(&rig, access).await.unwrap().status, 200);
        for (client, token) in [(other.as_str(), token), (&client, "sto_x"), (&client, "x")] {
            let answer = form(&rig, "/oauth/revoke", &[("client_id", client), ("token", token)])
                .await
                .unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, ""));
            assert_eq!(answer.header("cache-control").unwrap(), "no-store");
        }
        assert_eq!(me(&rig, access).await.unwrap().status, 200);
        let fields = [
            ("client_id", client.as_str()),
            ("token", token),
            ("token_type_hint", "access_token"),
        ];
        assert_eq!(form(&rig, "/oauth/revoke", &fields).await.unwrap().status, 200);
        let refusal = rig.soon(401, async || me(&rig, access).await.unwrap()).await;
        refusal.refused("unauthorized").unwrap();
    }
    refuses(
        &rig,
        "/oauth/revoke",
        &[("client_id", &client)],
        400,
        "invalid_request",
    )
    .await;
    refuses(
        &rig,
        "/oauth/revoke",
        &[("client_id", "x"), ("token", "y")],
        401,
        "invalid_client",
    )
    .await;
    rig.end().await;
}
