use sortie_api::{AuditId, OrgId, SessionId, UserId};
use sortie_base::random;
use sortie_store::{
    access::{Actor, Audit},
    people::{NewOrganization, NewPerson, NewSession, SessionKind},
};

use super::*;

impl Rig {
    /// Creates a person who owns an organization.
    async fn owner(&self, name: &str) {
        let at = self.clock.now();
        let user = UserId::new(at, random().unwrap());
        let person = NewPerson {
            id: user,
            email: format!("{name}@example.com"),
            email_key: format!("{name}@example.com"),
            name: name.to_owned(),
            password: "hash".to_owned(),
            created_at: at,
        };
        let session = NewSession {
            id: SessionId::new(at, random().unwrap()),
            hash: random().unwrap(),
            user,
            kind: SessionKind::Api,
            created_at: at,
            expires_at: at + HOUR,
            address: None,
            agent: None,
        };
        let store = self.accounts.store();
        store.sign_up(person, Some(session), None).await.unwrap();
        let org = OrgId::new(at, random().unwrap());
        let new = NewOrganization {
            id: org,
            name: "Acme".to_owned(),
            owner: user,
            created_at: at,
        };
        let audit = Audit {
            id: AuditId::new(at, random().unwrap()),
            org,
            at,
            actor: Actor::default(),
            action: "organization.create",
            target: org.to_string(),
        };
        store.create_organization(new, audit).await.unwrap();
    }
}

fn deprecated_since(since: Timestamp) -> ApiDeprecation {
    ApiDeprecation {
        version: "v1",
        since,
        sunset: since + 200 * 24 * HOUR,
        successor: Some("https://docs.example.com/v2".to_owned()),
    }
}

#[tokio::test]
async fn owners_are_told_once_of_a_deprecated_version_whatever_node_tells_them() {
    let (rig, sink) = with_sink().await;
    rig.owner("ann").await;
    rig.owner("bob").await;
    let deprecation = Some(deprecated_since(rig.clock.now()));
    let parts = rig.accounts.parts();
    let other = Accounts::new(parts.options.clone(), parts.store.clone(), parts.sealer.clone());
    let mailers = [
        Mailer::telling(&rig.accounts, deprecation.clone()),
        Mailer::telling(&other, deprecation.clone()),
    ];
    let mails = sink.wait_for(2).await.unwrap();
    for mailer in mailers {
        mailer.stop().await;
    }
    assert!(
        mails[0]
            .text()
            .unwrap()
            .contains("Version v1 of the Sortie API is deprecated")
    );
    assert_eq!(mails[0].link().unwrap(), "https://docs.example.com/v2");

    // A node that starts later notifies only the people who became owners since then.
    rig.owner("eve").await;
    let mailer = Mailer::telling(&rig.accounts, deprecation);
    sink.wait_for(3).await.unwrap();
    mailer.stop().await;
    let mut to: Vec<String> = sink.all().into_iter().map(|mail| mail.to).collect();
    to.sort();
    assert_eq!(to, ["ann@example.com", "bob@example.com", "eve@example.com"]);
}

#[tokio::test]
async fn nobody_is_told_before_the_deprecation_begins() {
    let (rig, sink) = with_sink().await;
    rig.owner("ann").await;
    let deprecation = Some(deprecated_since(rig.clock.now() + HOUR));
    let mailer = Mailer::telling(&rig.accounts, deprecation.clone());
    rig.queue("bob@example.com").await;
    sink.wait_for(1).await.unwrap();
    mailer.stop().await;
    assert_eq!(sink.all()[0].to, "bob@example.com");
    rig.pass(HOUR);
    let mailer = Mailer::telling(&rig.accounts, deprecation);
    sink.wait_for_mail_to("ann@example.com").await.unwrap();
    mailer.stop().await;
}
