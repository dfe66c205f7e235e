use super::prelude::*;

fn avatar(number: u8) -> Avatar {
    Avatar {
        content_type: "image/png".to_owned(),
        bytes: vec![number; 300],
        sha256: [number; 32],
        updated_at: Timestamp::from_micros(7),
    }
}

both! {
    async fn a_picture_is_seen_by_people_of_the_same_organization_alone(fixture: &Fixture, store: &Store) {
        let (ann, bob, eve) = (fixture.person("ann").await, fixture.person("bob").await, fixture.person("eve").await);
        let org = fixture.org_of(ann).await;
        fixture.member(org, bob, Role::Member).await;
        fixture.org_of(eve).await;
        assert_eq!(store.avatar(ann, ann).await.unwrap(), None);
        store.put_avatar(ann, avatar(1)).await.unwrap();
        for viewer in [ann, bob] {
            assert_eq!(store.avatar(viewer, ann).await.unwrap(), Some(avatar(1)));
        }
        assert_eq!(store.avatar(eve, ann).await.unwrap(), None);
        assert_eq!(store.avatar(ann, bob).await.unwrap(), None);
    }

    async fn a_picture_takes_the_place_of_the_one_before(fixture: &Fixture) {
        let (store, ann) = (&fixture.store, fixture.person("ann").await);
        for number in [1, 2] {
            store.put_avatar(ann, avatar(number)).await.unwrap();
            assert_eq!(store.avatar(ann, ann).await.unwrap(), Some(avatar(number)));
        }
        for _ in 0..2 {
            store.delete_avatar(ann).await.unwrap();
            assert_eq!(store.avatar(ann, ann).await.unwrap(), None);
        }
    }
}

impl Fixture {
    /// Runs every command about pictures once.
    pub(super) async fn use_avatars(&self) {
        let (store, ann) = (&self.store, self.person("plan-picture").await);
        store.put_avatar(ann, avatar(1)).await.unwrap();
        store.avatar(ann, ann).await.unwrap();
        store.delete_avatar(ann).await.unwrap();
    }
}
