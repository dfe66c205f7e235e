//! Credits: reservations and costs of runs, the ledger, movements by the operator, and the check.

use crate::{operator::ask, prelude::*, rig::CREDITS};

crate::settings::everywhere! {
    a_run_is_paid_with_credits,
    a_run_that_credits_do_not_cover_is_refused_until_the_operator_gives_more,
    a_movement_is_made_once_for_each_reference,
    the_ledger_is_read_in_pages,
    the_check_of_the_ledger_finds_what_was_changed_past_the_store,
    an_account_stays_while_its_organization_has_credits,
}

const PASSWORD: &str = "plum anchor violet 42";

fn run(max_cost: i64) -> Value {
    json!({"prompt": "hello", "shell": false, "model": "runbook", "max_cost_micros": max_cost})
}

impl Rig {
    /// Reads below the first organization, as its owner.
    async fn read(&self, path: &str) -> Value {
        let path = format!("/v1/organizations/{}/{path}", self.ours);
        self.owner.get(&path).must_json(200).await
    }

    fn create(&self, max_cost: i64) -> Pending {
        let path = format!("/engine/{}/v1/runs", self.ours);
        self.owner.post(&path, &run(max_cost))
    }

    /// Waits for the end of a run, and returns it.
    async fn ended(&self, created: Answer) -> Value {
        let created = created.expect(202).unwrap().json().unwrap();
        let id = created["id"].as_str().unwrap();
        let path = format!("/engine/{}/v1/runs/{id}?wait=60", self.ours);
        let run = self.owner.get(&path).must_json(200).await;
        assert!(run["finished_at"].is_string(), "{run}");
        run
    }
}

async fn a_run_is_paid_with_credits() {
    let rig = Rig::start().await;
    let before = json!({"balance_micros": CREDITS, "reserved_micros": 0, "available_micros": CREDITS});
    assert_eq!(rig.read("balance").await, before);
    // A second of compute costs 30 micros, so this run costs at least 3.
    let waits = json!({"prompt": "```wait 100\n```\n", "shell": false, "model": "runbook", "max_cost_micros": 20_000});
    let path = format!("/engine/{}/v1/runs", rig.ours);
    let run = rig.ended(rig.owner.post(&path, &waits).await.unwrap()).await;
    assert_eq!(
        (&run["status"], &run["billing_pending"]),
        (&"succeeded".into(), &false.into())
    );
    let cost = run["cost_micros"].as_i64().unwrap_or_default();
    assert!((3..=20_000).contains(&cost), "{run}");
    let left = CREDITS - cost;
    let after = json!({"balance_micros": left, "reserved_micros": 0, "available_micros": left});
    assert_eq!(rig.read("balance").await, after);

    let billing = rig.read("billing").await;
    for field in ["balance_micros", "reserved_micros", "available_micros"] {
        assert_eq!(billing[field], after[field]);
    }
    // The ledger explains the balance.
    let entries = billing["ledger"].as_array().unwrap();
    let sum: i64 = entries
        .iter()
        .filter_map(|entry| entry["amount_micros"].as_i64())
        .sum();
    assert_eq!(sum, left, "{billing}");
    let charges: Vec<&Value> = entries.iter().filter(|entry| entry["kind"] == "charge").collect();
    assert_eq!(charges.len(), 1, "{billing}");
    assert_has!(charges[0], {"run_id": run["id"], "description": "run"});
    assert_eq!(charges[0]["amount_micros"], -cost);
    let limits = json!({"min_amount_cents": 500, "max_amount_cents": 1_000_000, "min_threshold_cents": 500});
    assert_eq!(billing["purchase_limits"], limits);
    assert_eq!(billing["auto_topup"]["enabled"], false);
    assert_eq!(billing["auto_topup"]["payment_method_saved"], false);
    assert_eq!(billing["payment_method"], Value::Null);
    assert_eq!(billing["payment_method_sync"], "synced");
    assert_eq!(billing["stripe_configured"], false);

    // The stream of a paid run begins with the reservation.
    let path = format!(
        "/engine/{}/v1/runs/{}/events",
        rig.ours,
        run["id"].as_str().unwrap()
    );
    let events = rig.owner.get(&path).await.unwrap().text();
    let statuses: Vec<&str> = events
        .lines()
        .filter(|line| line.starts_with("data: ") && line.contains("\"type\":\"status\""))
        .filter_map(|line| line.split("\"status\":\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(
        statuses,
        ["reserving", "queued", "starting", "running", "succeeded"]
    );
    rig.end().await;
}

async fn a_run_that_credits_do_not_cover_is_refused_until_the_operator_gives_more() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let path = format!("/v1/operator/organizations/{}/credits", rig.ours);
    let take =
        json!({"amount_micros": 15_000 - CREDITS, "kind": "correction", "reason": "x", "reference": "take"});
    ask(&operator, Method::POST, &path, take).await;
    for _ in 0..2 {
        let refused = rig.create(20_000).await.unwrap();
        let told = refused.text();
        refused.refused("payment_required").unwrap();
        assert_contains!(told, "credits: max_cost_micros is 20000, and 15000 are available");
    }
    let runs = rig
        .owner
        .get(&format!("/engine/{}/v1/runs", rig.ours))
        .await
        .unwrap();
    assert_eq!(runs.json().unwrap(), json!([]));
    assert_eq!(rig.read("balance").await["reserved_micros"], 0);
    let give = json!({"amount_micros": 5_000, "reason": "x", "reference": "give"});
    ask(&operator, Method::POST, &path, give).await;
    rig.ended(rig.create(20_000).await.unwrap()).await;
    rig.end().await;
}

async fn a_movement_is_made_once_for_each_reference() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let path = |org| format!("/v1/operator/organizations/{org}/credits");
    let grant = |amount: i64| json!({"amount_micros": amount, "reason": "welcome", "reference": "ticket-1"});
    for (status, left) in [(201, CREDITS + 7), (200, CREDITS + 7)] {
        let answer = operator.post(&path(rig.ours), &grant(7)).await.unwrap();
        assert_eq!(
            answer.expect(status).unwrap().json().unwrap()["balance_micros"],
            left
        );
    }
    for (org, amount) in [(rig.ours, 8), (rig.theirs, 7)] {
        operator
            .post(&path(org), &grant(amount))
            .must_refuse("conflict")
            .await;
    }
    for wrong in [
        json!({"amount_micros": -7, "reason": "x", "reference": "a"}),
        json!({"amount_micros": 0, "kind": "correction", "reason": "x", "reference": "a"}),
        json!({"amount_micros": 7, "reason": " ", "reference": "a"}),
        json!({"amount_micros": 7, "reason": "x"}),
        json!({"amount_micros": 7, "reason": "x", "reference": "a", "more": 1}),
        json!({"amount_micros": 7, "reason": "x", "reference": "a", "kind": "purchase"}),
    ] {
        operator
            .post(&path(rig.ours), &wrong)
            .must_refuse("invalid_request")
            .await;
    }
    let nobody = path("org_01kafs6w1cefkstv6qr1ptb0mp".parse().unwrap());
    operator.post(&nobody, &grant(7)).must_refuse("not_found").await;
    operator.get(&nobody).must_refuse("not_found").await;
    let credits = ask(&operator, Method::GET, &path(rig.ours), Value::Null).await;
    assert_eq!(credits["available_micros"], CREDITS + 7);
    let audit = rig
        .owner
        .get(&format!(
            "/engine/{}/v1/admin/audit?action=credits.grant",
            rig.ours
        ))
        .await
        .unwrap();
    let entries = audit.json().unwrap()["items"].clone();
    let mut targets: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["target"].as_str().unwrap().to_owned())
        .collect();
    targets.sort_unstable();
    assert_eq!(
        targets,
        [rig.ours.to_string(), "ticket-1".to_owned()],
        "one is of the rig"
    );
    rig.end().await;
}

async fn the_ledger_is_read_in_pages() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    for number in 1..=4 {
        let path = format!("/v1/operator/organizations/{}/credits", rig.ours);
        let grant = json!({"amount_micros": number, "reason": "x", "reference": number.to_string()});
        ask(&operator, Method::POST, &path, grant).await;
        rig.clock.set(rig.clock.now() + Duration::from_secs(1));
    }
    let (mut amounts, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = rig.read(&format!("billing/ledger?limit=2{cursor}")).await;
        let entries = page["ledger"].as_array().unwrap();
        amounts.extend(
            entries
                .iter()
                .map(|entry| entry["amount_micros"].as_i64().unwrap()),
        );
        let next = page["next_cursor"].as_str().unwrap();
        if next.is_empty() {
            break;
        }
        cursor = format!("&cursor={next}");
    }
    // The first movement and the one of the rig have the same time.
    assert_eq!(amounts[..3], [4, 3, 2]);
    let mut rest = amounts.split_off(3);
    rest.sort_unstable();
    assert_eq!(rest, [1, CREDITS]);
    let path = |org| format!("/v1/organizations/{org}/billing/ledger");
    for query in ["limit=0", "limit=101", "cursor=x"] {
        let wrong = format!("{}?{query}", path(rig.ours));
        rig.owner.get(&wrong).must_refuse("invalid_request").await;
    }
    // A cursor belongs to one organization.
    let foreign = format!("{}?limit=2{cursor}", path(rig.theirs));
    rig.stranger.get(&foreign).must_refuse("invalid_request").await;
    rig.end().await;
}

async fn the_check_of_the_ledger_finds_what_was_changed_past_the_store() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    rig.ended(rig.create(20_000).await.unwrap()).await;
    let check = async || {
        let (mut differences, mut organizations, mut cursor) = (Vec::new(), 0, String::new());
        loop {
            let path = format!("/v1/operator/ledger/check?limit=1{cursor}");
            let page = ask(&operator, Method::GET, &path, Value::Null).await;
            organizations += page["organizations"].as_i64().unwrap();
            differences.extend(page["differences"].as_array().unwrap().clone());
            let next = page["next_cursor"].as_str().unwrap();
            if next.is_empty() {
                return (organizations, differences);
            }
            cursor = format!("&cursor={next}");
        }
    };
    assert_eq!(check().await, (2, Vec::new()));
    rig.meddle(&format!(
        "UPDATE credit SET balance_micros = balance_micros + 5 WHERE org_id = '{}'",
        rig.theirs
    ))
    .await;
    let found = json!({"organization_id": rig.theirs.to_string(), "rule": "balance",
        "expected_micros": CREDITS, "found_micros": CREDITS + 5});
    assert_eq!(check().await, (2, vec![found]));
    rig.end().await;
}

async fn an_account_stays_while_its_organization_has_credits() {
    let rig = Rig::start().await;
    let person = json!({"email": "lender@example.com", "password": PASSWORD, "name": "Lender"});
    let anybody = Client::new(rig.address, None);
    let signed = anybody.post("/v1/auth/signup", &person).must_json(201).await;
    let lender = anybody.with_key(signed["token"].as_str().unwrap());
    let made = lender
        .post("/v1/organizations", &json!({"name": "mine"}))
        .must_json(201)
        .await;
    let operator = operator(&rig).await;
    let path = format!(
        "/v1/operator/organizations/{}/credits",
        made["id"].as_str().unwrap()
    );
    let correct = async |amount: i64| {
        let correction = json!({"amount_micros": amount, "kind": "correction", "reason": "x", "reference": amount.to_string()});
        ask(&operator, Method::POST, &path, correction).await
    };
    let delete = async || {
        let body = json!({"password": PASSWORD});
        send(&lender, Method::DELETE, "/v1/auth/me", &body).await.unwrap()
    };
    correct(5).await;
    let refused = delete().await;
    let told = refused.text();
    refused.refused("conflict").unwrap();
    assert!(told.contains("you own an organization with credits"), "{told}");
    correct(-5).await;
    delete().await.expect(204).unwrap();
    rig.end().await;
}
