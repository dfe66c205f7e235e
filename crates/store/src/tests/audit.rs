use sortie_api::{ActorKind, AuditEntry};

use super::prelude::*;
use crate::access::Actor;

fn page(limit: u32) -> AuditFilter {
    AuditFilter {
        limit,
        ..AuditFilter::default()
    }
}

both! {
    async fn a_change_writes_down_who_did_it_and_from_where(fixture: &Fixture, org: OrgId) {
        let key = fixture.new_key(org, Role::Admin);
        let actor = Actor {
            by: Some(By::Key(key.id)),
            user: Some(UserId::new(fixture.now(), [7; 10])),
            address: Some("2001:db8::7".parse().unwrap()),
            request_id: Some("req-1".to_owned()),
            trace: None,
            session_key: None,
        };
        let audit = Audit { actor, action: "key.create", target: key.id.to_string(), ..fixture.audit(org) };
        fixture.store.create_key(key.clone(), audit.clone()).await.unwrap();
        let entries = fixture.store.list_audit(org, page(10)).await.unwrap().items;
        let expected = AuditEntry {
            id: audit.id,
            at: audit.at,
            action: "key.create".to_owned(),
            target: key.id.to_string(),
            actor_kind: Some(ActorKind::Key),
            actor_id: Some(key.id.to_string()),
            key_id: Some(key.id),
            user_id: audit.actor.user,
            address: audit.actor.address,
            request_id: Some("req-1".to_owned()),
        };
        assert_eq!(entries, [expected]);
        let other = fixture.org().await;
        assert_eq!(fixture.store.list_audit(other, page(10)).await.unwrap().items, []);
    }

    async fn every_kind_of_author_is_written_down(fixture: &Fixture, org: OrgId, at: Timestamp) {
        let subjects = [
            None,
            Some(By::Key(fixture.key(org, Role::Admin).await.id)),
            Some(By::Grant(GrantId::new(at, [1; 10]))),
            Some(By::Session(SessionId::new(at, [1; 10]))),
            Some(By::Schedule(ScheduleId::new(at, [1; 10]))),
            Some(By::Operator),
        ];
        for by in subjects {
            let actor = Actor { by, ..Actor::default() };
            let audit = Audit { actor, ..fixture.audit(org) };
            fixture.store.create_key(fixture.new_key(org, Role::Member), audit).await.unwrap();
            let entries = fixture.store.list_audit(org, page(1)).await.unwrap().items;
            let [entry] = entries.as_slice() else { panic!("{entries:?}") };
            assert_eq!(entry.actor_kind, by.map(By::kind));
            assert_eq!(entry.actor_id, by.and_then(By::id));
            assert_eq!(entry.key_id, by.and_then(By::key));
        }
    }

    async fn an_entry_of_a_later_version_is_read_without_its_kind(fixture: &Fixture, org: OrgId) {
        fixture.store.create_key(fixture.new_key(org, Role::Member), fixture.audit(org)).await.unwrap();
        let rename = |tx: &mut dyn Tx| {
            tx.exec("UPDATE audit SET actor_kind = 'robot', actor_id = 'robot_1'", vals![])
        };
        fixture.store.db.write(move |tx| rename(tx).map(drop)).await.unwrap();
        let entries = fixture.store.list_audit(org, page(1)).await.unwrap().items;
        assert_eq!((entries[0].actor_kind, entries[0].actor_id.as_deref()), (None, Some("robot_1")));
    }

    async fn a_refused_change_writes_nothing_down(fixture: &Fixture, org: OrgId, store: &Store) {
        let admin = fixture.key(org, Role::Admin).await;
        let there = fixture.connection(org, "a").await;
        let before = store.list_audit(org, page(100)).await.unwrap().items;
        let none = fixture.new_key(org, Role::Member);
        let audit = || fixture.audit(org);

        assert!(!store.bootstrap("again", fixture.new_key(org, Role::Admin), audit()).await.unwrap());
        store.delete_key(org, admin.id, audit()).await.unwrap_err();
        store.delete_key(org, none.id, audit()).await.unwrap_err();
        let at = fixture.now();
        let rotation = Rotation { id: none.id, hash: [7; 32], at, previous_until: at };
        store.rotate_key(org, rotation, audit()).await.unwrap_err();
        assert!(!store.create_connection(fixture.new_connection(org, "a"), 100, audit()).await.unwrap());
        let full = store.create_connection(fixture.new_connection(org, "b"), 1, audit()).await;
        assert!(matches!(full, Err(Error::Conflict(_))));
        assert!(!store.replace_connection(there.clone(), 7, OldTokens::Keep, audit()).await.unwrap());
        let confirmed = crate::tests::fixture::Fixture::confirmed(&there, 7, b"x");
        assert!(!store.save_authorization(confirmed, audit()).await.unwrap());
        let failed = store.record_failed_authorization(org, (there.id, 7), "late".to_owned(), audit()).await;
        assert!(!failed.unwrap());
        store.delete_connection(org, "b", audit()).await.unwrap_err();
        let mut flow = crate::tests::fixture::Fixture::flow(&there, 1);
        flow.revision = 7;
        store.begin_authorization(flow.clone(), at, audit()).await.unwrap_err();
        assert!(!store.await_confirmation(flow, "late".to_owned(), audit()).await.unwrap());

        assert_eq!(store.list_audit(org, page(100)).await.unwrap().items, before);
    }

    async fn the_log_is_listed_newest_first_by_pages_and_filters(fixture: &Fixture, org: OrgId) {
        let keys = [fixture.new_key(org, Role::Admin), fixture.new_key(org, Role::Admin)];
        let mut written = Vec::new();
        for number in 0..12_usize {
            let audit = Audit {
                actor: Actor { by: keys.get(number % 3).map(|key| By::Key(key.id)), ..Actor::default() },
                action: ["a.put", "a.delete"][number % 2],
                target: format!("t{}", number % 4),
                ..fixture.audit(org)
            };
            written.push(audit.clone());
            fixture.store.create_key(fixture.new_key(org, Role::Member), audit).await.unwrap();
        }
        // Entries of the same time are in the order of their ids.
        let twin = Audit { at: written[5].at, ..fixture.audit(org) };
        fixture.store.create_key(fixture.new_key(org, Role::Member), twin.clone()).await.unwrap();
        written.push(twin);
        written.sort_by_key(|audit| std::cmp::Reverse((audit.at, audit.id)));

        let mut seen = Vec::new();
        let mut filter = page(5);
        loop {
            let entries = fixture.store.list_audit(org, filter.clone()).await.unwrap().items;
            let Some(last) = entries.last() else { break };
            filter.before = Some((last.at, last.id));
            seen.extend(entries.into_iter().map(|entry| entry.id));
        }
        assert_eq!(seen, written.iter().map(|audit| audit.id).collect::<Vec<_>>());

        let middle = written[6].at;
        for (action, target, key, since, until) in [
            (Some("a.put"), None, None, None, None),
            (None, Some("t3"), None, None, None),
            (None, None, Some(keys[0].id), None, None),
            (Some("a.delete"), Some("t1"), Some(keys[1].id), None, None),
            (Some("a.put"), Some("t1"), None, None, None),
            (None, None, None, Some(middle), None),
            (None, None, None, None, Some(middle)),
            (Some("a.put"), None, Some(keys[1].id), Some(middle), Some(middle + Duration::from_secs(9))),
        ] {
            let filter = AuditFilter {
                action: action.map(str::to_owned),
                target: target.map(str::to_owned),
                key,
                since,
                until,
                ..page(100)
            };
            let matches = |audit: &&Audit| {
                action.is_none_or(|action| audit.action == action)
                    && target.is_none_or(|target| audit.target == target)
                    && (key.is_none() || audit.actor.key() == key)
                    && since.is_none_or(|since| audit.at >= since)
                    && until.is_none_or(|until| audit.at < until)
            };
            let expected: Vec<_> = written.iter().filter(matches).map(|audit| audit.id).collect();
            let listed = fixture.store.list_audit(org, filter.clone()).await.unwrap().items;
            let listed: Vec<_> = listed.into_iter().map(|entry| entry.id).collect();
            assert_eq!(listed, expected, "{filter:?}");
        }
    }
}
