use sortie_api::{ConnectionId, ConnectionStatus};

use super::prelude::*;
use crate::connections::{AWAITING, Confirmed, OauthFlow, RefreshHolder, SaveConnection};

const MINUTE: Duration = Duration::from_mins(1);

impl Fixture {
    pub(super) fn new_connection(&self, org: OrgId, name: &str) -> SaveConnection {
        let at = self.now();
        let mut random = [0; 10];
        random[2..].copy_from_slice(&self.number().to_be_bytes());
        SaveConnection {
            id: ConnectionId::new(at, random),
            org,
            name: name.to_owned(),
            definition: r#"{"type":"http"}"#.to_owned(),
            credentials: b"sealed\0credentials".to_vec(),
            status: ConnectionStatus::NeedsAuthorization,
            at,
        }
    }

    /// Saves a connection without tokens.
    pub(super) async fn connection(&self, org: OrgId, name: &str) -> SaveConnection {
        let new = self.new_connection(org, name);
        assert!(
            self.store
                .create_connection(new.clone(), 100, self.audit(org))
                .await
                .unwrap()
        );
        new
    }

    /// Saves an authorized connection. Returns its current tokens.
    pub(super) async fn authorized(&self, org: OrgId, name: &str) -> SeenTokens {
        let new = self.connection(org, name).await;
        self.consented(&new, 77).await;
        let saved = self
            .store
            .save_authorization(Fixture::confirmed(&new, 77, b"first"), self.audit(org))
            .await;
        assert!(saved.unwrap());
        SeenTokens {
            org,
            connection: new.id,
            version: 1,
        }
    }

    /// Stores a flow with tokens that wait for confirmation.
    pub(super) async fn consented(&self, of: &SaveConnection, number: u8) {
        let waits =
            self.store
                .await_confirmation(Fixture::flow(of, number), "waits".to_owned(), self.audit(of.org));
        assert!(waits.await.unwrap());
    }

    pub(super) fn confirmed(of: &SaveConnection, number: u8, tokens: &[u8]) -> Confirmed {
        Confirmed {
            state_hash: [number; 32],
            org: of.org,
            connection: of.id,
            revision: 1,
            tokens: tokens.to_vec(),
            issuer: Some(b"issuer".to_vec()),
        }
    }

    pub(super) fn flow(of: &SaveConnection, number: u8) -> OauthFlow {
        OauthFlow {
            state_hash: [number; 32],
            org: of.org,
            connection: of.id,
            revision: 1,
            pending: b"pending".to_vec(),
            expires_at: of.at + Duration::from_mins(10),
        }
    }
}

both! {
    async fn a_connection_is_saved_found_listed_and_deleted(fixture: &Fixture, org: OrgId, other: OrgId) {
        let b = fixture.connection(org, "b").await;
        let a = fixture.connection(org, "a").await;
        fixture.connection(other, "a").await;
        let store = &fixture.store;
        let found = store.get_connection(org, "b").await.unwrap();
        assert_eq!((found.id, found.revision, found.status), (b.id, 1, ConnectionStatus::NeedsAuthorization));
        assert_eq!((found.definition, found.credentials), (b.definition.clone(), b.credentials.clone()));
        assert_eq!((found.created_at, found.updated_at, found.tokens, found.error), (b.at, b.at, None, None));
        let names = |rows: Vec<crate::connections::ConnectionRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
        let listed = async |after: &str, limit| {
            let listed = store.list_connections(org, after.to_owned(), limit).await.unwrap();
            names(listed.into_iter().map(|listed| listed.connection).collect())
        };
        assert_eq!(listed("", 10).await, [a.id, b.id]);
        assert_eq!((listed("", 1).await, listed("a", 1).await), (vec![a.id], vec![b.id]));
        assert_eq!(listed("b", 10).await, []);
        let wanted = vec!["b".to_owned(), "gone".to_owned()];
        assert_eq!(names(store.connections_named(org, wanted).await.unwrap()), [b.id]);
        assert_eq!(store.connection_by_id(org, a.id).await.unwrap().name, "a");
        assert_eq!(store.connection_by_id(other, a.id).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.get_connection(other, "b").await.unwrap_err(), Error::NotFound);
        assert_eq!(store.delete_connection(other, "b", fixture.audit(other)).await.unwrap_err(), Error::NotFound);
        store.delete_connection(org, "b", fixture.audit(org)).await.unwrap();
        assert_eq!(store.get_connection(org, "b").await.unwrap_err(), Error::NotFound);
        assert_eq!(listed("", 10).await, [a.id]);
    }

    async fn a_name_is_taken_once_and_the_number_of_connections_has_a_limit(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        for name in ["a", "b"] {
            assert!(store.create_connection(fixture.new_connection(org, name), 2, fixture.audit(org)).await.unwrap());
        }
        assert!(!store.create_connection(fixture.new_connection(org, "a"), 3, fixture.audit(org)).await.unwrap());
        assert!(!store.create_connection(fixture.new_connection(org, "a"), 2, fixture.audit(org)).await.unwrap());
        let refused = store.create_connection(fixture.new_connection(org, "c"), 2, fixture.audit(org)).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the organization has reached its limit of connections"));
        assert!(store.create_connection(fixture.new_connection(other, "c"), 2, fixture.audit(org)).await.unwrap());
        let nobody = OrgId::new(fixture.now(), [1; 10]);
        let refused = store.create_connection(fixture.new_connection(nobody, "c"), 2, fixture.audit(org)).await.unwrap_err();
        assert_eq!(refused, Error::NotFound);
    }

    async fn of_two_that_replace_the_same_definition_one_comes_too_late(fixture: &Fixture, org: OrgId) {
        let seen = fixture.authorized(org, "a").await;
        let store = &fixture.store;
        let mut new = fixture.new_connection(org, "a");
        new.id = seen.connection;
        new.definition = "{}".to_owned();
        assert!(store.replace_connection(new.clone(), 1, OldTokens::Keep, fixture.audit(org)).await.unwrap());
        assert!(!store.replace_connection(new.clone(), 1, OldTokens::Drop, fixture.audit(org)).await.unwrap());
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.revision, found.status, &*found.definition), (2, ConnectionStatus::Ready, "{}"));
        assert_eq!((found.tokens.as_deref(), found.tokens_version), (Some(&b"first"[..]), 1));
        assert_eq!(found.updated_at, new.at);
        assert!(store.replace_connection(new, 2, OldTokens::Drop, fixture.audit(org)).await.unwrap());
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.revision, found.status), (3, ConnectionStatus::NeedsAuthorization));
        assert_eq!((found.tokens, found.tokens_version, found.issuer), (None, 2, None));
    }

    async fn a_status_is_recorded_of_the_definition_it_is_about(fixture: &Fixture, org: OrgId) {
        let new = fixture.connection(org, "a").await;
        let store = &fixture.store;
        let found_seen = SeenTokens { org, connection: new.id, version: 0 };
        let error = Some("it answers 500".to_owned());
        let recorded = store.set_connection_status(found_seen, 1, ConnectionStatus::Error, error.clone()).await;
        assert!(recorded.unwrap());
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.status, found.error), (ConnectionStatus::Error, error));
        let late = store.set_connection_status(found_seen, 7, ConnectionStatus::Ready, None).await;
        assert!(!late.unwrap());
    }

    async fn a_challenge_is_kept_until_the_next_authorization(fixture: &Fixture, org: OrgId, store: &Store) {
        let seen = fixture.authorized(org, "a").await;
        let row = async || store.get_connection(org, "a").await.unwrap();
        // A challenge without a reason changes nothing else.
        assert!(store.keep_challenge(seen, 1, b"c1".to_vec(), None).await.unwrap());
        let found = row().await;
        assert_eq!((found.challenge.as_deref(), found.status, found.error), (Some(&b"c1"[..]), ConnectionStatus::Ready, None));
        let reason = Some("wants more".to_owned());
        assert!(store.keep_challenge(seen, 1, b"c2".to_vec(), reason.clone()).await.unwrap());
        assert!(!store.keep_challenge(seen, 7, b"c3".to_vec(), None).await.unwrap());
        // A refresh adds no scopes.
        assert!(store.save_refreshed(seen, b"second".to_vec()).await.unwrap());
        let found = row().await;
        assert_eq!((found.challenge.as_deref(), found.status), (Some(&b"c2"[..]), ConnectionStatus::NeedsAuthorization));
        assert_eq!((found.error, found.tokens.as_deref()), (reason, Some(&b"second"[..])));
        let new = SaveConnection { id: seen.connection, ..fixture.new_connection(org, "a") };
        fixture.consented(&new, 9).await;
        assert!(store.save_authorization(Fixture::confirmed(&new, 9, b"x"), fixture.audit(org)).await.unwrap());
        let found = row().await;
        assert_eq!((&found.challenge, found.status, &found.error), (&None, ConnectionStatus::Ready, &None));
        assert!(store.keep_challenge(found.seen(org), 1, b"c4".to_vec(), None).await.unwrap());
        assert!(store.replace_connection(new, 1, OldTokens::Drop, fixture.audit(org)).await.unwrap());
        assert_eq!(row().await.challenge, None);
    }

    async fn a_refusal_of_tokens_from_before_an_authorization_does_not_undo_it(fixture: &Fixture, org: OrgId, store: &Store) {
        let old = fixture.authorized(org, "a").await;
        let (needs, why) = (ConnectionStatus::NeedsAuthorization, |why: &str| Some(why.to_owned()));
        assert!(store.set_connection_status(old, 1, needs, why("the helpful reason")).await.unwrap());
        assert!(store.set_connection_status(old, 1, needs, why("another one")).await.unwrap());
        let error = store.get_connection(org, "a").await.unwrap().error;
        assert_eq!(error.as_deref(), Some("the helpful reason"));
        let new = SaveConnection { id: old.connection, ..fixture.new_connection(org, "a") };
        fixture.consented(&new, 9).await;
        assert!(store.save_authorization(Fixture::confirmed(&new, 9, b"x"), fixture.audit(org)).await.unwrap());
        assert!(!store.keep_challenge(old, 1, b"late".to_vec(), why("wants more")).await.unwrap());
        assert!(!store.set_connection_status(old, 1, needs, why("late")).await.unwrap());
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((&found.challenge, found.status, &found.error), (&None, ConnectionStatus::Ready, &None));
        // A status of the server itself does not depend on the tokens.
        assert!(store.set_connection_status(old, 1, ConnectionStatus::Error, why("it answers 500")).await.unwrap());
        assert!(store.set_connection_status(found.seen(org), 1, needs, why("refused")).await.unwrap());
        let error = store.get_connection(org, "a").await.unwrap().error;
        assert_eq!(error.as_deref(), Some("refused"));
    }

    async fn an_authorization_that_fails_leaves_older_tokens_good(fixture: &Fixture, org: OrgId, store: &Store) {
        let seen = fixture.authorized(org, "a").await;
        let new = fixture.connection(org, "b").await;
        for (id, status) in [(seen.connection, ConnectionStatus::Ready), (new.id, ConnectionStatus::NeedsAuthorization)] {
            let failed = store.record_failed_authorization(org, (id, 1), "denied".to_owned(), fixture.audit(org)).await;
            assert!(failed.unwrap());
            let found = store.connection_by_id(org, id).await.unwrap();
            assert_eq!((found.status, found.error.as_deref()), (status, Some("denied")));
            let late = store.record_failed_authorization(org, (id, 7), "late".to_owned(), fixture.audit(org)).await;
            assert!(!late.unwrap());
        }
    }

    async fn an_authorization_is_ended_once_and_in_time(fixture: &Fixture, org: OrgId) {
        let new = fixture.connection(org, "a").await;
        let store = &fixture.store;
        let (first, second) = (Fixture::flow(&new, 1), Fixture::flow(&new, 2));
        store.begin_authorization(first.clone(), new.at, fixture.audit(org)).await.unwrap();
        store.begin_authorization(second.clone(), new.at, fixture.audit(org)).await.unwrap();
        assert_eq!(store.take_authorization([9; 32], new.at).await.unwrap(), None);
        assert_eq!(store.take_authorization([1; 32], new.at).await.unwrap(), Some(first.clone()));
        assert_eq!(store.take_authorization([1; 32], new.at).await.unwrap(), None);
        assert_eq!(store.take_authorization([2; 32], second.expires_at).await.unwrap(), None);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM oauth_flow").await, 0);

        // Expired flows are deleted at the start of the next one.
        store.begin_authorization(first.clone(), new.at, fixture.audit(org)).await.unwrap();
        let much_later = new.at + Duration::from_hours(1);
        let third = OauthFlow { expires_at: much_later + Duration::from_mins(10), ..Fixture::flow(&new, 3) };
        store.begin_authorization(third, much_later, fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM oauth_flow").await, 1);
        store.delete_connection(org, "a", fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM oauth_flow").await, 0);
        assert_eq!(store.begin_authorization(first, new.at, fixture.audit(org)).await.unwrap_err(), Error::NotFound);
    }

    async fn tokens_wait_for_their_confirmation_and_are_stored_once(fixture: &Fixture, org: OrgId) {
        let new = fixture.connection(org, "a").await;
        let store = &fixture.store;
        let late = OauthFlow { revision: 2, ..Fixture::flow(&new, 1) };
        assert!(!store.await_confirmation(late, "late".to_owned(), fixture.audit(org)).await.unwrap());
        assert!(!store.save_authorization(Fixture::confirmed(&new, 1, b"x"), fixture.audit(org)).await.unwrap());
        fixture.consented(&new, 1).await;
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.status, found.tokens), (ConnectionStatus::NeedsAuthorization, None));
        assert_eq!(found.error.as_deref(), Some("waits"));
        // The state of the flow does not find the second row. A flow that waits for the browser cannot be
        // confirmed.
        store.begin_authorization(Fixture::flow(&new, 2), new.at, fixture.audit(org)).await.unwrap();
        let tried = store.try_confirmation(org, new.id, new.at).await.unwrap();
        assert_eq!(tried, [Fixture::flow(&new, 1)]);
        assert!(!store.save_authorization(Fixture::confirmed(&new, 2, b"x"), fixture.audit(org)).await.unwrap());
        let other = fixture.org().await;
        assert_eq!(store.try_confirmation(other, new.id, new.at).await.unwrap(), []);

        let late = Confirmed { revision: 2, ..Fixture::confirmed(&new, 1, b"x") };
        assert!(!store.save_authorization(late, fixture.audit(org)).await.unwrap());
        assert!(store.save_authorization(Fixture::confirmed(&new, 1, b"x"), fixture.audit(org)).await.unwrap());
        assert!(!store.save_authorization(Fixture::confirmed(&new, 1, b"y"), fixture.audit(org)).await.unwrap());
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.status, found.tokens_version, found.error), (ConnectionStatus::Ready, 1, None));
        assert_eq!((found.tokens.as_deref(), found.issuer.as_deref()), (Some(&b"x"[..]), Some(&b"issuer"[..])));
        // Older tokens stay in use while new ones wait.
        fixture.consented(&new, 3).await;
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.status, found.error), (ConnectionStatus::Ready, None));
    }

    async fn a_confirmation_is_tried_five_times_and_for_ten_minutes(fixture: &Fixture, org: OrgId) {
        let new = fixture.connection(org, "a").await;
        let store = &fixture.store;
        fixture.consented(&new, 1).await;
        let over = Fixture::flow(&new, 1).expires_at;
        assert_eq!(store.try_confirmation(org, new.id, over).await.unwrap(), []);
        for _ in 0..5 {
            assert_eq!(store.try_confirmation(org, new.id, new.at).await.unwrap().len(), 1);
        }
        assert_eq!(store.try_confirmation(org, new.id, new.at).await.unwrap(), []);
        fixture.consented(&new, 2).await;
        store.refuse_confirmation(org, new.id, fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM oauth_flow").await, 1);
        assert_eq!(store.forget_flows(new.at).await.unwrap(), 0);
        assert_eq!(store.forget_flows(over + MINUTE).await.unwrap(), 1);
    }

    async fn the_note_of_a_waiting_confirmation_goes_with_the_last_one_that_waits(fixture: &Fixture, org: OrgId) {
        let [timed, tried, other] = [fixture.connection(org, "a").await, fixture.connection(org, "b").await, fixture.connection(org, "c").await];
        let store = &fixture.store;
        let error = async |name| store.get_connection(org, name).await.unwrap().error.unwrap_or_default();
        let note = format!("{AWAITING} until noon");
        let later = |of, number| OauthFlow { expires_at: Fixture::flow(of, number).expires_at + MINUTE, ..Fixture::flow(of, number) };
        for flow in [Fixture::flow(&timed, 1), later(&timed, 2), Fixture::flow(&tried, 3)] {
            assert!(store.await_confirmation(flow, note.clone(), fixture.audit(org)).await.unwrap());
        }
        // A reason other than the note stays.
        fixture.consented(&other, 4).await;
        for _ in 0..5 {
            assert_eq!(error("b").await, note);
            store.try_confirmation(org, tried.id, tried.at).await.unwrap();
            store.refuse_confirmation(org, tried.id, fixture.audit(org)).await.unwrap();
        }
        assert!(error("b").await.contains("five wrong codes"));
        let over = Fixture::flow(&timed, 1).expires_at + Duration::from_secs(1);
        assert_eq!(store.forget_flows(over).await.unwrap(), 2);
        assert_eq!((error("a").await, &*error("c").await), (note, "waits"));
        assert_eq!(store.forget_flows(over + MINUTE).await.unwrap(), 1);
        assert!(error("a").await.contains("expired without a confirmation"));
    }

    async fn one_at_a_time_renews_tokens(fixture: &Fixture, org: OrgId) {
        let seen = fixture.authorized(org, "a").await;
        let store = &fixture.store;
        let now = fixture.now();
        let lease = async |seen, holder, length| store.lease_refresh(seen, RefreshHolder(holder), now, length).await.unwrap();
        assert!(lease(seen, 1, MINUTE).await);
        assert!(!lease(seen, 2, MINUTE).await, "somebody has it");
        store.release_refresh(seen, RefreshHolder(1)).await.unwrap();
        assert!(lease(seen, 2, Duration::ZERO).await);
        assert!(lease(seen, 3, MINUTE).await, "whoever had it is gone");
        assert!(store.save_refreshed(seen, b"second".to_vec()).await.unwrap());
        assert!(!store.save_refreshed(seen, b"late".to_vec()).await.unwrap());
        assert!(!store.drop_refused(seen, "late".to_owned()).await.unwrap());
        assert!(!lease(seen, 3, MINUTE).await, "they are renewed already");
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.tokens.as_deref(), found.tokens_version), (Some(&b"second"[..]), 2));

        let seen = SeenTokens { version: 2, ..seen };
        assert!(store.drop_refused(seen, "revoked".to_owned()).await.unwrap());
        let found = store.get_connection(org, "a").await.unwrap();
        assert_eq!((found.status, found.error.as_deref()), (ConnectionStatus::NeedsAuthorization, Some("revoked")));
        let seen = SeenTokens { version: found.tokens_version, ..seen };
        assert!(!lease(seen, 3, MINUTE).await, "there is nothing to renew");
    }

    async fn who_has_the_lease_to_renew_tokens_gets_it_again_and_alone_gives_it_back(fixture: &Fixture, org: OrgId) {
        let seen = fixture.authorized(org, "a").await;
        let (store, now) = (&fixture.store, fixture.now());
        let (mine, other) = (RefreshHolder(1), RefreshHolder(2));
        // The answer to the first request may have been lost.
        for _ in 0..2 {
            assert_eq!(store.lease_refresh(seen, mine, now, MINUTE).await, Ok(true));
        }
        store.release_refresh(seen, other).await.unwrap();
        assert_eq!(store.lease_refresh(seen, other, now, MINUTE).await, Ok(false));
        store.release_refresh(seen, mine).await.unwrap();
        assert_eq!(store.lease_refresh(seen, other, now, MINUTE).await, Ok(true));
    }

    async fn the_lease_to_renew_tokens_is_counted_on_the_clock_that_all_nodes_share(fixture: &Fixture, org: OrgId) {
        let seen = fixture.authorized(org, "a").await;
        let (store, now) = (&fixture.store, fixture.now());
        assert_eq!(store.lease_refresh(seen, RefreshHolder(1), now, MINUTE).await, Ok(true));
        let ahead = now + 10 * MINUTE;
        // SQLite has no clock. Only one node uses it, so the time of that node counts.
        let is_over = fixture.dialect() == Dialect::Sqlite;
        assert_eq!(store.lease_refresh(seen, RefreshHolder(2), ahead, MINUTE).await, Ok(is_over));
    }

    async fn of_many_that_want_to_renew_at_once_one_does(fixture: &Fixture, org: OrgId) {
        let seen = fixture.authorized(org, "a").await;
        let now = fixture.now();
        let all = (0..20).map(|holder| fixture.store.lease_refresh(seen, RefreshHolder(holder), now, MINUTE));
        let got = futures_util::future::join_all(all).await;
        assert_eq!(got.into_iter().filter(|leased| *leased == Ok(true)).count(), 1);
    }

    async fn credentials_of_a_run_are_kept_until_it_is_settled(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let mut run = fixture.new_run(org);
        run.idempotency_key = Some("once".to_owned());
        run.inline = Some(InlineCredentials { sealed: b"hush".to_vec(), names: r#"["crm"]"#.to_owned() });
        store.create_run(run.clone()).await.unwrap();
        let mut again = fixture.new_run(org);
        again.idempotency_key = Some("once".to_owned());
        again.inline.clone_from(&run.inline);
        assert!(matches!(store.create_run(again).await.unwrap(), Created::Existing(_)));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run_secret").await, 1, "those of the run that was made");
        let definition = store.run_definition(org, run.id).await.unwrap();
        assert_eq!(definition.requires_credentials.as_deref(), Some(r#"["crm"]"#));

        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        assert_eq!(store.run_secrets(run.id).await.unwrap().as_deref(), Some(&b"hush"[..]));
        store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
        assert_eq!(store.run_secrets(run.id).await.unwrap(), None);
    }

    async fn credentials_of_a_run_go_with_it_whatever_ends_it(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        let kept = async |run| store.run_secrets(run).await.unwrap().is_some();
        let bringing = async || {
            let mut run = fixture.new_run(org);
            run.inline = Some(InlineCredentials { sealed: b"hush".to_vec(), names: "[]".to_owned() });
            store.create_run(run.clone()).await.unwrap();
            run.id
        };
        let waiting = bringing().await;
        assert!(store.cancel_run(other, waiting, fixture.now()).await.is_err());
        assert!(kept(waiting).await, "another organization's cancel changes nothing");
        store.cancel_run(org, waiting, fixture.now()).await.unwrap();
        assert!(!kept(waiting).await);

        let held = bringing().await;
        let node = fixture.node().await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        store.cancel_run(org, held, fixture.now()).await.unwrap();
        assert!(kept(held).await, "its worker may still need them");
        store.settle_run(held, fence.attempt, of_calls(fixture.succeeded("x").cost), Vec::new()).await.unwrap();
        assert!(!kept(held).await);

        let lost = bringing().await;
        fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        fixture.tire(lost).await;
        store.deregister_node(node, fixture.now()).await.unwrap();
        let next = fixture.node().await;
        assert_eq!(fixture.take_over(next, fixture.now(), 1).await.ended, [(org, lost)]);
        assert!(!kept(lost).await);
    }

    async fn the_first_sealed_text_stays(fixture: &Fixture) {
        assert_eq!(fixture.store.seal_check(b"one".to_vec()).await.unwrap(), b"one");
        assert_eq!(fixture.store.seal_check(b"two".to_vec()).await.unwrap(), b"one");
    }

    async fn the_first_seed_of_the_installation_stays(fixture: &Fixture, store: &Store) {
        let (one, two) = tokio::join!(store.installation_seed([1; 32]), store.installation_seed([2; 32]));
        let seed = one.unwrap();
        assert_eq!(seed, two.unwrap());
        assert!(seed == [1; 32] || seed == [2; 32], "{seed:?}");
        assert_eq!(store.installation_seed([3; 32]).await.unwrap(), seed);
    }
}
