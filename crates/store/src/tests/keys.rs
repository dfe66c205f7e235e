use sortie_api::Role;

use super::both;
use crate::{Error, KeyRecord};

both! {
    async fn the_first_organization_is_made_once(fixture: &Fixture) {
        let org = sortie_api::OrgId::new(fixture.now(), [1; 10]);
        let key = fixture.new_key(org, Role::Admin);
        assert!(fixture.store.bootstrap("home", key.clone()).await.unwrap());
        let other = sortie_api::OrgId::new(fixture.now(), [2; 10]);
        assert!(!fixture.store.bootstrap("home", fixture.new_key(other, Role::Admin)).await.unwrap());
        let found = fixture.store.find_key(key.hash).await.unwrap();
        assert_eq!(found, Some(KeyRecord { id: key.id, org, role: Role::Admin }));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM organization").await, 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM api_key").await, 1);
    }

    async fn keys_are_listed_for_their_organization_oldest_first(fixture: &Fixture) {
        let (org, other) = (fixture.org().await, fixture.org().await);
        let keys = [
            fixture.new_key(org, Role::Admin),
            fixture.new_key(org, Role::Member),
            fixture.new_key(other, Role::Member),
        ];
        for key in keys.clone().into_iter().rev() {
            fixture.store.create_key(key).await.unwrap();
        }
        let listed = fixture.store.list_keys(org).await.unwrap();
        let ids: Vec<_> = listed.iter().map(|key| key.id).collect();
        assert_eq!(ids, [keys[0].id, keys[1].id]);
        assert_eq!((listed[1].role, &*listed[1].name), (Role::Member, "a key"));
        assert_eq!(listed[1].created_at, keys[1].created_at);
    }

    async fn a_key_of_an_organization_that_is_not_there_is_refused(fixture: &Fixture) {
        let org = sortie_api::OrgId::new(fixture.now(), [1; 10]);
        let refused = fixture.store.create_key(fixture.new_key(org, Role::Member)).await;
        assert_eq!(refused.unwrap_err(), Error::NotFound);
    }

    async fn a_revoked_key_is_not_found(fixture: &Fixture) {
        let (org, other) = (fixture.org().await, fixture.org().await);
        fixture.store.create_key(fixture.new_key(org, Role::Admin)).await.unwrap();
        let key = fixture.new_key(org, Role::Member);
        fixture.store.create_key(key.clone()).await.unwrap();
        assert_eq!(fixture.store.delete_key(other, key.id).await.unwrap_err(), Error::NotFound);
        fixture.store.delete_key(org, key.id).await.unwrap();
        assert_eq!(fixture.store.find_key(key.hash).await.unwrap(), None);
        assert_eq!(fixture.store.delete_key(org, key.id).await.unwrap_err(), Error::NotFound);
    }

    async fn the_last_key_that_can_make_keys_stays(fixture: &Fixture) {
        let org = fixture.org().await;
        let (owner, admin) = (fixture.new_key(org, Role::Owner), fixture.new_key(org, Role::Admin));
        fixture.store.create_key(owner.clone()).await.unwrap();
        fixture.store.create_key(admin.clone()).await.unwrap();
        fixture.store.create_key(fixture.new_key(org, Role::Member)).await.unwrap();
        fixture.store.delete_key(org, owner.id).await.unwrap();
        let refused = fixture.store.delete_key(org, admin.id).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the last admin key cannot be deleted"));
        assert!(fixture.store.find_key(admin.hash).await.unwrap().is_some());
    }
}
