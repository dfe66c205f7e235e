//! Makes the fixtures with the binary of an earlier version: `scripts/upgrade-fixture BINARY`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sortie_engine::Clock;
use sortie_testkit::{
    Bytes, CallbackReceiver, Client, Database, Node, Service, http::HeaderValue, until_within,
};

use super::{
    SECRET,
    fixture::{Beside, Recorded, get, write},
    options, receiver_address, service_address,
};
use crate::{
    Checked,
    connections::{authorize, put},
    kit::{commands, settled, waiting},
};

/// The variable in which `scripts/upgrade-fixture` names the binary.
const BINARY: &str = "SORTIE_UPGRADE_BINARY";

#[ignore = "makes the fixtures: started by scripts/upgrade-fixture"]
#[tokio::test]
async fn a_fixture_is_made_on_sqlite() -> Checked {
    a_fixture_is_made(Database::Sqlite).await
}

#[ignore = "makes the fixtures: started by scripts/upgrade-fixture"]
#[tokio::test]
async fn a_fixture_is_made_on_postgres() -> Checked {
    a_fixture_is_made(Database::Postgres).await
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name]
        .as_str()
        .with_context(|| format!("no {name} in {value}"))
}

/// A node of the earlier version, and what is written down of it.
struct Maker {
    admin: Client,
    member: Client,
    beside: Beside,
}

impl Maker {
    fn names(&mut self, name: &str, text: &str) {
        self.beside.names.insert(name.to_owned(), text.to_owned());
    }

    async fn record(&mut self, path: &str, grows: bool) -> Checked {
        let body = get(&self.admin, path).await?.json()?;
        self.beside.answers.push(Recorded {
            path: path.to_owned(),
            grows,
            body,
        });
        Ok(())
    }

    /// Makes a key, and returns its id.
    async fn key(&mut self, name: &str, body: &Value) -> Result<String> {
        let key = self
            .admin
            .post("/v1/admin/keys", body)
            .await?
            .expect(201)?
            .json()?;
        self.names(name, text(&key, "key")?);
        Ok(text(&key, "id")?.to_owned())
    }

    async fn keys(&mut self) -> Result<(String, String)> {
        let member = self.key("member", &json!({"name": "member"})).await?;
        let late = self.key("late", &json!({"name": "late"})).await?;
        let soon = Clock::system().now() + Duration::from_secs(20);
        self.key("expired", &json!({"name": "expired", "expires_at": soon}))
            .await?;
        let second = self
            .key("before", &json!({"name": "rotated", "role": "admin"}))
            .await?;
        let path = format!("/v1/admin/keys/{second}/rotate");
        let rotated = self
            .admin
            .post(&path, &json!({"grace_seconds": 1}))
            .await?
            .expect(200)?
            .json()?;
        self.names("rotated", text(&rotated, "key")?);
        self.member = self.admin.with_key(self.beside.name("member")?);
        Ok((member, late))
    }

    async fn definitions(&mut self, service: &Service, scopes: &[String]) -> Checked {
        let report = json!({"prompt": "```sh\ncat data.txt\n```\n", "files": [{"file": "data.txt", "path": "data.txt"}]});
        self.admin.upload("data.txt", "the data\n").await?;
        let body = Bytes::from(report.to_string());
        let method = sortie_testkit::http::Method::PUT;
        self.admin
            .send(method.clone(), "/v1/workflows/report", body)
            .await?
            .expect(201)?;
        for scope in scopes {
            let body = json!({"limit_micros": 500_000_000, "period": "month"}).to_string();
            let path = format!("/v1/budgets/{scope}");
            self.admin
                .send(method.clone(), &path, body.into())
                .await?
                .expect(201)?;
        }
        let api = json!({
            "type": "http", "url": format!("{}/echo", service.url()),
            "auth": {"type": "bearer", "token": SECRET}, "headers": {"X-Key": SECRET},
        });
        put(&self.admin, "api", &api).await?.expect(201)?;
        // So short that the token is refreshed before it is used.
        service.give_tokens_for(1);
        authorize(&self.admin, service).await?.expect(200)?;
        Ok(())
    }

    /// Runs that have ended.
    async fn ended(&mut self, receiver: &CallbackReceiver) -> Checked {
        let artifact = commands(&["mkdir outputs && printf 'the report' > outputs/report.md"]);
        let callback = json!({"url": receiver.url(), "secret": SECRET});
        for (name, request) in [
            (
                "succeeded",
                json!({"prompt": "hello", "input": {"a": [1, null]}, "tags": ["upgrade", "x"]}),
            ),
            ("failed", commands(&["echo oh >&2; exit 3"])),
            ("artifact", artifact),
            ("called_back", json!({"prompt": "called", "callback": callback})),
            ("report", json!({"workflow": "report"})),
        ] {
            let (_, run) = self.member.complete(&request).await?;
            self.names(name, &run.id.to_string());
        }
        let called_back = self.beside.name("called_back")?.to_owned();
        receiver.wait_for(&called_back, 1).await?;
        let cancelled = self.member.create(&waiting()).await?.id.to_string();
        self.member.cancel(&cancelled).await?;
        settled(&self.member, &cancelled).await?;
        self.names("cancelled", &cancelled);
        let unretained = json!({"prompt": "secret", "zero_data_retention": true});
        let (_, run) = self.member.complete(&unretained).await?;
        let read = self.member.run(&run.id.to_string()).await?;
        ensure!(read.output.as_deref() == Some("secret"), "{read:?}");
        self.names("unretained", &run.id.to_string());
        let once = self
            .member
            .clone()
            .with_header("idempotency-key", HeaderValue::from_static("once"));
        let run = once.create(&json!({"prompt": "once"})).await?.id.to_string();
        self.member.finished(&run).await?;
        self.names("once", &run);
        Ok(())
    }

    /// A schedule that has fired, and one that is disabled.
    async fn schedules(&mut self) -> Checked {
        let rest = json!({"workflow": "report", "cron": "30 7 * * MON-FRI", "timezone": "Europe/Berlin", "enabled": false, "name": "rest"});
        let rest = self
            .admin
            .post("/v1/schedules", &rest)
            .await?
            .expect(201)?
            .json()?;
        self.names("disabled", text(&rest, "id")?);
        let made =
            json!({"workflow": "report", "cron": "* * * * *", "overlap": "allow", "name": "each minute"});
        let made = self
            .admin
            .post("/v1/schedules", &made)
            .await?
            .expect(201)?
            .json()?;
        let id = text(&made, "id")?;
        self.names("schedule", id);
        let path = format!("/v1/schedules/{id}/fires");
        let look = async || get(&self.admin, &path).await?.json();
        let has_run = |fires: &Value| fires["items"][0]["run_id"].is_string();
        let fires = until_within(Duration::from_secs(90), "the schedule", look, has_run).await?;
        let run = text(&fires["items"][0], "run_id")?;
        self.admin.finished(run).await?;
        self.names("scheduled", run);
        Ok(())
    }

    async fn answers(&mut self, key: &str) -> Checked {
        for run in [
            "succeeded",
            "failed",
            "artifact",
            "called_back",
            "report",
            "cancelled",
            "once",
            "scheduled",
        ] {
            let id = self.beside.name(run)?.to_owned();
            for rest in ["", "/events", "/definition"] {
                self.record(&format!("/v1/runs/{id}{rest}"), false).await?;
            }
        }
        for (run, rest) in [
            ("unretained", ""),
            ("called_back", "/deliveries"),
            ("artifact", "/artifacts"),
        ] {
            let id = self.beside.name(run)?.to_owned();
            self.record(&format!("/v1/runs/{id}{rest}"), false).await?;
        }
        let disabled = self.beside.name("disabled")?.to_owned();
        for path in [
            "/v1/runs?tag=upgrade",
            "/v1/workflows/report",
            "/v1/files",
            "/v1/connections",
            "/v1/admin/keys",
            &format!("/v1/budgets/key:{key}"),
            &format!("/v1/schedules/{disabled}"),
        ] {
            self.record(path, false).await?;
        }
        let schedule = self.beside.name("schedule")?.to_owned();
        let me = get(&self.admin, "/v1/me").await?.json()?;
        let admin = text(&me, "key_id")?;
        for path in [
            "/v1/admin/audit?limit=100",
            &format!("/v1/admin/audit?limit=100&key={admin}"),
            &format!("/v1/schedules/{schedule}/fires"),
        ] {
            self.record(path, true).await?;
        }
        self.usage(key).await
    }

    /// Records what the runs of a key have cost: other rows grow.
    async fn usage(&mut self, key: &str) -> Checked {
        let body = get(&self.admin, "/v1/admin/usage?by=key,workflow,model")
            .await?
            .json()?;
        let rows = body["rows"].as_array().cloned().unwrap_or_default();
        let rows: Vec<_> = rows.into_iter().filter(|row| row["key_id"] == key).collect();
        ensure!(rows.len() == 2, "{body}");
        let path = format!(
            "/v1/admin/usage?by=key,workflow,model&from={}&to={}",
            text(&body, "from")?,
            text(&body, "to")?
        );
        self.beside.answers.push(Recorded {
            path,
            grows: true,
            body: json!({"rows": rows}),
        });
        Ok(())
    }

    /// A run at work, and one that waits for its slot: the kill of the node leaves them open.
    async fn left_open(&mut self, service: &Service, receiver: &CallbackReceiver) -> Checked {
        let late = self.admin.with_key(self.beside.name("late")?);
        let at_work = json!({"prompt": "```wait 600000\n```\n", "timeout_seconds": 30});
        let at_work = late.create(&at_work).await?.id.to_string();
        let mut stream = late.follow(&at_work, None).await?;
        stream.until_status(sortie_api::RunStatus::Running).await?;
        self.names("at_work", &at_work);
        let inline = json!({"inline": {
            "type": "http", "url": format!("{}/echo", service.url()), "headers": {"X-Key": "of-the-run"},
        }});
        let mut queued = crate::connections::calls(&[("inline__request", json!({"method": "GET"}))], &inline);
        queued["callback"] = json!({"url": receiver.url(), "secret": SECRET});
        let queued = late.create(&queued).await?;
        ensure!(queued.status == sortie_api::RunStatus::Queued, "{queued:?}");
        self.names("queued", &queued.id.to_string());
        Ok(())
    }
}

async fn a_fixture_is_made(database: Database) -> Checked {
    #[expect(
        clippy::disallowed_methods,
        reason = "the script hands the binary over in the environment"
    )]
    let binary =
        std::env::var(BINARY).with_context(|| format!("{BINARY} is not set: use scripts/upgrade-fixture"))?;
    let service = Service::start_at(service_address(database)).await?;
    let receiver = CallbackReceiver::start_at(receiver_address(database), SECRET).await?;
    // One slot, so that a run waits at the end.
    let options = options().env("SORTIE_CONCURRENCY", "1");
    let mut node = Node::on(&binary, database.fresh().await?, options, None).await?;
    let admin = node.client()?;
    let mut maker = Maker {
        member: admin.clone(),
        admin,
        beside: Beside::default(),
    };
    maker.names("admin", node.key());
    let (member, late) = maker.keys().await?;
    let scopes = [
        "organization".to_owned(),
        format!("key:{member}"),
        format!("key:{late}"),
    ];
    maker.names("late_scope", &scopes[2]);
    maker.definitions(&service, &scopes).await?;
    maker.ended(&receiver).await?;
    maker.schedules().await?;
    maker.answers(&member).await?;
    maker.left_open(&service, &receiver).await?;
    node.kill()?;
    write(database, &node, maker.beside)
}
