//! The console: the sign-in with a key and with a code, and the rules for requests with its cookie
//! (`docs/API.md#sessions-of-the-console`).

use sortie_base::Clock;
use sortie_server::ConsoleFiles;
use sortie_testkit::client::Next;

use crate::{
    prelude::*,
    self_hosted::{Rig as Engine, groups, provider, sign_in},
};

crate::settings::both_databases! {
    a_key_is_exchanged_for_a_session_with_its_role,
    a_wrong_key_and_a_wrong_code_are_told_what_to_do,
    a_code_signs_in_once_and_within_a_minute,
    a_session_ends_with_its_key,
    an_open_stream_ends_with_the_key_of_its_session,
    a_session_ends_after_twelve_hours_without_use_and_after_seven_days,
    a_sign_out_ends_the_session_and_deletes_the_cookie,
    a_person_of_an_identity_provider_uses_the_console,
    the_session_of_another_installation_is_not_one_here,
    another_origin_and_another_port_are_refused,
    a_sign_in_needs_the_headers_of_a_page,
    a_disabled_console_has_no_files_no_codes_and_no_sessions,
}

crate::settings::everywhere! {
    a_person_of_a_hosted_deployment_uses_the_console,
}

const SESSIONS: &str = "/v1/console/sessions";
const CURRENT: &str = "/v1/console/sessions/current";
const HOUR: Duration = Duration::from_hours(1);

/// Client that asks as a page of the console does, without a session.
pub(crate) fn page(engine: &Engine) -> Client {
    as_page(&engine.client(None))
}

fn as_page(client: &Client) -> Client {
    client
        .with_header("sec-fetch-site", "same-origin")
        .with_header("x-sortie-console", "1")
}

/// Name and token of the cookie that an answer sets.
fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// Signs in. Returns the header with the cookie.
async fn session(engine: &Engine, body: &Value) -> String {
    cookie_of(&page(engine).post(SESSIONS, body).must(201).await)
}

/// A page of the console with this cookie.
fn signed_in(engine: &Engine, cookie: &str) -> Client {
    page(engine).with_header("cookie", cookie)
}

async fn code(engine: &Engine) -> String {
    let admin = engine.client(Some(&engine.key));
    let made = admin.post_empty("/v1/console/codes").must_json(201).await;
    made["code"].as_str().unwrap().to_owned()
}

/// Creates a key. Returns its id and its secret.
async fn new_key(engine: &Engine, body: &Value) -> (String, String) {
    let admin = engine.client(Some(&engine.key));
    let made = admin.post("/v1/admin/keys", body).must_json(201).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

async fn a_key_is_exchanged_for_a_session_with_its_role() {
    let engine = Engine::start(None).await;
    let (id, key) = new_key(&engine, &json!({"name": "mine", "role": "member"})).await;
    let answer = page(&engine)
        .post(SESSIONS, &json!({"key": format!(" {key}\n")}))
        .must(201)
        .await;
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.contains("; Path=/; HttpOnly; SameSite=Strict; Max-Age=604800"),
        "{cookie}"
    );
    let name = cookie.split('=').next().unwrap();
    let suffix = name.strip_prefix("sortie_").unwrap();
    assert!(
        suffix.len() == 8 && suffix.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{name}"
    );
    assert_lacks!(answer, "stu_");
    assert_eq!(answer.header("cache-control").unwrap(), "no-store");
    let begun = answer.json().unwrap()["id"].clone();

    let console = signed_in(&engine, &cookie_of(&answer));
    let me = console.get("/v1/me").must_json(200).await;
    assert_has!(me, {"role": "member", "key_id": id, "key_name": "mine"});
    let current = console.get(CURRENT).must_json(200).await;
    assert_eq!(current["id"], begun);
    console.get("/v1/admin/keys").must_refuse("forbidden").await;
    let run = console
        .create(&json!({"prompt": "x", "shell": false}))
        .await
        .unwrap();
    assert_eq!(run.key_id.unwrap().to_string(), id);
    // The requests of the session do not count against the quota of the key.
    let remaining = async |client: &Client| {
        let answer = client.get("/v1/me").must(200).await;
        answer
            .header("x-ratelimit-remaining")
            .unwrap()
            .parse::<i64>()
            .unwrap()
    };
    let with_key = engine.client(Some(&key));
    let before = remaining(&with_key).await;
    for _ in 0..5 {
        remaining(&console).await;
    }
    assert!(before - remaining(&with_key).await <= 1 || before < remaining(&with_key).await);
    let admin = engine.client(Some(&engine.key));
    let audit = admin
        .get("/v1/admin/audit?action=console.sign_in")
        .must_json(200)
        .await;
    assert_eq!(audit["items"].as_array().unwrap().len(), 1);
    assert_has!(audit["items"][0], {"actor_kind": "key", "key_id": id, "target": begun, "address": "127.0.0.1"});
    engine.end().await;
}

async fn a_wrong_key_and_a_wrong_code_are_told_what_to_do() {
    let engine = Engine::start_with(None, Clock::system(), |options| {
        options.anonymous_requests_per_minute = 8;
    })
    .await;
    let refused = async |body: Value| {
        page(&engine)
            .post(SESSIONS, &body)
            .must_refuse("unauthorized")
            .await
    };
    let session = cookie_of(
        &page(&engine)
            .post(SESSIONS, &json!({"key": engine.key}))
            .must(201)
            .await,
    );
    let session = session.split_once('=').unwrap().1.to_owned();
    for key in ["x", "", &session] {
        assert_contains!(refused(json!({"key": key})).await, "sortie console");
    }
    assert_contains!(refused(json!({"code": "x"})).await, "run `sortie console` again");
    for body in [json!({}), json!({"key": "x", "code": "y"})] {
        page(&engine)
            .post(SESSIONS, &body)
            .must_refuse("invalid_request")
            .await;
    }
    // Guesses count against the network.
    let mut last = 0;
    for _ in 0..8 {
        last = page(&engine)
            .post(SESSIONS, &json!({"key": "guess"}))
            .await
            .unwrap()
            .status;
    }
    assert_eq!(last, 429);
    engine.client(Some(&engine.key)).get("/v1/me").must(200).await;
    engine.end().await;
}

async fn a_code_signs_in_once_and_within_a_minute() {
    let engine = Engine::start_with(None, Clock::manual(AT), |_| {}).await;
    let first = code(&engine).await;
    let console = signed_in(&engine, &session(&engine, &json!({"code": first})).await);
    assert_has!(console.get("/v1/me").must_json(200).await, {"role": "admin"});
    let again = page(&engine).post(SESSIONS, &json!({"code": first}));
    again.must_refuse("unauthorized").await;
    // A session cannot make a code.
    console
        .post_empty("/v1/console/codes")
        .must_refuse("forbidden")
        .await;
    let second = code(&engine).await;
    engine.clock.set(AT + Duration::from_secs(59));
    let third = code(&engine).await;
    session(&engine, &json!({"code": second})).await;
    engine
        .clock
        .set(AT + Duration::from_secs(59) + Duration::from_mins(1));
    let late = page(&engine).post(SESSIONS, &json!({"code": third}));
    assert_contains!(late.must_refuse("unauthorized").await, "expired");
    engine.end().await;
}

async fn a_session_ends_with_its_key() {
    let engine = Engine::start_with(None, Clock::manual(AT), |_| {}).await;
    let admin = engine.client(Some(&engine.key));
    let ends = (AT + HOUR).to_string();
    let (revoked, revoked_key) = new_key(&engine, &json!({"name": "revoked"})).await;
    let (_, expiring) = new_key(&engine, &json!({"name": "expiring", "expires_at": ends})).await;
    let (rotated, rotated_key) = new_key(&engine, &json!({"name": "rotated"})).await;
    let by_key = async |key: &str| signed_in(&engine, &session(&engine, &json!({"key": key})).await);
    let sessions = [
        by_key(&revoked_key).await,
        by_key(&expiring).await,
        by_key(&rotated_key).await,
    ];
    for session in &sessions {
        session.get("/v1/me").must(200).await;
    }
    admin.delete(&format!("/v1/admin/keys/{revoked}")).must(204).await;
    sessions[0].get("/v1/me").must_refuse("unauthorized").await;
    let grace = json!({"grace_seconds": 1800});
    admin
        .post(&format!("/v1/admin/keys/{rotated}/rotate"), &grace)
        .must(200)
        .await;
    sessions[2].get("/v1/me").must(200).await;
    engine.clock.set(AT + HOUR / 2);
    sessions[2].get("/v1/me").must_refuse("unauthorized").await;
    sessions[1].get("/v1/me").must(200).await;
    engine.clock.set(AT + HOUR);
    sessions[1].get("/v1/me").must_refuse("unauthorized").await;
    let late = page(&engine).post(SESSIONS, &json!({"key": expiring}));
    late.must_refuse("unauthorized").await;
    engine.end().await;
}

async fn an_open_stream_ends_with_the_key_of_its_session() {
    let engine = Engine::start(None).await;
    let (id, key) = new_key(&engine, &json!({"name": "mine"})).await;
    let console = signed_in(&engine, &session(&engine, &json!({"key": key})).await);
    let run = console
        .create_id(&json!({"prompt": "```wait 3600000\n```", "shell": false}))
        .await
        .unwrap();
    let mut stream = console.follow(&run, None).await.unwrap();
    let admin = engine.client(Some(&engine.key));
    admin.delete(&format!("/v1/admin/keys/{id}")).must(204).await;
    loop {
        match stream.next().await.unwrap() {
            Next::Event(_) => {}
            Next::Closed => break,
            Next::Done(run) => panic!("the run has ended: {run}"),
        }
    }
    admin.cancel(&run).await.unwrap();
    engine.end().await;
}

async fn a_session_ends_after_twelve_hours_without_use_and_after_seven_days() {
    let engine = Engine::start_with(None, Clock::manual(AT), |_| {}).await;
    let body = json!({"key": engine.key});
    let (unused, used) = (session(&engine, &body).await, session(&engine, &body).await);
    let (unused, used) = (signed_in(&engine, &unused), signed_in(&engine, &used));
    // AT is half past an hour: the session ends thirteen hours after the start of that hour.
    let idle = AT + HOUR * 12 + HOUR / 2;
    let end_of = async |console: &Client| console.get(CURRENT).must_json(200).await["expires_at"].clone();
    assert_eq!(end_of(&used).await, idle.to_string());
    engine.clock.set(AT + HOUR * 12);
    // The use is noted in a task.
    let noted = until(
        "a noted use",
        async || Ok(end_of(&used).await),
        |end| *end != idle.to_string(),
    );
    noted.await.unwrap();
    engine.clock.set(idle);
    unused.get("/v1/me").must_refuse("unauthorized").await;
    for twelve_hours in 2..14 {
        engine.clock.set(AT + HOUR * 12 * twelve_hours);
        let next = (AT + HOUR * 12 * (twelve_hours + 1)).to_string();
        let noted = until(
            "a noted use",
            async || Ok(end_of(&used).await),
            |end| end.as_str() >= Some(&next),
        );
        noted.await.unwrap();
    }
    engine.clock.set(AT + HOUR * 24 * 7);
    used.get("/v1/me").must_refuse("unauthorized").await;
    engine.end().await;
}

async fn a_sign_out_ends_the_session_and_deletes_the_cookie() {
    let engine = Engine::start(None).await;
    let cookie = session(&engine, &json!({"key": engine.key})).await;
    let other = session(&engine, &json!({"key": engine.key})).await;
    let answer = signed_in(&engine, &cookie).delete(CURRENT).must(204).await;
    let deleted = answer.header("set-cookie").unwrap();
    let name = cookie.split('=').next().unwrap();
    assert!(
        deleted.starts_with(&format!("{name}=; ")) && deleted.contains("Max-Age=0"),
        "{deleted}"
    );
    signed_in(&engine, &cookie)
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    signed_in(&engine, &other).get("/v1/me").must(200).await;
    let with_key = engine.client(Some(&engine.key));
    with_key.get(CURRENT).must_refuse("not_found").await;
    with_key.delete(CURRENT).must_refuse("not_found").await;
    engine.end().await;
}

async fn a_person_of_an_identity_provider_uses_the_console() {
    let provider = provider().await;
    let engine = Engine::start(Some(&provider)).await;
    let info = page(&engine).get("/v1/console").must_json(200).await;
    assert_eq!(info["sign_in_url"], "/sign-in");
    groups(&provider, json!(["devs"]));
    let browser = engine.browser();
    let answer = sign_in(&browser, &provider).await;
    assert_eq!(answer.header("location").unwrap(), "/");
    let cookies = answer.headers.get_all("set-cookie").iter();
    let mut cookies = cookies.map(|cookie| cookie.to_str().unwrap());
    assert!(cookies.any(|cookie| cookie.contains("stu_") && cookie.contains("SameSite=Strict")));
    // One cookie serves both kinds of sessions.
    let of_key = session(&engine, &json!({"key": engine.key})).await;
    let cookie = browser.session_cookie();
    assert_eq!(cookie.split('=').next(), of_key.split('=').next());
    let console = signed_in(&engine, &cookie);
    let me = console.get("/v1/me").must_json(200).await;
    assert_has!(me, {"role": "member"});
    console.get(CURRENT).must(200).await;
    console
        .post_empty("/v1/console/codes")
        .must_refuse("forbidden")
        .await;
    console.delete(CURRENT).must(204).await;
    console.get("/v1/me").must_refuse("unauthorized").await;
    engine.end().await;
}

async fn the_session_of_another_installation_is_not_one_here() {
    let (engine, other) = (Engine::start(None).await, Engine::start(None).await);
    let cookie = session(&engine, &json!({"key": engine.key})).await;
    let others = session(&other, &json!({"key": other.key})).await;
    assert_ne!(cookie.split('=').next(), others.split('=').next());
    // A browser sends both cookies to both ports.
    let both = format!("{cookie}; {others}");
    signed_in(&engine, &both).get("/v1/me").must(200).await;
    signed_in(&other, &both).get("/v1/me").must(200).await;
    signed_in(&other, &cookie)
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    engine.end().await;
    other.end().await;
}

async fn another_origin_and_another_port_are_refused() {
    let engine = Engine::start(None).await;
    let cookie = session(&engine, &json!({"key": engine.key})).await;
    let with = |lines: &[(&'static str, &str)]| {
        let client = engine.client(None).with_header("cookie", &cookie);
        lines
            .iter()
            .fold(client, |client, (name, value)| client.with_header(name, value))
    };
    let console = ("x-sortie-console", "1");
    let key = json!({"name": "made"});
    for foreign in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://127.0.0.1:1")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
    ] {
        with(foreign).get("/v1/me").must_refuse("forbidden").await;
        with(&[foreign, &[console]].concat())
            .post("/v1/admin/keys", &key)
            .must_refuse("forbidden")
            .await;
    }
    let own = ("sec-fetch-site", "same-origin");
    with(&[("sec-fetch-site", "none")]).get("/v1/me").must(200).await;
    let typed = with(&[("sec-fetch-site", "none"), console]).post("/v1/admin/keys", &key);
    typed.must_refuse("forbidden").await;
    assert_contains!(
        with(&[own])
            .post("/v1/admin/keys", &key)
            .must_refuse("forbidden")
            .await,
        "X-Sortie-Console"
    );
    assert_contains!(
        with(&[console])
            .post("/v1/admin/keys", &key)
            .must_refuse("forbidden")
            .await,
        "Origin"
    );
    let form = with(&[own, console, ("content-type", "text/plain")]).post("/v1/admin/keys", &key);
    assert_contains!(form.must_refuse("forbidden").await, "Content-Type");
    let admin = engine.client(Some(&engine.key));
    let keys = admin.get("/v1/admin/keys").must_json(200).await;
    assert_eq!(keys.as_array().unwrap().len(), 1, "{keys}");
    with(&[own, console]).post("/v1/admin/keys", &key).must(201).await;
    with(&[("origin", &engine.url), console])
        .post("/v1/admin/keys", &key)
        .must(201)
        .await;
    with(&[own, console]).upload("a.txt", "a").await.unwrap();
    engine.end().await;
}

async fn a_sign_in_needs_the_headers_of_a_page() {
    let engine = Engine::start_with(None, Clock::system(), |options| {
        options.base_url = None;
        options.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    let body = json!({"key": engine.key});
    let bare = engine.client(None);
    bare.post(SESSIONS, &body).must_refuse("forbidden").await;
    let foreign = bare
        .with_header("origin", "https://evil.example")
        .with_header("x-sortie-console", "1");
    foreign.post(SESSIONS, &body).must_refuse("forbidden").await;
    let without = bare.with_header("sec-fetch-site", "same-origin");
    without.post(SESSIONS, &body).must_refuse("forbidden").await;
    // Without fetch metadata, the origin is compared with the host of the request.
    let own = bare
        .with_header("origin", &engine.url)
        .with_header("x-sortie-console", "1");
    let plain = own.post(SESSIONS, &body).must(201).await;
    assert_lacks!(plain.header("set-cookie").unwrap(), "Secure");
    // If a trusted proxy reports https, the cookie is secure, and no other one is read.
    let https = page(&engine).with_header("x-forwarded-proto", "https");
    let secure = https.post(SESSIONS, &body).must(201).await;
    let cookie = secure.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Host-sortie_") && cookie.contains("; Secure"),
        "{cookie}"
    );
    https
        .with_header("cookie", cookie_of(&secure))
        .get("/v1/me")
        .must(200)
        .await;
    https
        .with_header("cookie", cookie_of(&plain))
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    engine.end().await;
}

async fn a_disabled_console_has_no_files_no_codes_and_no_sessions() {
    let enabled = Engine::start(None).await;
    let cookie = session(&enabled, &json!({"key": enabled.key})).await;
    let token = cookie.split_once('=').unwrap().1;
    let engine = enabled
        .restarted(|options| options.console = ConsoleFiles::Disabled)
        .await;
    let browser = page(&engine).with_header("accept", "text/html");
    for path in [
        "/",
        "/console",
        "/console/",
        "/console/runs",
        "/v1/console",
        CURRENT,
    ] {
        let answer = browser.get(path).await.unwrap();
        if path == CURRENT {
            answer.refused("unauthorized").unwrap();
        } else {
            answer.refused("not_found").unwrap();
        }
    }
    let admin = engine.client(Some(&engine.key));
    admin
        .post_empty("/v1/console/codes")
        .must_refuse("not_found")
        .await;
    let sign_in = page(&engine).post(SESSIONS, &json!({"key": engine.key}));
    sign_in.must_refuse("not_found").await;
    signed_in(&engine, &cookie)
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    engine
        .client(Some(token))
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    engine.end().await;
}

async fn a_person_of_a_hosted_deployment_uses_the_console() {
    let rig = Rig::start().await;
    let anybody = as_page(&Client::new(rig.address, None));
    let info = anybody.get("/v1/console").must_json(200).await;
    assert_has!(info, {"mode": "hosted", "sign_in_url": "/sign-in"});
    let console = anybody.with_header("cookie", format!("sortie={}", rig.member.token));
    console.get(CURRENT).must(200).await;
    let me = console
        .get(&format!("/engine/{}/v1/me", rig.ours))
        .must_json(200)
        .await;
    assert_has!(me, {"role": "member", "mode": "hosted"});
    let runs = format!("/engine/{}/v1/runs", rig.ours);
    console
        .post(&runs, &json!({"prompt": "x", "shell": false}))
        .must(202)
        .await;
    let elsewhere = Client::new(rig.address, None)
        .with_header("cookie", format!("sortie={}", rig.member.token))
        .with_header("sec-fetch-site", "same-site")
        .with_header("x-sortie-console", "1");
    elsewhere.get(&runs).must_refuse("forbidden").await;
    elsewhere
        .post(&runs, &json!({"prompt": "x", "shell": false}))
        .must_refuse("forbidden")
        .await;
    // People sign in on the pages; the engine's listener has neither console nor sessions.
    anybody
        .post(SESSIONS, &json!({"key": "x"}))
        .must_refuse("not_found")
        .await;
    let engine = as_page(&rig.engine_client("x").anonymous());
    for path in ["/console/", "/v1/console"] {
        engine.get(path).must_refuse("not_found").await;
    }
    engine
        .post(SESSIONS, &json!({"key": "x"}))
        .must_refuse("not_found")
        .await;
    let signed_out = console.delete(CURRENT).must(204).await;
    assert!(signed_out.header("set-cookie").unwrap().starts_with("sortie=; "));
    rig.soon(401, async || console.get(CURRENT).await.unwrap()).await;
    rig.end().await;
}
