//! Accounts that send mail through the peers.

use std::time::Duration;

use sortie_accounts::{Accounts, IdentityProvider, MailOptions, NewInvitationLink, Options};
use sortie_api::SignUpRule;
use sortie_api::{EmailDelivery, OrgId, Role, SessionId, UserId};
use sortie_base::{CREDENTIAL_LOOKUP, Clock, MasterKey, Sealer, random};
use sortie_store::{
    Store,
    access::{Actor, Caller},
    people::{NewPerson, NewSession, SessionKind},
};

/// Accounts with one person, who owns an organization.
pub(crate) struct Rig {
    accounts: Accounts,
    person: UserId,
    org: OrgId,
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Accounts that send through the server at `smtp_url`.
    pub(crate) async fn sending_through(smtp_url: &str) -> Self {
        let mail = MailOptions {
            server: smtp_url.parse().unwrap(),
            from: "Sortie Grüße <sortie@accounts.example>".parse().unwrap(),
        };
        Self::with(Some(mail), Vec::new()).await
    }

    /// Accounts with an identity provider for sign-in.
    pub(crate) async fn with_provider(provider: IdentityProvider) -> Self {
        Self::with(None, vec![provider]).await
    }

    /// The accounts.
    pub(crate) const fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    async fn with(mail: Option<MailOptions>, providers: Vec<IdentityProvider>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("sortie.db").display());
        let store = Store::open(&url).await.unwrap();
        let clock = Clock::system();
        let options = Options {
            mode: sortie_api::Mode::Hosted,
            clock: clock.clone(),
            org_url: "https://accounts.example".to_owned(),
            engine_url: "https://engine.example".to_owned(),
            sign_up: SignUpRule::Open,
            mail,
            providers,
            outbound: sortie_net::Outbound::default(),
            license_signer: None,
            credential_lookup: CREDENTIAL_LOOKUP,
        };
        let at = clock.now();
        let person = UserId::new(at, random().unwrap());
        let new = NewPerson {
            id: person,
            email: "ann@example.com".to_owned(),
            email_key: "ann@example.com".to_owned(),
            name: "Änn <b>".to_owned(),
            password: "hash".to_owned(),
            created_at: at,
        };
        let session = NewSession {
            id: SessionId::new(at, random().unwrap()),
            hash: random().unwrap(),
            user: person,
            kind: SessionKind::Api,
            created_at: at,
            expires_at: at + Duration::from_hours(1),
            address: None,
            agent: None,
        };
        store.sign_up(new, Some(session), None).await.unwrap();
        let accounts = Accounts::new(options, store, Sealer::new(vec![MasterKey::new([7; 32])]));
        let created = accounts
            .create_organization((person, &Actor::default()), "Äcme & Co")
            .await;
        let org = created.unwrap().id;
        Self {
            accounts,
            person,
            org,
            _folder: folder,
        }
    }

    /// Invites an address. Returns the invitation and the outcome of its mail.
    pub(crate) async fn invites(&self, email: &str) -> (NewInvitationLink, EmailDelivery) {
        let caller = Caller {
            org: self.org,
            actor: Actor::default(),
        };
        let made = self
            .accounts
            .invite((&caller, self.person), Role::Member, email)
            .await
            .unwrap();
        let delivery = made.email_delivery;
        (made, delivery)
    }
}
