//! The license of a self-hosted engine: installation, allowance, expiry (`docs/LICENSES.md`).

use futures_util::future::join_all;
use sortie_api::{DeploymentId, Mode, OrgId, Timestamp};
use sortie_base::{Clock, LicenseClaims, LicenseSigner};
use sortie_engine::LicenseOptions;

use crate::prelude::*;

const AT: Timestamp = Timestamp::from_micros(1_795_000_000_000_000);
const DAY: Duration = Duration::from_hours(24);
const PATH: &str = "/v1/admin/license";

/// Engine that accepts licenses of `signer`. Its clock does not advance.
struct Licensed {
    rig: Rig,
    clock: Clock,
    signer: LicenseSigner,
    machine_id: String,
}

impl Licensed {
    async fn start() -> Self {
        Self::start_as(None).await
    }

    async fn start_as(machine_id: Option<String>) -> Self {
        let (clock, signer) = (Clock::manual(AT), signer('1'));
        let engine = sortie_engine::Options {
            clock: clock.clone(),
            license: LicenseOptions {
                public_keys: vec![signer.public().clone()],
                machine_id,
            },
            ..sortie_engine::Options::default()
        };
        let rig = Rig::start_engine(Mode::SelfHosted, options(), engine).await;
        // With several organizations, an admin has no access to the license.
        rig.remove_stranger();
        let license = rig.admin.get(PATH).must(200).await;
        let machine_id = license.json().unwrap()["machine_id"].as_str().unwrap().to_owned();
        Self {
            rig,
            clock,
            signer,
            machine_id,
        }
    }

    /// Claims of a license that this engine accepts.
    fn claims(&self, monthly_runs: i64) -> LicenseClaims {
        LicenseClaims {
            serial: "0011".to_owned(),
            deployment: DeploymentId::new(AT, [1; 10]),
            organization: OrgId::new(AT, [2; 10]),
            name: "north".to_owned(),
            machine_id: self.machine_id.clone(),
            monthly_runs,
            issued_at: AT,
            expires_at: AT + 60 * DAY,
        }
    }

    fn put(&self, token: &str) -> Pending {
        self.rig.admin.put(PATH, &json!({"token": token}))
    }

    async fn install(&self, claims: &LicenseClaims) -> Value {
        let token = self.signer.sign(claims).unwrap();
        self.put(&token).must_json(200).await
    }

    async fn license(&self) -> Value {
        self.rig.admin.get(PATH).must_json(200).await
    }

    /// Requests a run. Returns the status and the message of a refusal.
    async fn create(&self) -> (u16, String) {
        let answer = self.rig.member.post("/v1/runs", &plain("a")).await.unwrap();
        let message = answer.json().unwrap()["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (answer.status, message)
    }

    fn delete(&self) -> Pending {
        self.rig.admin.delete(PATH)
    }

    async fn audited(&self) -> Vec<(String, String)> {
        let entries = self.rig.admin.get("/v1/admin/audit").must_json(200).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let entries = entries["items"].as_array().unwrap().iter();
        let mut entries: Vec<_> = entries
            .map(|entry| (text(&entry["action"]), text(&entry["target"])))
            .filter(|(action, _)| action.starts_with("license."))
            .collect();
        // Entries of the same time have no order.
        entries.sort_unstable();
        entries
    }
}

fn signer(digit: char) -> LicenseSigner {
    digit.to_string().repeat(64).parse().unwrap()
}

#[tokio::test]
async fn a_license_is_installed_allows_its_runs_and_is_deleted() {
    let engine = Licensed::start().await;
    assert_eq!(
        engine.create().await.0,
        202,
        "without a license there is no allowance"
    );
    let installed = engine.install(&engine.claims(2)).await;
    assert_eq!(installed, engine.license().await);
    let expected = json!({"licensed": true, "organization": OrgId::new(AT, [2; 10]),
        "deployment_id": DeploymentId::new(AT, [1; 10]), "name": "north", "machine_id": engine.machine_id,
        "monthly_runs": 2, "runs_used": 0, "resets_at": installed["resets_at"], "expires_at": AT + 60 * DAY,
        "grace_until": AT + 74 * DAY});
    assert_eq!(installed, expected, "the run before the license does not count");
    assert!(
        installed["resets_at"]
            .as_str()
            .unwrap()
            .ends_with("-01T00:00:00.000Z")
    );
    assert_eq!((engine.create().await.0, engine.create().await.0), (202, 202));
    let (status, message) = engine.create().await;
    assert_eq!(status, 402);
    let resets = installed["resets_at"].as_str().unwrap();
    let text = format!("license: all 2 runs of this month are used, the next month begins at {resets}");
    assert_eq!(message, text);
    assert_eq!(engine.license().await["runs_used"], 2);
    assert_eq!(engine.rig.admin.list("").await.unwrap().len(), 3);
    // A license with more runs keeps the count.
    let larger = engine.install(&engine.claims(3)).await;
    assert_has!(larger, {"monthly_runs": 3, "runs_used": 2});
    assert_eq!((engine.create().await.0, engine.create().await.0), (202, 402));
    assert_eq!(engine.delete().await.unwrap().status, 204);
    assert_eq!(engine.create().await.0, 202);
    assert_eq!(engine.license().await["licensed"], false);
    engine.delete().must_refuse("not_found").await;
    engine.install(&engine.claims(3)).await;
    assert_eq!(engine.create().await.0, 402, "the count of the month stays");
    let deployment = DeploymentId::new(AT, [1; 10]).to_string();
    let put = ("license.put".to_owned(), deployment);
    let deleted = ("license.delete".to_owned(), engine.machine_id.clone());
    assert_eq!(engine.audited().await, [deleted, put.clone(), put.clone(), put]);
}

#[tokio::test]
async fn a_repeated_request_is_answered_although_the_allowance_is_used() {
    let engine = Licensed::start().await;
    engine.install(&engine.claims(1)).await;
    let create = async || {
        let body = Bytes::from(plain("a").to_string());
        let client = engine.rig.member.with_header("idempotency-key", "once");
        client.send(Method::POST, "/v1/runs", body).await.unwrap()
    };
    let first = create().await.expect(202).unwrap().json().unwrap();
    assert_eq!(engine.create().await.0, 402);
    let again = create().await.expect(200).unwrap().json().unwrap();
    assert_eq!(first["id"], again["id"]);
    engine.clock.set(AT + 90 * DAY);
    assert_eq!(create().await.status, 200, "also after the license has expired");
}

#[tokio::test]
async fn runs_that_come_together_do_not_exceed_the_allowance() {
    let engine = Licensed::start().await;
    engine.install(&engine.claims(7)).await;
    let created = join_all((0..100).map(|_| engine.create())).await;
    assert_eq!(created.iter().filter(|(status, _)| *status == 202).count(), 7);
    assert_eq!(created.iter().filter(|(status, _)| *status == 402).count(), 93);
    assert_eq!(engine.license().await["runs_used"], 7);
}

#[tokio::test]
async fn a_month_begins_at_zero_and_an_expired_license_has_a_grace_of_fourteen_days() {
    let engine = Licensed::start().await;
    engine.install(&engine.claims(1)).await;
    assert_eq!((engine.create().await.0, engine.create().await.0), (202, 402));
    engine.clock.set(AT + 40 * DAY);
    assert_eq!((engine.create().await.0, engine.create().await.0), (202, 402));
    // The second license ends in a separate month.
    engine.install(&engine.claims(1_000)).await;
    let end = AT + 60 * DAY;
    engine.clock.set(end + 14 * DAY);
    let (status, message) = engine.create().await;
    assert_eq!(status, 402);
    let text = format!(
        "license: it expired at {end}, and its grace has ended; install a new license, or delete this one"
    );
    assert_eq!(message, text);
    engine
        .clock
        .set(Timestamp::from_micros((end + 14 * DAY).as_micros() - 1));
    assert_eq!(engine.create().await.0, 202);
    engine.clock.set(end + 15 * DAY);
    assert_eq!(engine.delete().await.unwrap().status, 204);
    assert_eq!(engine.create().await.0, 202);
}

#[tokio::test]
async fn a_token_that_breaks_a_rule_is_refused_with_the_rule() {
    let engine = Licensed::start().await;
    let sign = |signer: &LicenseSigner, claims: &LicenseClaims| signer.sign(claims).unwrap().to_string();
    let good = engine.claims(5);
    let token = sign(&engine.signer, &good);
    let other = LicenseClaims {
        machine_id: "0".repeat(32),
        ..good.clone()
    };
    let expired = LicenseClaims {
        expires_at: AT,
        ..good.clone()
    };
    let tampered = token.replacen("v4.public.eyJz", "v4.public.eyJ0", 1);
    assert_ne!(tampered, token);
    for (token, rule) in rows! {
        "guess".to_owned(), "token: must be a license token, which begins with v4.public.".to_owned();
        sign(&signer('2'), &good),
        format!(
            "token: must be signed with a key of license.public_keys, which lacks {:?}",
            signer('2').public().id()
        );
        tampered, "token: has a wrong signature".to_owned();
        sign(&engine.signer, &other),
        format!(
            "token: must be issued for this installation with the machine ID {}; it is for {}",
            engine.machine_id, other.machine_id
        );
        sign(&engine.signer, &expired), format!("token: must not be expired; it expired at {AT}");
    } {
        let refused = engine.put(&token).must_refuse("invalid_request").await;
        assert_eq!(refused.error, rule);
    }
    for body in ["{}", r#"{"token":1}"#, r#"{"token":"x","force":true}"#] {
        engine
            .rig
            .admin
            .send(Method::PUT, PATH, Bytes::from(body))
            .must_refuse("invalid_request")
            .await;
    }
    assert_eq!(engine.license().await["licensed"], false);
    assert_eq!(engine.audited().await, []);
    engine.put(&token).must(200).await;
}

#[tokio::test]
async fn a_configured_machine_id_is_that_of_the_installation() {
    let id = "0123456789abcdef".repeat(2);
    let engine = Licensed::start_as(Some(id.clone())).await;
    assert_eq!(engine.machine_id, id);
    assert_eq!(engine.install(&engine.claims(5)).await["licensed"], true);
}

#[tokio::test]
async fn operators_see_the_use_of_a_license() {
    let engine = Licensed::start().await;
    let check = async || {
        let answer = engine.rig.admin.get("/v1/admin/checks").await.unwrap();
        let checks = answer.expect(200).unwrap().json().unwrap()["checks"].clone();
        let mut checks = checks.as_array().unwrap().clone().into_iter();
        checks.find(|check| check["name"] == "license")
    };
    let figures = async || {
        let text = engine.rig.admin.get("/metrics").await.unwrap().text();
        let figure = |name: &str| {
            let mut lines = text.lines();
            let found = lines.find_map(|line| line.strip_prefix(&format!("sortie_license_{name} ")));
            found.unwrap().parse::<f64>().unwrap()
        };
        let remaining = figure("remaining_seconds");
        (
            figure("runs_used"),
            figure("monthly_runs"),
            remaining,
            figure("refusals_total"),
        )
    };
    assert_eq!(check().await, None, "there is none");
    engine.install(&engine.claims(1)).await;
    assert_eq!((engine.create().await.0, engine.create().await.0), (202, 402));
    let found = check().await.unwrap();
    assert_eq!(found["verdict"], "fault");
    assert_eq!(found["found"], "expires in 60 days; 1 of 1 runs used this month");
    assert_eq!(figures().await, (1.0, 1.0, (60 * DAY).as_secs_f64(), 1.0));
}
