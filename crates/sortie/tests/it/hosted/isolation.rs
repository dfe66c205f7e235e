//! Two organizations on a hosted node. The first is full of markers. The second calls every operation of both APIs with
//! the first one's ids, as every kind of caller. The answers must equal those for unknown ids, in every byte and in
//! time.

use std::{collections::BTreeMap, time::Instant};

use super::{
    people::{Person, text},
    ranks::Pairs,
};
use crate::{logs::talkative, prelude::*};

both_databases![
    every_answer_is_that_for_an_id_of_nobody,
    no_answer_takes_longer_because_the_id_is_somebodys,
];

/// Texts of the first organization that no other organization may see.
const MARKS: [&str; 13] = [
    "mark-organization-5a1f",
    "mark-owner-77c3",
    "mark-person-e09b",
    "mark-guest-41d8",
    "mark-key-b6e2",
    "mark-prompt-90af",
    "mark-answer-3d74",
    "mark-file-c2b0",
    "mark-content-18ea",
    "mark-workflow-7f3a",
    "mark-connection-51c8",
    "mark-host-88d0",
    "mark-tag-4e1b",
];

/// Markers that the log has, for the operator: names of workflows and connections, and hosts of callbacks
/// (`docs/LOGGING.md`).
const LOGGED: [&str; 3] = ["mark-workflow-7f3a", "mark-connection-51c8", "mark-host-88d0"];

/// Number of requests of each kind in the comparison of times.
const SAMPLES: usize = 300;

/// Comparisons before a difference of times counts: other work on the machine sometimes causes one.
const TRIES: usize = 3;

/// Headers that differ from answer to answer.
const VARYING: [&str; 7] = [
    "date",
    "x-request-id",
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// Values for the placeholders of paths, by a part of the path and the placeholder.
type Ids = BTreeMap<&'static str, String>;

/// A node with the full organization and a second one.
struct Rig {
    node: HostedNode,
    theirs: Person,
    their_org: String,
    /// Ids of the first organization.
    ours: Ids,
    /// Unknown ids, as long as those of the first organization.
    nobodys: Ids,
}

/// A kind of caller: its client, its API description, and the prefix of its paths.
struct Caller {
    name: &'static str,
    client: Client,
    document: Value,
    prefix: String,
}

/// An operation of a description.
struct Operation {
    method: Method,
    path: String,
    body: Bytes,
    id: String,
}

fn operations(document: &Value) -> Result<Vec<Operation>> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().context("paths")? {
        for (method, operation) in item.as_object().context("operations")? {
            let content = &operation["requestBody"]["content"]["application/json"];
            let example = content.get("example");
            found.push(Operation {
                method: Method::from_bytes(method.to_uppercase().as_bytes())?,
                path: path.clone(),
                body: example.map_or_else(Bytes::new, |body| body.to_string().into()),
                id: text(operation, "operationId")?,
            });
        }
    }
    Ok(found)
}

/// Placeholder of a path, as [`Ids`] names it.
fn place(path: &str, name: &str) -> Result<&'static str> {
    Ok(match name {
        "org" => "org",
        "user_id" => "user",
        "key_id" => "key",
        "invitation_id" => "invitation",
        "grant_id" => "grant",
        "file" => "file",
        "scope" => "scope",
        "path" | "tag" => "word",
        "name" if path.starts_with("/v1/connections") => "connection",
        "name" => "workflow",
        "id" if path.starts_with("/v1/runs") => "run",
        "id" if path.starts_with("/v1/schedules") => "schedule",
        "id" if path.starts_with("/v1/admin/keys") => "key",
        "id" if path.starts_with("/v1/auth/sessions") || path.starts_with("/v1/admin/sessions") => "session",
        "id" if path.starts_with("/v1/auth/identities") => "identity",
        "deployment_id" => "deployment",
        "payment_id" => "payment",
        "id" if path.starts_with("/v1/operator/payments") => "payment",
        "id" if path.contains("/organizations/") => "org",
        _ => anyhow::bail!("the test has no value for {name} of {path}"),
    })
}

/// Fills the placeholders of a path. Returns the values too.
fn filled(path: &str, ids: &Ids) -> Result<(String, Vec<String>)> {
    let (mut whole, mut values, mut rest) = (String::new(), Vec::new(), path);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}').context("a placeholder")?;
        let below = path
            .strip_prefix("/engine/")
            .and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        let bare = below.unwrap_or(path);
        let value = ids.get(place(bare, name)?).context("a value")?;
        whole.push_str(before);
        whole.push_str(value);
        values.push(value.clone());
        rest = after;
    }
    whole.push_str(rest);
    Ok((whole, values))
}

/// Returns the parts of an answer that must not depend on the id, without the ids of the request.
fn shown(answer: &Answer, values: &[String]) -> String {
    let headers = answer
        .headers
        .iter()
        .filter(|(name, _)| !VARYING.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"));
    let lines = std::iter::once(answer.status.to_string()).chain(headers);
    let mut whole = lines.chain([answer.text()]).collect::<Vec<_>>().join("\n");
    for value in values {
        whole = whole.replace(value.as_str(), "{}");
    }
    whole
}

impl Rig {
    async fn start(database: Database) -> Result<Self> {
        let options = talkative()
            .env("SORTIE_LICENSE_SIGNING_KEY", &"5c".repeat(32))
            .env("SORTIE_RATE_LIMIT_PER_MINUTE", "1000000")
            .env("SORTIE_ANONYMOUS_RATE_LIMIT_PER_MINUTE", "1000000");
        let mut node = HostedNode::start_with(env!("CARGO_BIN_EXE_sortie"), database, options).await?;
        let ours = full(&mut node).await?;
        let theirs = Person::sign_up(&node, "theirs@example.com", "Zoe").await?;
        let their_org = theirs.paying_organization(&node, "Second").await?;
        // A valid id with the same prefix, and a digest or a name of the same length.
        let nobodys = ours.iter().map(|(place, id)| {
            let other = match id.split_once('_') {
                Some((prefix, _)) => format!("{prefix}_01kafs6w1cefkstv6qr1ptb0mp"),
                None if *place == "identity" => "5e".repeat(id.len() / 2),
                None => id.replace("mark", "none"),
            };
            (*place, other)
        });
        let nobodys = nobodys.collect();
        Ok(Self {
            node,
            theirs,
            their_org,
            ours,
            nobodys,
        })
    }

    async fn callers(&self) -> Result<Vec<Caller>> {
        let anybody = self.node.anybody();
        let organization = anybody.get("/openapi.json").json(200).await?;
        let engine = self.node.engine_client("")?.anonymous();
        let engine = engine.get("/openapi.json").json(200).await?;
        let (_, admin) = self.theirs.key(&self.their_org, "a", "admin").await?;
        let (_, member) = self.theirs.key(&self.their_org, "m", "member").await?;
        let issued = self.theirs.tokens(&self.node, &self.their_org, "admin").await?;
        let token = text(&issued, "access_token")?;
        let session = || self.theirs.client.clone();
        let caller = |name, client, document: &Value, prefix: &str| Caller {
            name,
            client,
            document: document.clone(),
            prefix: prefix.to_owned(),
        };
        let own = format!("/engine/{}", self.their_org);
        Ok(vec![
            caller("admin key", self.node.engine_client(&admin)?, &engine, ""),
            caller("member key", self.node.engine_client(&member)?, &engine, ""),
            caller("access token", self.node.engine_client(&token)?, &engine, ""),
            caller("session in its own organization", session(), &engine, &own),
            caller("session in the other one", session(), &engine, "/engine/{org}"),
            caller("session", session(), &organization, ""),
            caller("key at the accounts", self.node.client(&admin), &organization, ""),
            caller(
                "token at the accounts",
                self.node.client(&token),
                &organization,
                "",
            ),
        ])
    }

    /// Calls an operation with the ids of the first organization and with unknown ids, and compares the answers.
    async fn compare(&self, caller: &Caller, operation: &Operation) -> Result<()> {
        let path = format!("{}{}", caller.prefix, operation.path);
        let told = format!("{} as {}", operation.id, caller.name);
        let ask = async |ids: &Ids| {
            let (path, values) = filled(&path, ids)?;
            let sent = caller
                .client
                .send(operation.method.clone(), &path, operation.body.clone());
            anyhow::Ok((sent.await.with_context(|| told.clone())?, values))
        };
        let (answer, values) = ask(&self.ours).await?;
        let seen = shown(&answer, &values);
        self.without_marks(&seen).context(told.clone())?;
        if !path.contains('{') {
            return Ok(());
        }
        let (other, values) = ask(&self.nobodys).await?;
        let other = shown(&other, &values);
        if operation.method == Method::PUT && answer.status < 300 {
            // Each creates a resource of the caller, so times and ids differ.
            ensure!(other.starts_with(&answer.status.to_string()), "{told}: {other}");
            return Ok(());
        }
        ensure!(seen == other, "{told}:\n{seen}\n\nfor an id of nobody:\n{other}");
        ensure!(
            answer.status >= 400
                || operation.path.starts_with("/.well-known")
                || operation.path.contains("oauth"),
            "{told} succeeds: {seen}"
        );
        Ok(())
    }

    /// Sends bodies that name resources of the first organization.
    async fn compare_bodies(&self, client: &Client) -> Result<()> {
        let run = |more: (&str, Value)| {
            let mut run = json!({"prompt": "x", "shell": false});
            run[more.0] = more.1;
            run
        };
        for (path, body) in rows! {
            "/v1/runs", json!({"workflow": "{workflow}"});
            "/v1/runs", run(("files", json!([{"file": "{file}", "path": "a"}])));
            "/v1/runs", run(("connections", json!({"c": {"ref": "{connection}"}})));
            "/v1/schedules", json!({"workflow": "{workflow}", "cron": "@daily"});
        } {
            let ask = async |ids: &Ids| {
                let (body, values) = named(&body, ids)?;
                let answer = client.post(path, &body).await?;
                ensure!(answer.status >= 400, "{path}: {}", answer.text());
                anyhow::Ok(shown(&answer, &values))
            };
            assert_eq!(ask(&self.ours).await?, ask(&self.nobodys).await?, "{path}");
        }
        Ok(())
    }

    /// Refuses a text with a marker or an id of the first organization.
    fn without_marks(&self, seen: &str) -> Result<()> {
        let ids = self
            .ours
            .iter()
            .filter(|(place, id)| **place == "identity" || id.contains('_'))
            .map(|(_, id)| id.as_str());
        for mark in MARKS.into_iter().chain(ids) {
            ensure!(!seen.contains(mark), "{mark} is in {seen}");
        }
        Ok(())
    }
}

/// Fills an organization with resources of every kind. Returns their ids.
async fn full(node: &mut HostedNode) -> Result<Ids> {
    let identity = identity(node).await?;
    let owner = Person::sign_up(node, "mark-owner-77c3@example.com", "mark-person-e09b").await?;
    let org = owner.paying_organization(node, "mark-organization-5a1f").await?;
    let (key, secret) = owner.key(&org, "mark-key-b6e2", "admin").await?;
    let invitation = owner.invite(&org, "mark-guest-41d8@example.com").await?;
    let path = format!("/v1/organizations/{org}/invitations");
    let listed = owner.client.get(&path).json(200).await?;
    ensure!(invitation["token"].is_string());
    let client = node.engine_client(&secret)?;
    let file = client.upload("mark-file-c2b0", "mark-content-18ea").await?;
    let put = async |path: &str, body: Value| {
        let body = Bytes::from(body.to_string());
        let answer = client.send(Method::PUT, path, body).await?;
        ensure!(answer.status < 300, "{path}: {}", answer.text());
        anyhow::Ok(())
    };
    let prompt = "mark-prompt-90af\n```answer\nmark-answer-3d74\n```\n";
    let workflow = json!({"prompt": prompt, "shell": false, "description": "mark-prompt-90af"});
    put("/v1/workflows/mark-workflow-7f3a", workflow).await?;
    let connection = json!({"type": "http", "url": "https://mark-host-88d0.example.com",
        "auth": {"type": "bearer", "token": "mark-key-b6e2"}});
    put("/v1/connections/mark-connection-51c8", connection).await?;
    let budget = json!({"limit_micros": 100_000_000, "period": "day"});
    put("/v1/budgets/workflow:mark-workflow-7f3a", budget).await?;
    let schedule = json!({"workflow": "mark-workflow-7f3a", "cron": "@yearly", "name": "mark-workflow-7f3a"});
    let schedule = client.post("/v1/schedules", &schedule).json(201).await?;
    let request = json!({"workflow": "mark-workflow-7f3a", "tags": ["mark-tag-4e1b"],
        "callback": {"url": "https://mark-host-88d0.example.com/cb", "secret": "mark-key-b6e2"}});
    let keyed = client.with_header("idempotency-key", "once");
    let run = keyed.post("/v1/runs", &request).json(202).await?;
    let run = text(&run, "id")?;
    let (_, finished) = client.finished(&run).await?;
    assert_eq!(finished.output.as_deref(), Some("mark-answer-3d74"));
    owner.tokens(node, &org, "member").await?;
    let grants = owner.client.get("/v1/auth/grants").json(200).await?;
    let sessions = owner.client.get("/v1/auth/sessions").json(200).await?;
    Ok(BTreeMap::from([
        ("deployment", deployment(node, &owner, &org).await?),
        ("identity", identity),
        ("payment", payment(node, &org).await?),
        ("org", org),
        ("user", owner.user.clone()),
        ("key", key),
        ("invitation", text(&listed[0], "id")?),
        ("grant", text(&grants[0], "id")?),
        ("session", text(&sessions[0], "id")?),
        ("file", file.id.to_string()),
        ("scope", "workflow:mark-workflow-7f3a".to_owned()),
        ("word", "mark-file-c2b0".to_owned()),
        ("connection", "mark-connection-51c8".to_owned()),
        ("workflow", "mark-workflow-7f3a".to_owned()),
        ("run", run),
        ("schedule", text(&schedule, "id")?),
    ]))
}

/// Records a payment of the organization. Returns the id.
async fn payment(node: &mut HostedNode, org: &str) -> Result<String> {
    let id = "pay_01kb2q8tqzf8vb9c1h3m5n7r9t";
    let paid = format!(
        "INSERT INTO payment (id, org_id, topup_id, intent_id, amount_cents, refunded_cents, disputed_cents, created_at) \
         VALUES ('{id}', '{org}', 'topup_01kb2q8tqzf8vb9c1h3m5n7r9t', 'pi_1', 500, 0, 0, 1)"
    );
    node.node.stop().await?;
    node.node.meddle(&paid).await?;
    node.node.restart().await?;
    Ok(id.to_owned())
}

/// Licenses an installation of the organization. Returns the id of the deployment.
async fn deployment(node: &HostedNode, owner: &Person, org: &str) -> Result<String> {
    let grant = [
        "license",
        "grant",
        org,
        "--monthly-runs",
        "5",
        "--deployments",
        "1",
    ];
    exits(node.node.sortie(&grant), 0)?;
    let path = format!("/v1/organizations/{org}/deployments");
    let body = json!({"name": "mark-organization-5a1f"});
    let made = owner.client.post(&path, &body).json(201).await?;
    text(&made, "id")
}

/// Links an identity to an account, as a sign-in at an identity provider does. Returns the id.
async fn identity(node: &mut HostedNode) -> Result<String> {
    let somebody = Person::sign_up(node, "linked@example.com", "Linked").await?;
    let link = format!(
        "INSERT INTO identity (issuer, subject, user_id, created_at) \
         VALUES ('https://mark-host-88d0.example.com', 'mark-person-e09b', '{}', 1)",
        somebody.user
    );
    node.node.stop().await?;
    node.node.meddle(&link).await?;
    node.node.restart().await?;
    let linked = somebody.client.get("/v1/auth/identities").await?;
    text(&linked.expect(200)?.json()?[0], "id")
}

async fn every_answer_is_that_for_an_id_of_nobody(database: Database) -> Checked {
    let mut rig = Rig::start(database).await?;
    let callers = rig.callers().await?;
    let mut compared = 0;
    // `PUT` creates resources with names of the first organization, so everything else comes first.
    for puts in [false, true] {
        if puts {
            rig.compare_bodies(&callers[0].client).await?;
        }
        for caller in &callers {
            for operation in operations(&caller.document)? {
                if (operation.method == Method::PUT) == puts && operation.id != "log_out" {
                    rig.compare(caller, &operation).await?;
                    compared += 1;
                }
            }
        }
    }
    ensure!(compared > 400, "{compared}");
    // The same key, the same file and the same content are new to the second organization.
    let client = &callers[0].client;
    let keyed = client.with_header("idempotency-key", "once");
    let run = keyed.post("/v1/runs", &plain("theirs")).json(202).await?;
    let (events, run) = client.finished(&text(&run, "id")?).await?;
    rig.without_marks(&format!("{events:?} {run:?}"))?;
    let file = client.upload("mark-file-c2b0", "mark-content-18ea").await?;
    ensure!(file.id.to_string() != rig.ours["file"]);
    rig.node.node.stop().await?;
    let log = rig.node.node.log();
    for mark in MARKS.into_iter().filter(|mark| !LOGGED.contains(mark)) {
        let line = log.lines().find(|line| line.contains(mark));
        ensure!(line.is_none(), "{mark} is in the log: {line:?}");
    }
    Ok(())
}

/// Fills the placeholders of a body. Returns the values too.
fn named(body: &Value, ids: &Ids) -> Result<(Value, Vec<String>)> {
    let (mut text, mut values) = (body.to_string(), Vec::new());
    for (place, id) in ids {
        let placeholder = format!("{{{place}}}");
        if text.contains(&placeholder) {
            text = text.replace(&placeholder, id);
            values.push(id.clone());
        }
    }
    Ok((serde_json::from_str(&text)?, values))
}

async fn no_answer_takes_longer_because_the_id_is_somebodys(database: Database) -> Checked {
    let rig = Rig::start(database).await?;
    let (_, admin) = rig.theirs.key(&rig.their_org, "a", "admin").await?;
    let (engine, session) = (rig.node.engine_client(&admin)?, &rig.theirs.client);
    for (client, method, path) in [
        (&engine, Method::GET, "/v1/runs/{id}"),
        (&engine, Method::POST, "/v1/runs/{id}/cancel"),
        (session, Method::GET, "/v1/organizations/{id}/members"),
        (session, Method::DELETE, "/v1/organizations/{id}/keys/{key_id}"),
    ] {
        let (ours, _) = filled(path, &rig.ours)?;
        let (nobodys, _) = filled(path, &rig.nobodys)?;
        let mut difference = None;
        for _ in 0..TRIES {
            let mut pairs = Pairs::default();
            for number in 0..SAMPLES {
                // Alternately, so that other work on the machine affects both.
                for is_ours in [number % 2 == 0, number % 2 != 0] {
                    let path = if is_ours { &ours } else { &nobodys };
                    let begun = Instant::now();
                    let answer = client.send(method.clone(), path, Bytes::new()).await?;
                    let times = if is_ours {
                        &mut pairs.first
                    } else {
                        &mut pairs.second
                    };
                    times.push(begun.elapsed());
                    answer.refused("not_found")?;
                }
            }
            difference = pairs.difference();
            if difference.is_none() {
                break;
            }
        }
        ensure!(difference.is_none(), "{method} {path}: {difference:?}");
    }
    Ok(())
}
