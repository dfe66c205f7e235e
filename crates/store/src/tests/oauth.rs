use super::prelude::*;
use crate::{
    Result,
    access::Actor,
    oauth::{
        CodeRedemption, EndedGrant, Exchange, GRANTS_OF_A_PERSON, GrantAudit, GrantRow, NewGrant, NewTokens,
        OauthClientKind, OauthClientRow, TokenRefresh, UnknownOauthClientKind,
    },
};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

const CLIENT: &str = "client_01kafs6w1cefkstv6qr1ptb0mp";
const REDIRECT: &str = "https://app.example.com/callback";

/// A person with an organization, and a grant of a client there.
struct Granted {
    org: OrgId,
    user: UserId,
    new: NewGrant,
}

/// Issued tokens with the values they were made of.
#[derive(Clone)]
struct Pair {
    tokens: NewTokens,
    exchange: Exchange,
}

fn client(id: &str, kind: OauthClientKind, expires_at: Timestamp) -> OauthClientRow {
    OauthClientRow {
        id: id.to_owned(),
        kind,
        metadata: r#"{"client_name":"App"}"#.to_owned(),
        secret_hash: Some([3; 32]).filter(|_| kind == OauthClientKind::Registered),
        created_at: Timestamp::from_micros(1),
        expires_at,
    }
}

fn refused(exchange: &Result<Exchange>) {
    assert_eq!(*exchange, Ok(Exchange::Refused));
}

fn conflicts<T: std::fmt::Debug>(done: &Result<T>) {
    assert!(matches!(done, Err(Error::Conflict(_))), "{done:?}");
}

impl Fixture {
    fn hash(&self) -> [u8; 32] {
        let mut hash = [5; 32];
        hash[..8].copy_from_slice(&self.number().to_be_bytes());
        hash
    }

    pub(super) fn grant_audit(&self) -> GrantAudit {
        GrantAudit {
            at: self.now(),
            random: self.random(),
            actor: Actor::default(),
        }
    }

    pub(super) fn new_grant(&self, org: OrgId, user: UserId, scope: Role) -> NewGrant {
        let at = self.now();
        NewGrant {
            id: GrantId::new(at, self.random()),
            org,
            user,
            client_id: CLIENT.to_owned(),
            client_name: "App".to_owned(),
            scope,
            created_at: at,
            code_hash: self.hash(),
            redirect_uri: REDIRECT.to_owned(),
            challenge: "challenge".to_owned(),
            code_expires_at: at + MINUTE,
        }
    }

    pub(super) fn redemption(&self, grant: &NewGrant) -> CodeRedemption {
        let at = grant.created_at + Duration::from_secs(1);
        CodeRedemption {
            code_hash: grant.code_hash,
            client_id: grant.client_id.clone(),
            challenge: grant.challenge.clone(),
            redirect_uri: Some(grant.redirect_uri.clone()),
            at,
            grant_until: at + 180 * DAY,
            client_until: at + 210 * DAY,
            tokens: self.new_tokens(at),
        }
    }

    fn new_tokens(&self, at: Timestamp) -> NewTokens {
        NewTokens {
            access_hash: self.hash(),
            access_until: at + HOUR,
            refresh_hash: self.hash(),
            refresh_until: at + 30 * DAY,
        }
    }

    pub(super) fn refresh(&self, refresh_hash: [u8; 32], at: Timestamp) -> TokenRefresh {
        TokenRefresh {
            refresh_hash,
            client_id: CLIENT.to_owned(),
            scope: None,
            at,
            tokens: self.new_tokens(at),
        }
    }

    /// Creates a person, an organization of the person, and a grant in it.
    async fn granted(&self, scope: Role) -> Granted {
        let number = self.number();
        let user = self.person(&format!("p{number}")).await;
        let org = self.org_of(user).await;
        let new = self.new_grant(org, user, scope);
        self.store
            .create_grant(new.clone(), self.audit(org))
            .await
            .unwrap();
        Granted { org, user, new }
    }

    async fn redeem(&self, grant: &NewGrant) -> Pair {
        let redemption = self.redemption(grant);
        let tokens = redemption.tokens.clone();
        let exchange = self
            .store
            .redeem_code(redemption, self.grant_audit())
            .await
            .unwrap();
        Pair { tokens, exchange }
    }

    async fn refreshed(&self, refresh_hash: [u8; 32], at: Timestamp) -> Pair {
        let refresh = self.refresh(refresh_hash, at);
        let tokens = refresh.tokens.clone();
        let exchange = self
            .store
            .refresh_tokens(refresh, self.grant_audit())
            .await
            .unwrap();
        Pair { tokens, exchange }
    }

    async fn principal(&self, pair: &Pair) -> Option<Principal> {
        self.store.find_principal(pair.tokens.access_hash).await.unwrap()
    }

    /// Actions of the audit log of an organization, oldest first, without its creation.
    async fn actions(&self, org: OrgId) -> Vec<String> {
        let filter = AuditFilter {
            limit: 100,
            ..AuditFilter::default()
        };
        let mut entries = self.store.list_audit(org, filter).await.unwrap().items;
        entries.reverse();
        entries.into_iter().skip(2).map(|entry| entry.action).collect()
    }

    /// Runs every command of the OAuth server once, in an order in which each finds its rows.
    pub(super) async fn use_oauth(&self) {
        let store = &self.store;
        let Granted { user, new, .. } = self.granted(Role::Admin).await;
        let kept = client(CLIENT, OauthClientKind::Registered, new.created_at);
        store.keep_oauth_client(kept).await.unwrap();
        store.oauth_client(CLIENT).await.unwrap().unwrap();
        let first = self.redeem(&new).await;
        self.principal(&first).await.unwrap();
        let second = self
            .refreshed(first.tokens.refresh_hash, new.created_at + HOUR)
            .await;
        store.list_grants(user, new.created_at).await.unwrap();
        self.refreshed(first.tokens.refresh_hash, new.created_at + HOUR)
            .await;
        store
            .revoke_token(second.tokens.access_hash, CLIENT, self.grant_audit())
            .await
            .unwrap();
        self.redeem(&new).await;
        let other = self.granted(Role::Member).await;
        store
            .end_grant(other.user, other.new.id, self.grant_audit())
            .await
            .unwrap();
        store
            .delete_ended_oauth(new.created_at + 1_000 * DAY, 10)
            .await
            .unwrap();
    }
}

#[test]
fn kinds_of_clients_are_read_from_their_text() {
    for kind in [OauthClientKind::Registered, OauthClientKind::Document] {
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    assert_eq!("console".parse::<OauthClientKind>(), Err(UnknownOauthClientKind));
}

both! {
    async fn a_client_is_kept_and_only_a_document_is_replaced(fixture: &Fixture, store: &Store, at: Timestamp) {
        let registered = client(CLIENT, OauthClientKind::Registered, at);
        store.keep_oauth_client(registered.clone()).await.unwrap();
        assert_eq!(store.oauth_client(CLIENT).await.unwrap(), Some(registered.clone()));
        conflicts(&store.keep_oauth_client(registered.clone()).await);
        let url = "https://app.example.com/client.json";
        let document = client(url, OauthClientKind::Document, at);
        store.keep_oauth_client(document.clone()).await.unwrap();
        let later = OauthClientRow { metadata: "{}".to_owned(), expires_at: at + DAY, ..document.clone() };
        store.keep_oauth_client(later.clone()).await.unwrap();
        assert_eq!(store.oauth_client(url).await.unwrap(), Some(later));
        conflicts(&store.keep_oauth_client(OauthClientRow { id: CLIENT.to_owned(), ..document }).await);
        assert_eq!(store.oauth_client(CLIENT).await.unwrap(), Some(registered.clone()));
        assert_eq!(store.oauth_client("client_x").await.unwrap(), None);
        assert!(!format!("{registered:?}").contains("secret"));
    }

    async fn a_code_is_redeemed_once_and_its_tokens_work(fixture: &Fixture) {
        let Granted { org, user, new } = fixture.granted(Role::Admin).await;
        let pair = fixture.redeem(&new).await;
        let Exchange::Issued(issued) = pair.exchange else { panic!("{:?}", pair.exchange) };
        assert_eq!((issued.grant, issued.org, issued.user, issued.scope), (new.id, org, user, Role::Admin));
        let expected = Principal {
            org,
            role: Role::Admin,
            scope: Some(Role::Admin),
            by: By::Grant(new.id),
            until: Some(pair.tokens.access_until),
            user: Some(user),
            suspended: false,
            session_key: None,
        };
        assert_eq!(fixture.principal(&pair).await, Some(expected));
        assert_eq!(fixture.store.find_principal(pair.tokens.refresh_hash).await.unwrap(), None);
        assert_eq!(fixture.store.find_principal(new.code_hash).await.unwrap(), None);

        let again = fixture.redeem(&new).await;
        assert_eq!(again.exchange, Exchange::Reused(EndedGrant { id: new.id, org, user }));
        assert_eq!(fixture.principal(&pair).await, None, "a second redemption ends the family");
        assert_eq!(fixture.principal(&again).await, None);
        assert_eq!(fixture.redeem(&new).await.exchange, Exchange::Refused);
        assert_eq!(fixture.refreshed(pair.tokens.refresh_hash, new.created_at + HOUR).await.exchange, Exchange::Refused);
        assert_eq!(fixture.actions(org).await, ["grant.end_reused"]);
    }

    async fn a_wrong_verifier_client_or_redirect_changes_nothing(fixture: &Fixture) {
        let Granted { new, .. } = fixture.granted(Role::Member).await;
        let store = &fixture.store;
        let wrong = |fixture: &Fixture| {
            let right = fixture.redemption(&new);
            [
                CodeRedemption { challenge: "other".to_owned(), ..right.clone() },
                CodeRedemption { client_id: "client_x".to_owned(), ..right.clone() },
                CodeRedemption { redirect_uri: Some("https://app.example.com/other".to_owned()), ..right.clone() },
                CodeRedemption { code_hash: [9; 32], ..right },
            ]
        };
        for redemption in wrong(fixture) {
            refused(&store.redeem_code(redemption, fixture.grant_audit()).await);
        }
        let late = CodeRedemption { at: new.code_expires_at, ..fixture.redemption(&new) };
        refused(&store.redeem_code(late, fixture.grant_audit()).await);
        let pair = fixture.redeem(&new).await;
        assert!(matches!(pair.exchange, Exchange::Issued(_)), "nothing of this has used the code: {:?}", pair.exchange);
        for redemption in wrong(fixture) {
            refused(&store.redeem_code(redemption, fixture.grant_audit()).await);
        }
        assert!(fixture.principal(&pair).await.is_some(), "a replay without the verifier ends nothing");
    }

    async fn a_redirect_uri_that_is_not_repeated_is_not_compared(fixture: &Fixture) {
        let Granted { new, .. } = fixture.granted(Role::Member).await;
        let redemption = CodeRedemption { redirect_uri: None, ..fixture.redemption(&new) };
        let exchange = fixture.store.redeem_code(redemption, fixture.grant_audit()).await.unwrap();
        assert!(matches!(exchange, Exchange::Issued(_)), "{exchange:?}");
    }

    async fn one_of_many_redemptions_gets_tokens_and_the_family_ends(fixture: &Fixture) {
        for _ in 0..4 {
            let Granted { org, user, new } = fixture.granted(Role::Member).await;
            let pairs = join_all((0..32).map(|_| fixture.redeem(&new))).await;
            let issued = pairs.iter().filter(|pair| matches!(pair.exchange, Exchange::Issued(_)));
            assert_eq!(issued.count(), 1);
            let reused = Exchange::Reused(EndedGrant { id: new.id, org, user });
            assert_eq!(pairs.iter().filter(|pair| pair.exchange == reused).count(), 1);
            for pair in &pairs {
                assert_eq!(fixture.principal(pair).await, None);
            }
            assert_eq!(fixture.actions(org).await, ["grant.end_reused"]);
        }
    }

    async fn a_refresh_token_becomes_the_next_pair(fixture: &Fixture) {
        let Granted { org, user, new } = fixture.granted(Role::Admin).await;
        let (store, at) = (&fixture.store, new.created_at + HOUR);
        let first = fixture.redeem(&new).await;
        let right = fixture.refresh(first.tokens.refresh_hash, at);
        for wrong in [
            TokenRefresh { client_id: "client_x".to_owned(), ..right.clone() },
            TokenRefresh { refresh_hash: first.tokens.access_hash, ..right.clone() },
            TokenRefresh { at: first.tokens.refresh_until, ..right.clone() },
            TokenRefresh { refresh_hash: [9; 32], ..right.clone() },
        ] {
            refused(&store.refresh_tokens(wrong, fixture.grant_audit()).await);
        }
        let other = TokenRefresh { scope: Some(Role::Member), ..right.clone() };
        assert_eq!(store.refresh_tokens(other, fixture.grant_audit()).await, Ok(Exchange::OtherScope));

        let same = TokenRefresh { scope: Some(Role::Admin), ..right.clone() };
        let issued = store.refresh_tokens(same, fixture.grant_audit()).await.unwrap();
        assert_eq!(issued, first.exchange);
        let found = store.find_principal(right.tokens.access_hash).await.unwrap().unwrap();
        assert_eq!((found.by, found.until), (By::Grant(new.id), Some(at + HOUR)));
        assert!(fixture.principal(&first).await.is_some(), "an access token works until its end");
        let third = fixture.refreshed(right.tokens.refresh_hash, at + HOUR).await;
        assert_eq!(third.exchange, first.exchange);
        let listed = store.list_grants(user, at).await.unwrap();
        assert_eq!(listed.iter().map(|grant| grant.used_at).collect::<Vec<_>>(), [at + HOUR]);

        let reused = fixture.refreshed(first.tokens.refresh_hash, at + HOUR).await;
        assert_eq!(reused.exchange, Exchange::Reused(EndedGrant { id: new.id, org, user }));
        assert_eq!(fixture.principal(&third).await, None, "a second use ends the family");
        assert_eq!(fixture.refreshed(third.tokens.refresh_hash, at + HOUR).await.exchange, Exchange::Refused);
        assert_eq!(fixture.actions(org).await, ["grant.end_reused"]);
        let filter = AuditFilter { limit: 1, ..AuditFilter::default() };
        let entry = store.list_audit(org, filter).await.unwrap().items.remove(0);
        assert_eq!((entry.user_id, entry.actor_id), (Some(user), Some(new.id.to_string())));
    }

    async fn no_token_outlives_its_grant(fixture: &Fixture) {
        let Granted { new, .. } = fixture.granted(Role::Member).await;
        let redemption = CodeRedemption { grant_until: new.created_at + MINUTE, ..fixture.redemption(&new) };
        let (access, refresh) = (redemption.tokens.access_hash, redemption.tokens.refresh_hash);
        fixture.store.redeem_code(redemption, fixture.grant_audit()).await.unwrap();
        let principal = fixture.store.find_principal(access).await.unwrap().unwrap();
        assert_eq!(principal.until, Some(new.created_at + MINUTE));
        let late = fixture.refreshed(refresh, new.created_at + MINUTE).await;
        assert_eq!(late.exchange, Exchange::Refused);
    }

    async fn one_of_many_refreshes_gets_tokens_and_the_family_ends(fixture: &Fixture) {
        for _ in 0..4 {
            let Granted { org, user, new } = fixture.granted(Role::Member).await;
            let first = fixture.redeem(&new).await;
            let at = new.created_at + HOUR;
            let pairs = join_all((0..32).map(|_| fixture.refreshed(first.tokens.refresh_hash, at))).await;
            let issued = pairs.iter().filter(|pair| matches!(pair.exchange, Exchange::Issued(_)));
            assert_eq!(issued.count(), 1);
            let reused = Exchange::Reused(EndedGrant { id: new.id, org, user });
            assert_eq!(pairs.iter().filter(|pair| pair.exchange == reused).count(), 1);
            for pair in pairs.iter().chain([&first]) {
                assert_eq!(fixture.principal(pair).await, None);
            }
        }
    }

    async fn a_token_has_the_lesser_of_its_scope_and_the_role_of_now(fixture: &Fixture) {
        let Granted { org, .. } = fixture.granted(Role::Member).await;
        let (store, bob) = (&fixture.store, fixture.person("bob").await);
        fixture.member(org, bob, Role::Admin).await;
        let mut pairs = Vec::new();
        for scope in [Role::Member, Role::Admin] {
            let new = fixture.new_grant(org, bob, scope);
            store.create_grant(new.clone(), fixture.audit(org)).await.unwrap();
            pairs.push(fixture.redeem(&new).await);
        }
        let roles = async || {
            let mut roles = Vec::new();
            for pair in &pairs {
                roles.push(fixture.principal(pair).await.map(|found| (found.role, found.scope)));
            }
            roles
        };
        let (member, admin) = (Some(Role::Member), Some(Role::Admin));
        assert_eq!(roles().await, [Some((Role::Member, member)), Some((Role::Admin, admin))]);
        store.set_role(org, bob, Role::Member, fixture.audit(org)).await.unwrap();
        assert_eq!(roles().await, [Some((Role::Member, member)), Some((Role::Member, admin))]);
        let set = async |sql: &'static str| {
            fixture.sql(sql, vals![bob, org]).await;
        };
        set("UPDATE organization SET suspended_at = 1 WHERE id = $2 AND $1 <> ''").await;
        assert!(fixture.principal(&pairs[0]).await.unwrap().suspended);
        let late = fixture.now();
        assert!(matches!(fixture.refreshed(pairs[1].tokens.refresh_hash, late).await.exchange, Exchange::Issued(_)));
        set("UPDATE person SET disabled_at = 1 WHERE id = $1 AND $2 <> ''").await;
        assert_eq!(roles().await, [None, None]);
        assert_eq!(fixture.refreshed(pairs[0].tokens.refresh_hash, late).await.exchange, Exchange::Refused);
    }

    async fn a_grant_needs_the_role_now(fixture: &Fixture) {
        let Granted { org, user, .. } = fixture.granted(Role::Member).await;
        let (store, bob) = (&fixture.store, fixture.person("bob").await);
        let attempt = async |scope| {
            let new = fixture.new_grant(org, bob, scope);
            store.create_grant(new, fixture.audit(org)).await
        };
        conflicts(&attempt(Role::Member).await);
        fixture.member(org, bob, Role::Member).await;
        attempt(Role::Member).await.unwrap();
        conflicts(&attempt(Role::Admin).await);
        store.set_role(org, bob, Role::Admin, fixture.audit(org)).await.unwrap();
        attempt(Role::Admin).await.unwrap();
        fixture.sql("UPDATE organization SET suspended_at = 1 WHERE id = $1", vals![org]).await;
        conflicts(&attempt(Role::Admin).await);
        assert_eq!(store.list_grants(bob, fixture.now()).await.unwrap().len(), 2);
        assert_eq!(store.list_grants(user, fixture.now()).await.unwrap().len(), 1);
    }

    async fn a_person_gives_a_hundred_grants_and_no_more(fixture: &Fixture) {
        let Granted { org, user, .. } = fixture.granted(Role::Member).await;
        let create = async || {
            let new = fixture.new_grant(org, user, Role::Member);
            fixture.store.create_grant(new, fixture.audit(org)).await
        };
        for _ in 1..GRANTS_OF_A_PERSON {
            create().await.unwrap();
        }
        conflicts(&create().await);
        let first = fixture.store.list_grants(user, fixture.now()).await.unwrap().remove(0);
        fixture.store.end_grant(user, first.id, fixture.grant_audit()).await.unwrap();
        create().await.unwrap();
    }

    async fn a_client_revokes_its_own_tokens_only(fixture: &Fixture, store: &Store) {
        for by_access in [true, false] {
            let Granted { org, user, new } = fixture.granted(Role::Member).await;
            let pair = fixture.redeem(&new).await;
            let token = if by_access { pair.tokens.access_hash } else { pair.tokens.refresh_hash };
            for (token, client) in [(token, "client_x"), ([9; 32], CLIENT)] {
                assert_eq!(store.revoke_token(token, client, fixture.grant_audit()).await.unwrap(), None);
            }
            assert!(fixture.principal(&pair).await.is_some());
            let ended = store.revoke_token(token, CLIENT, fixture.grant_audit()).await.unwrap();
            assert_eq!(ended, Some(EndedGrant { id: new.id, org, user }));
            assert_eq!(fixture.principal(&pair).await, None);
            assert_eq!(store.revoke_token(token, CLIENT, fixture.grant_audit()).await.unwrap(), None);
            assert_eq!(fixture.actions(org).await, ["grant.end"]);
        }
    }

    async fn a_person_lists_and_ends_grants(fixture: &Fixture) {
        let Granted { org, user, new } = fixture.granted(Role::Admin).await;
        let (store, other) = (&fixture.store, fixture.granted(Role::Member).await);
        let pair = fixture.redeem(&new).await;
        let at = fixture.redemption(&new).at;
        let expected = GrantRow {
            id: new.id,
            org,
            org_name: "ours".to_owned(),
            client_id: CLIENT.to_owned(),
            client_name: "App".to_owned(),
            scope: Role::Admin,
            created_at: new.created_at,
            used_at: at,
            expires_at: at + 180 * DAY,
        };
        assert_eq!(store.list_grants(user, at).await.unwrap(), [expected]);
        assert_eq!(store.list_grants(user, at + 180 * DAY).await.unwrap(), []);
        let theirs = store.end_grant(user, other.new.id, fixture.grant_audit()).await;
        assert_eq!(theirs.unwrap_err(), Error::NotFound);
        let ended = store.end_grant(user, new.id, fixture.grant_audit()).await.unwrap();
        assert_eq!(ended, EndedGrant { id: new.id, org, user });
        assert_eq!(store.end_grant(user, new.id, fixture.grant_audit()).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.principal(&pair).await, None);
        assert_eq!(store.list_grants(user, at).await.unwrap(), []);
        assert_eq!(fixture.actions(org).await, ["grant.end"]);
    }

    async fn removal_and_reset_end_grants(fixture: &Fixture) {
        let Granted { org, .. } = fixture.granted(Role::Member).await;
        let (store, bob) = (&fixture.store, fixture.person("bob").await);
        let own = fixture.org_of(bob).await;
        fixture.member(org, bob, Role::Admin).await;
        let mut pairs = Vec::new();
        for org in [org, own] {
            let new = fixture.new_grant(org, bob, Role::Member);
            store.create_grant(new.clone(), fixture.audit(org)).await.unwrap();
            pairs.push(fixture.redeem(&new).await);
        }
        store.remove_member(org, bob, fixture.audit(org)).await.unwrap();
        fixture.member(org, bob, Role::Admin).await;
        assert_eq!(fixture.principal(&pairs[0]).await, None, "an invitation does not bring the grant back");
        assert!(fixture.principal(&pairs[1]).await.is_some());
        let token = crate::people::NewOneTime {
            hash: [1; 32],
            purpose: crate::people::Purpose::ResetPassword,
            user: bob,
            expires_at: fixture.now() + HOUR,
        };
        store.keep_one_time(fixture.sent(token)).await.unwrap();
        store.reset_password(([1; 32], fixture.now()), "new".to_owned(), None).await.unwrap();
        assert_eq!(fixture.principal(&pairs[1]).await, None);
        assert_eq!(store.list_grants(bob, fixture.now()).await.unwrap(), []);
    }

    async fn what_has_ended_is_deleted_in_batches(fixture: &Fixture, store: &Store) {
        let unused = fixture.granted(Role::Member).await;
        let Granted { user, new, .. } = fixture.granted(Role::Member).await;
        let at = new.created_at;
        for (id, kind) in [(CLIENT, OauthClientKind::Registered), ("https://a.example/c", OauthClientKind::Document)] {
            store.keep_oauth_client(client(id, kind, at + 30 * DAY)).await.unwrap();
        }
        let pair = fixture.redeem(&new).await;
        assert_eq!(store.delete_ended_oauth(at, 10).await.unwrap(), 0);
        assert_eq!(store.delete_ended_oauth(at + HOUR, 10).await.unwrap(), 1, "the grant that no code was redeemed for");
        assert_eq!(store.list_grants(unused.user, at).await.unwrap(), []);
        assert!(matches!(fixture.redeem(&new).await.exchange, Exchange::Reused(_)), "a used code is known for an hour");
        assert_eq!(store.delete_ended_oauth(at + 2 * HOUR, 1).await.unwrap(), 1);
        assert_eq!(store.delete_ended_oauth(at + 31 * DAY, 10).await.unwrap(), 1);
        assert_eq!(store.oauth_client("https://a.example/c").await.unwrap(), None);
        assert!(store.oauth_client(CLIENT).await.unwrap().is_some(), "a client outlives its grants");
        store.delete_ended_oauth(at + 300 * DAY, 10).await.unwrap();
        assert_eq!(store.oauth_client(CLIENT).await.unwrap(), None);
        assert_eq!(store.list_grants(user, at).await.unwrap(), []);
        assert_eq!(fixture.principal(&pair).await, None);
        for rows in [
            "SELECT COUNT(*) FROM oauth_token",
            "SELECT COUNT(*) FROM oauth_code",
            "SELECT COUNT(*) FROM oauth_grant",
        ] {
            assert_eq!(fixture.count(rows).await, 0, "{rows}");
        }
    }
}
