use super::{fixture::DEFINITION, prelude::*};

both! {
    async fn a_run_keeps_the_subject_that_started_it(fixture: &Fixture, org: OrgId, at: Timestamp) {
        let key = fixture.key(org, sortie_api::Role::Member).await.id;
        for by in [
            None,
            Some(By::Key(key)),
            Some(By::Grant(GrantId::new(at, [1; 10]))),
            Some(By::Session(SessionId::new(at, [1; 10]))),
            Some(By::Operator),
        ] {
            let labels = Labels { by, ..Labels::default() };
            let run = NewRun { labels, ..fixture.new_run(org) };
            let id = run.id;
            fixture.store.create_run(run).await.unwrap();
            let kept = fixture.store.db.read(move |tx| {
                let row = tx.query_one("SELECT started_by, key_id FROM run WHERE id = $1", vals![id])?;
                Ok((row.column::<Option<String>>(0, "started_by")?, row.column(1, "key_id")?))
            });
            assert_eq!(kept.await.unwrap(), (by.map(|by| by.to_string()), by.and_then(By::key)));
        }
    }

    async fn a_new_run_is_queued_with_its_definition_and_first_event(fixture: &Fixture, org: OrgId) {
        let new = fixture.new_run(org);
        let Created::New(run) = fixture.store.create_run(new.clone()).await.unwrap() else {
            panic!("it is new");
        };
        assert_eq!(run, fixture.get(org, new.id).await);
        assert_eq!(run.status, RunStatus::Queued);
        assert_eq!(run.created_at, new.created_at);
        assert_eq!(run.max_cost_micros, new.max_cost);
        assert_eq!(run.cost_micros, Micros::ZERO);
        assert!(run.billing_pending);
        assert_eq!((run.output, run.error, run.started_at, run.finished_at), (None, None, None, None));
        let definition = fixture.store.run_definition(org, new.id).await.unwrap();
        assert_eq!(definition.request.as_deref(), Some(DEFINITION));
        let events = fixture.events(org, new.id).await;
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].seq, &*events[0].kind, &*events[0].data), (1, "status", r#"{"status":"queued"}"#));
        assert_eq!(events[0].created_at, new.created_at);
    }

    async fn the_same_idempotency_key_finds_the_run_and_creates_nothing(fixture: &Fixture, org: OrgId) {
        let mut first = fixture.new_run(org);
        first.idempotency_key = Some("once".to_owned());
        fixture.store.create_run(first.clone()).await.unwrap();
        let node = fixture.node().await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();

        let mut second = fixture.new_run(org);
        second.idempotency_key = Some("once".to_owned());
        let Created::Existing(run) = fixture.store.create_run(second.clone()).await.unwrap() else {
            panic!("it exists");
        };
        assert_eq!(run, fixture.get(org, first.id).await);
        assert_eq!(run.output.as_deref(), Some("out"));
        assert_eq!(fixture.store.get_run(org, second.id).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run_definition").await, 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
    }

    async fn a_run_is_found_by_its_idempotency_key(fixture: &Fixture, org: OrgId, other: OrgId) {
        let mut new = fixture.new_run(org);
        new.idempotency_key = Some("once".to_owned());
        let find = async |org, key| fixture.store.find_idempotent(org, key).await.unwrap();
        assert_eq!(find(org, "once").await, None);
        fixture.store.create_run(new.clone()).await.unwrap();
        assert_eq!(find(org, "once").await, Some(fixture.get(org, new.id).await));
        assert_eq!(find(org, "twice").await, None);
        assert_eq!(find(other, "once").await, None);
    }

    async fn an_idempotency_key_belongs_to_its_organization(fixture: &Fixture) {
        for org in [fixture.org().await, fixture.org().await] {
            let mut run = fixture.new_run(org);
            run.idempotency_key = Some("once".to_owned());
            assert!(matches!(fixture.store.create_run(run).await.unwrap(), Created::New(_)));
        }
    }

    async fn a_run_id_is_never_used_twice(fixture: &Fixture, org: OrgId) {
        let run = fixture.new_run(org);
        fixture.store.create_run(run.clone()).await.unwrap();
        assert!(matches!(fixture.store.create_run(run).await.unwrap_err(), Error::Database(_)));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 1);
    }

    async fn a_definition_of_many_megabytes_is_kept_as_sent(fixture: &Fixture, org: OrgId) {
        let mut run = fixture.new_run(org);
        let sent = format!("{{\"prompt\":\"{}\"}}", "ä\u{10FFFF}".repeat(1_500_000));
        run.definition = sent.as_str().into();
        fixture.store.create_run(run.clone()).await.unwrap();
        let stored = fixture.store.run_definition(org, run.id).await.unwrap();
        assert_eq!(stored.request, None, "it is large");
        let text = fixture.store.large_text(org, LargeText::Definition(run.id)).await.unwrap();
        assert!(text == sent);
    }

    async fn a_text_with_u0000_is_an_error_and_nothing_is_written(fixture: &Fixture, org: OrgId) {
        let mut run = fixture.new_run(org);
        run.definition = "a\0b".into();
        let error = fixture.store.create_run(run).await.unwrap_err();
        assert!(error.to_string().contains("U+0000"), "{error}");
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 0);

        let node = fixture.node().await;
        let fence = fixture.running(org, node).await;
        fixture.store.finish_run(fence, fixture.succeeded("a\0b")).await.unwrap_err();
        assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Running);
    }
}
