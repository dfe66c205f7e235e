//! Records that a killed node leaves in its database, with the answers it gave before.

use std::collections::BTreeMap;

use sortie_engine::Clock;
use sortie_testkit::CallbackReceiver;

use super::{SECRET, SHORT};
use crate::{
    connections::{authorize, calls, put},
    prelude::*,
};

/// Records that a node has made.
pub(super) struct Left {
    admin: Client,
    member: Client,
    /// Secrets of keys, and ids, by the names that they have here.
    names: BTreeMap<&'static str, String>,
    /// Answers to a `GET` of these paths that later requests do not change.
    pub(super) answers: Vec<(String, Value)>,
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name]
        .as_str()
        .with_context(|| format!("no {name} in {value}"))
}

/// `GET`, as JSON also where a stream is the default.
pub(super) async fn get(client: &Client, path: &str) -> Result<Answer> {
    client
        .with_header("accept", "application/json")
        .get(path)
        .expect(200)
        .await
}

impl Left {
    /// Uses a node of this binary and kills it while one run is running and one waits for its slot.
    pub(super) async fn make(
        binary: &str,
        database: Database,
        service: &Service,
        receiver: &CallbackReceiver,
    ) -> Result<(Node, Self)> {
        let options = NodeOptions::default()
            .env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000")
            .env("SORTIE_CONCURRENCY", "1");
        let mut node = Node::start_with(binary, database, options).await?;
        let admin = node.client()?;
        let mut left = Self {
            member: admin.clone(),
            admin,
            names: BTreeMap::new(),
            answers: Vec::new(),
        };
        let (member, late) = left.keys().await?;
        let scopes = ["organization".to_owned(), format!("key:{member}"), late];
        left.definitions(service, &scopes).await?;
        left.ended(receiver).await?;
        left.schedules().await?;
        left.record(&member).await?;
        left.open(service, receiver).await?;
        node.kill()?;
        Ok((node, left))
    }

    /// The text that has this name.
    pub(super) fn name(&self, name: &str) -> Result<&str> {
        let text = self.names.get(name).with_context(|| format!("no {name}"))?;
        Ok(text)
    }

    /// Creates a key, and returns its id.
    async fn key(&mut self, name: &'static str, body: &Value) -> Result<String> {
        let key = self.admin.post("/v1/admin/keys", body).json(201).await?;
        self.names.insert(name, text(&key, "key")?.to_owned());
        Ok(text(&key, "id")?.to_owned())
    }

    /// Returns the id of the member's key, and the scope of the key that is used last.
    async fn keys(&mut self) -> Result<(String, String)> {
        let member = self.key("member", &json!({"name": "member"})).await?;
        let late = self.key("late", &json!({"name": "late"})).await?;
        let soon = Clock::system().now() + SHORT;
        self.key("expired", &json!({"name": "expired", "expires_at": soon}))
            .await?;
        let rotated = json!({"name": "rotated", "role": "admin"});
        let rotated = self.key("before", &rotated).await?;
        let path = format!("/v1/admin/keys/{rotated}/rotate");
        let rotated = self
            .admin
            .post(&path, &json!({"grace_seconds": 1}))
            .json(200)
            .await?;
        self.names.insert("rotated", text(&rotated, "key")?.to_owned());
        self.member = self.admin.with_key(self.name("member")?);
        let scope = format!("key:{late}");
        self.names.insert("late_scope", scope.clone());
        Ok((member, scope))
    }

    async fn definitions(&mut self, service: &Service, scopes: &[String]) -> Checked {
        let report = json!({"prompt": "```sh\ncat data.txt\n```\n", "files": [{"file": "data.txt", "path": "data.txt"}]});
        self.admin.upload("data.txt", "the data\n").await?;
        let body = Bytes::from(report.to_string());
        self.admin
            .send(Method::PUT, "/v1/workflows/report", body)
            .expect(201)
            .await?;
        for scope in scopes {
            let body = json!({"limit_micros": 500_000_000, "period": "month"}).to_string();
            let path = format!("/v1/budgets/{scope}");
            self.admin
                .send(Method::PUT, &path, body.into())
                .expect(201)
                .await?;
        }
        let api = json!({
            "type": "http", "url": format!("{}/echo", service.url()),
            "auth": {"type": "bearer", "token": SECRET}, "headers": {"X-Key": SECRET},
        });
        put(&self.admin, "api", &api).expect(201).await?;
        // A lifetime so short that the token is refreshed before it is used.
        service.give_tokens_for(1);
        authorize(&self.admin, service).await?.expect(200)?;
        Ok(())
    }

    /// Runs that have ended.
    async fn ended(&mut self, receiver: &CallbackReceiver) -> Checked {
        let artifact = commands(&["mkdir outputs && printf 'the report' > outputs/report.md"]);
        let callback = json!({"url": receiver.url(), "secret": SECRET});
        for (name, request) in rows! {
            "succeeded", json!({"prompt": "hello", "input": {"a": [1, null]}, "tags": ["upgrade", "x"]});
            "failed", commands(&["echo oh >&2; exit 3"]);
            "artifact", artifact;
            "called_back", json!({"prompt": "called", "callback": callback});
            "report", json!({"workflow": "report"});
        } {
            let (_, run) = self.member.complete(&request).await?;
            self.names.insert(name, run.id.to_string());
        }
        receiver.wait_for(self.name("called_back")?, 1).await?;
        let cancelled = self.member.create_id(&waiting()).await?;
        self.member.cancel(&cancelled).await?;
        settled(&self.member, &cancelled).await?;
        self.names.insert("cancelled", cancelled);
        let unretained = json!({"prompt": "secret", "zero_data_retention": true});
        let (_, run) = self.member.complete(&unretained).await?;
        let read = self.member.run(&run.id.to_string()).await?;
        ensure!(read.output.as_deref() == Some("secret"), "{read:?}");
        self.names.insert("unretained", run.id.to_string());
        let once = HeaderValue::from_static("once");
        let once = self.member.with_header("idempotency-key", once);
        let run = once.create_id(&json!({"prompt": "once"})).await?;
        self.member.finished(&run).await?;
        self.names.insert("once", run);
        Ok(())
    }

    /// A schedule that is due each minute, and one that is disabled.
    async fn schedules(&mut self) -> Checked {
        let disabled = json!({"workflow": "report", "cron": "30 7 * * MON-FRI", "timezone": "Europe/Berlin", "enabled": false, "name": "rest"});
        let due =
            json!({"workflow": "report", "cron": "* * * * *", "overlap": "allow", "name": "each minute"});
        for (name, body) in [("disabled", disabled), ("schedule", due)] {
            let made = self.admin.post("/v1/schedules", &body).json(201).await?;
            self.names.insert(name, text(&made, "id")?.to_owned());
        }
        Ok(())
    }

    async fn record(&mut self, member: &str) -> Checked {
        let mut paths = Vec::new();
        for run in [
            "succeeded",
            "failed",
            "artifact",
            "called_back",
            "report",
            "cancelled",
            "once",
        ] {
            let id = self.name(run)?;
            paths.extend(["", "/events", "/definition"].map(|rest| format!("/v1/runs/{id}{rest}")));
        }
        for (run, rest) in [
            ("unretained", ""),
            ("called_back", "/deliveries"),
            ("artifact", "/artifacts"),
        ] {
            paths.push(format!("/v1/runs/{}{rest}", self.name(run)?));
        }
        paths.extend(
            [
                "/v1/runs?tag=upgrade",
                "/v1/workflows/report",
                "/v1/files",
                "/v1/connections",
                "/v1/admin/keys",
                &format!("/v1/admin/audit?limit=100&until={}", Clock::system().now()),
                &format!("/v1/budgets/key:{member}"),
                &format!("/v1/schedules/{}", self.name("disabled")?),
            ]
            .map(str::to_owned),
        );
        for path in paths {
            let body = get(&self.admin, &path).await?.json()?;
            self.answers.push((path, body));
        }
        Ok(())
    }

    /// A running run, and one that waits for its slot: both are still open after the kill.
    async fn open(&mut self, service: &Service, receiver: &CallbackReceiver) -> Checked {
        let late = self.admin.with_key(self.name("late")?);
        let at_work = json!({"prompt": "```wait 600000\n```\n", "timeout_seconds": 30});
        let at_work = late.create_id(&at_work).await?;
        let mut stream = late.follow(&at_work, None).await?;
        stream.until_status(sortie_api::RunStatus::Running).await?;
        self.names.insert("at_work", at_work);
        let inline = json!({"inline": {
            "type": "http", "url": format!("{}/echo", service.url()), "headers": {"X-Key": "of-the-run"},
        }});
        let mut queued = calls(&[("inline__request", json!({"method": "GET"}))], &inline);
        queued["callback"] = json!({"url": receiver.url(), "secret": SECRET});
        let queued = late.create(&queued).await?;
        ensure!(queued.status == sortie_api::RunStatus::Queued, "{queued:?}");
        self.names.insert("queued", queued.id.to_string());
        Ok(())
    }
}
