//! Licenses from the signing key of a hosted deployment to the refused run of a self-hosted engine (`docs/LICENSES.md`).

use std::{io::Write as _, process::Stdio};

use crate::prelude::*;

both_databases![an_engine_is_licensed_by_a_hosted_deployment];

/// Hosted deployment that issues licenses, with an organization.
struct Issuer {
    hosted: HostedNode,
    /// Session of the organization's owner.
    session: String,
    org: String,
}

impl Issuer {
    async fn start(database: Database) -> Result<Self> {
        let options = NodeOptions::default().env("SORTIE_LICENSE_SIGNING_KEY", &"5c".repeat(32));
        let hosted = crate::hosted_with(database, options).await?;
        let person = json!({"email": "ann@example.com", "name": "Ann", "password": "plum-anchor-violet-42"});
        let signed = hosted.anybody().post("/v1/auth/signup", &person).await?;
        let session = text_of(&signed.expect(201)?.json()?, "token")?;
        let made = hosted
            .client(&session)
            .post("/v1/organizations", &json!({"name": "Plum"}))
            .await?;
        let org = text_of(&made.expect(201)?.json()?, "id")?;
        Ok(Self { hosted, session, org })
    }

    fn grant(&self, monthly_runs: u32) -> Checked {
        let runs = monthly_runs.to_string();
        let grant = [
            "license",
            "grant",
            &self.org,
            "--monthly-runs",
            &runs,
            "--deployments",
            "3",
        ];
        let granted = exits(self.hosted.node.sortie(&grant), 0)?;
        let text = text(&granted.stderr);
        ensure!(text.contains("may license 3 installations"), "{text}");
        Ok(())
    }

    /// Creates a deployment and returns its token.
    async fn token(&self, machine_id: &str) -> Result<String> {
        let client = self.hosted.client(&self.session);
        let path = format!("/v1/organizations/{}/deployments", self.org);
        for deployment in client.get(&path).json(200).await?.as_array().context("a list")? {
            if deployment.get("ended_at").is_none() {
                let path = format!("{path}/{}", text_of(deployment, "id")?);
                let delete = sortie_testkit::http::Method::DELETE;
                client.send(delete, &path, Vec::new().into()).expect(204).await?;
            }
        }
        let body = json!({"name": "north", "machine_id": machine_id});
        text_of(&client.post(&path, &body).json(201).await?, "token")
    }
}

fn text_of(object: &Value, field: &str) -> Result<String> {
    Ok(object[field]
        .as_str()
        .with_context(|| object.to_string())?
        .to_owned())
}

/// Installs a token from standard input.
fn install(node: &Node, token: &str) -> Result<Value> {
    let mut child = node
        .sortie(&["license", "install", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    writeln!(child.stdin.take().context("standard input")?, "{token}")?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", text(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

async fn create(node: &Node) -> Result<u16> {
    let request = json!({"prompt": "x", "shell": false});
    Ok(node.client()?.post("/v1/runs", &request).await?.status)
}

/// `docs/LICENSES.md`: grant, deployment, installation, allowance, checks, deletion.
async fn an_engine_is_licensed_by_a_hosted_deployment(database: Database) -> Checked {
    let issuer = Issuer::start(database).await?;
    let public_key = said(&issuer.hosted.node, &["license", "public-key"])?;
    let options = NodeOptions::default().env("SORTIE_LICENSE_PUBLIC_KEYS", public_key.trim());
    let mut engine = node_with(database, options.clone()).await?;
    let machine_id = text_of(&json_said(&engine, &["license", "--json"])?, "machine_id")?;

    issuer.grant(2)?;
    let token = issuer.token(&machine_id).await?;
    let installed = install(&engine, &token)?;
    assert_has!(installed, {"licensed": true, "monthly_runs": 2});
    assert_eq!(installed["organization"], json!(issuer.org));
    let statuses = [
        create(&engine).await?,
        create(&engine).await?,
        create(&engine).await?,
    ];
    assert_eq!(statuses, [202, 202, 402]);
    let shown = said(&engine, &["license"])?;
    assert_contains!(shown, "2 of 2 this month", "(north)");
    let doctor = exits(engine.sortie(&["doctor", "--url", &engine.url()?]), 1)?;
    let doctor = text(&doctor.stdout);
    assert_contains!(
        doctor,
        "license",
        "expires in 365 days; 2 of 2 runs used this month"
    );
    // The count and the license survive a restart.
    engine.kill()?;
    engine.restart().await?;
    assert_eq!(create(&engine).await?, 402);

    issuer.grant(3)?;
    let larger = issuer.token(&machine_id).await?;
    install(&engine, &larger)?;
    assert_eq!([create(&engine).await?, create(&engine).await?], [202, 402]);
    let other = issuer.token(&"0".repeat(32)).await?;
    let refused = exits(engine.sortie(&["license", "install", &other]), 64)?;
    let refused = text(&refused.stderr);
    ensure!(refused.contains("with the machine ID"), "{refused}");
    exits(engine.sortie(&["license", "delete"]), 0)?;
    assert_eq!(create(&engine).await?, 202);
    if database == Database::Postgres {
        let second = engine.beside().await?;
        assert_eq!(create(&second).await?, 202);
        install(&engine, &larger)?;
        learns(&second, 402).await?;
        exits(engine.sortie(&["license", "delete"]), 0)?;
        learns(&second, 202).await?;
    }
    Ok(())
}

/// Creates runs at a node until the answer has this status.
async fn learns(node: &Node, status: u16) -> Checked {
    let create = async || create(node).await;
    until("the node to learn of the license", create, |answered| {
        *answered == status
    })
    .await?;
    Ok(())
}
