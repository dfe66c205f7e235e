use super::prelude::*;
use crate::access::NewKey;

const HOUR: std::time::Duration = std::time::Duration::from_hours(1);

both! {
    async fn the_first_organization_is_made_once(fixture: &Fixture) {
        let org = sortie_api::OrgId::new(fixture.now(), [1; 10]);
        let key = fixture.new_key(org, Role::Admin);
        assert!(fixture.store.bootstrap("home", key.clone(), fixture.audit(org)).await.unwrap());
        let other = sortie_api::OrgId::new(fixture.now(), [2; 10]);
        assert!(!fixture.store.bootstrap("home", fixture.new_key(other, Role::Admin), fixture.audit(org)).await.unwrap());
        let found = fixture.store.find_principal(key.hash).await.unwrap();
        assert_eq!(found, Some(Principal { by: By::Key(key.id), org, role: Role::Admin, until: None, user: None, suspended: false, scope: None, session_key: None }));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM organization").await, 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM api_key").await, 1);
    }

    async fn keys_are_listed_for_their_organization_oldest_first(fixture: &Fixture, org: OrgId, other: OrgId) {
        let keys = [
            fixture.new_key(org, Role::Admin),
            fixture.new_key(org, Role::Member),
            fixture.new_key(other, Role::Member),
        ];
        for key in keys.clone().into_iter().rev() {
            fixture.store.create_key(key.clone(), fixture.audit(key.org)).await.unwrap();
        }
        let listed = fixture.store.list_keys(org, None, 10).await.unwrap();
        let ids: Vec<_> = listed.iter().map(|key| key.id).collect();
        assert_eq!(ids, [keys[0].id, keys[1].id]);
        assert_eq!((listed[1].role, &*listed[1].name), (Role::Member, "a key"));
        assert_eq!(listed[1].created_at, keys[1].created_at);
        let first = fixture.store.list_keys(org, None, 1).await.unwrap();
        assert_eq!(first, listed[..1]);
        let after = Some((first[0].created_at, first[0].id));
        assert_eq!(fixture.store.list_keys(org, after, 10).await.unwrap(), listed[1..]);
    }

    async fn a_key_of_an_organization_that_is_not_there_is_refused(fixture: &Fixture) {
        let org = sortie_api::OrgId::new(fixture.now(), [1; 10]);
        let refused = fixture.store.create_key(fixture.new_key(org, Role::Member), fixture.audit(org)).await;
        assert_eq!(refused.unwrap_err(), Error::NotFound);
    }

    async fn a_revoked_key_is_not_found(fixture: &Fixture, org: OrgId, other: OrgId) {
        fixture.store.create_key(fixture.new_key(org, Role::Admin), fixture.audit(org)).await.unwrap();
        let key = fixture.new_key(org, Role::Member);
        fixture.store.create_key(key.clone(), fixture.audit(key.org)).await.unwrap();
        assert_eq!(fixture.store.delete_key(other, key.id, fixture.audit(other)).await.unwrap_err(), Error::NotFound);
        fixture.store.delete_key(org, key.id, fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.store.find_principal(key.hash).await.unwrap(), None);
        assert_eq!(fixture.store.delete_key(org, key.id, fixture.audit(org)).await.unwrap_err(), Error::NotFound);
    }

    async fn the_last_key_that_can_make_keys_stays(fixture: &Fixture, org: OrgId) {
        let (owner, admin) = (fixture.new_key(org, Role::Owner), fixture.new_key(org, Role::Admin));
        fixture.store.create_key(owner.clone(), fixture.audit(owner.org)).await.unwrap();
        fixture.store.create_key(admin.clone(), fixture.audit(admin.org)).await.unwrap();
        fixture.store.create_key(fixture.new_key(org, Role::Member), fixture.audit(org)).await.unwrap();
        fixture.store.delete_key(org, owner.id, fixture.audit(org)).await.unwrap();
        let refused = fixture.store.delete_key(org, admin.id, fixture.audit(org)).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the last admin key that does not expire cannot be deleted"));
        assert!(fixture.store.find_principal(admin.hash).await.unwrap().is_some());
    }

    async fn a_key_says_when_it_ends(fixture: &Fixture, org: OrgId, ends: Timestamp) {
        let key = NewKey { expires_at: Some(ends), ..fixture.new_key(org, Role::Member) };
        fixture.store.create_key(key.clone(), fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.store.find_principal(key.hash).await.unwrap().unwrap().until, Some(ends));
        assert_eq!(fixture.store.list_keys(org, None, 10).await.unwrap()[0].expires_at, Some(ends));
    }

    async fn a_rotated_key_has_two_secrets_and_never_three(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Member).await;
        let until = fixture.now() + HOUR;
        let rotation = |hash| Rotation { id: key.id, hash, at: fixture.now(), previous_until: until };
        let shown = fixture.store.rotate_key(org, rotation([1; 32]), fixture.audit(org)).await.unwrap();
        assert_eq!((shown.id, shown.created_at, shown.previous_until), (key.id, key.created_at, Some(until)));
        let found = async |hash| fixture.store.find_principal(hash).await.unwrap();
        let principal = Principal { by: By::Key(key.id), org, role: Role::Member, until: None, user: None, suspended: false, scope: None, session_key: None };
        assert_eq!(found([1; 32]).await, Some(principal));
        assert_eq!(found(key.hash).await, Some(Principal { until: Some(until), ..principal }));
        fixture.store.rotate_key(org, rotation([2; 32]), fixture.audit(org)).await.unwrap();
        assert_eq!(found([2; 32]).await, Some(principal));
        assert_eq!(found([1; 32]).await, Some(Principal { until: Some(until), ..principal }));
        assert_eq!(found(key.hash).await, None);
        fixture.store.create_key(fixture.new_key(org, Role::Admin), fixture.audit(org)).await.unwrap();
        fixture.store.delete_key(org, key.id, fixture.audit(org)).await.unwrap();
        assert_eq!((found([1; 32]).await, found([2; 32]).await), (None, None));
    }

    async fn no_grace_outlives_the_key(fixture: &Fixture, org: OrgId) {
        let ends = fixture.now() + HOUR;
        let key = NewKey { expires_at: Some(ends), ..fixture.new_key(org, Role::Member) };
        fixture.store.create_key(key.clone(), fixture.audit(org)).await.unwrap();
        let at = fixture.now();
        let rotation = Rotation { id: key.id, hash: [1; 32], at, previous_until: ends + HOUR };
        fixture.store.rotate_key(org, rotation, fixture.audit(org)).await.unwrap();
        for hash in [key.hash, [1; 32]] {
            assert_eq!(fixture.store.find_principal(hash).await.unwrap().unwrap().until, Some(ends));
        }
        let late = Rotation { hash: [2; 32], at: ends, ..rotation };
        let refused = fixture.store.rotate_key(org, late, fixture.audit(org)).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the key has expired: make a new one"));
        let other = fixture.org().await;
        let refused = fixture.store.rotate_key(other, rotation, fixture.audit(other)).await.unwrap_err();
        assert_eq!(refused, Error::NotFound);
    }

    async fn an_admin_key_that_expires_does_not_count_as_the_last_one(fixture: &Fixture, org: OrgId) {
        let admin = fixture.key(org, Role::Admin).await;
        let passing = NewKey { expires_at: Some(fixture.now() + HOUR), ..fixture.new_key(org, Role::Admin) };
        fixture.store.create_key(passing.clone(), fixture.audit(org)).await.unwrap();
        let refused = fixture.store.delete_key(org, admin.id, fixture.audit(org)).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused}");
        fixture.store.delete_key(org, passing.id, fixture.audit(org)).await.unwrap();
    }
}
