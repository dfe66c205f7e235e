//! Starts the peers, and accounts that send mail through them.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::Value;
use sortie_accounts::{Accounts, Author, MailOptions, NewInvitationLink, Options, Requester, SignUp};
use sortie_api::{EmailDelivery, OrgId, Role, SessionId, UserId};
use sortie_base::{Clock, MasterKey, Sealer, random};
use sortie_store::{Actor, NewPerson, NewSession, SessionKind, Store};

/// Time for which a peer may be silent: Python on a busy machine is slow.
const PATIENCE: Duration = Duration::from_mins(2);

/// Path of a peer's file.
pub(crate) fn installed(path: &str) -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "where the peers are is no setting of the node"
    )]
    let given = std::env::var("SORTIE_PEERS");
    let folder = given.map_or_else(
        |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    let path = folder.join(path);
    assert!(path.exists(), "{} is missing: run scripts/peers", path.display());
    path
}

/// A peer that tells what it does line by line. Dropping it ends it.
pub(crate) struct Peer {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

impl Peer {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}: run scripts/peers", program.display()));
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // Nobody may listen any more; the output is read on, so that the peer never blocks.
                let _told = tell.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits for the next line.
    pub(crate) fn line(&self) -> Option<String> {
        self.lines.recv_timeout(PATIENCE).ok()
    }

    /// Waits for the next line, which is JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.line().unwrap()).unwrap()
    }

    /// Whether nothing was told that was not read yet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.lines.try_recv().is_err()
    }
}

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
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("sortie.db").display());
        let store = Store::open(&url).await.unwrap();
        let clock = Clock::system();
        let options = Options {
            clock: clock.clone(),
            org_url: "https://accounts.example".to_owned(),
            engine_url: "https://engine.example".to_owned(),
            sign_up: SignUp::Open,
            mail: Some(MailOptions {
                server: smtp_url.parse().unwrap(),
                from: "Sortie Grüße <sortie@accounts.example>".parse().unwrap(),
            }),
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
        let author = author();
        let requester = requester(person, &author);
        let org = accounts
            .create_organization(&requester, "Äcme & Co")
            .await
            .unwrap()
            .id;
        Self {
            accounts,
            person,
            org,
            _folder: folder,
        }
    }

    /// Invites an address. Returns the invitation and what became of its mail.
    pub(crate) async fn invites(&self, email: &str) -> (NewInvitationLink, EmailDelivery) {
        let author = author();
        let requester = requester(self.person, &author);
        let made = self
            .accounts
            .invite(&requester, (self.org, Role::Member), email)
            .await
            .unwrap();
        let delivery = made.email_delivery;
        (made, delivery)
    }
}

fn author() -> Author {
    Author {
        actor: Actor::default(),
    }
}

fn requester(user: UserId, author: &Author) -> Requester<'_> {
    Requester {
        user,
        email_verified: true,
        author,
    }
}
