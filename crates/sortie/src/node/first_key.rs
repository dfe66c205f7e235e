//! The first key of a store: the admin key of a self-hosted engine, or the operator's key of a hosted deployment.

use std::io;

use sortie_accounts::Accounts;
use sortie_api::secret::Secret;
use sortie_engine::Engine;

use crate::{
    data_dir::{DataDir, NodeKey, PreparedKey},
    failure::{Failure, Result},
};

/// The admin key of a new store, or the operator's.
pub(crate) struct FirstKey {
    /// Kind of the key.
    pub(crate) which: NodeKey,
    /// The secret in clear.
    pub(crate) secret: String,
    /// Result of writing the key into the data folder.
    pub(crate) kept: io::Result<()>,
}

/// Part of a node that accepts a first key.
pub(super) enum KeyHolder<'a> {
    /// The engine of a self-hosted node, which has no organization yet.
    Engine(&'a Engine),
    /// The accounts of a hosted deployment, which have no operator yet.
    Accounts(&'a Accounts),
}

impl KeyHolder<'_> {
    const fn which(&self) -> NodeKey {
        match self {
            Self::Engine(_) => NodeKey::Admin,
            Self::Accounts(_) => NodeKey::Operator,
        }
    }

    fn failed(&self, error: &dyn std::error::Error) -> Failure {
        Failure::unavailable(format!(
            "the first {} cannot be made: {error}",
            self.which().name()
        ))
    }

    async fn knows(&self, secret: &Secret) -> Result<bool> {
        match self {
            Self::Engine(engine) => engine
                .authenticate(secret.expose())
                .await
                .map(|found| found.is_some())
                .map_err(|error| self.failed(&error)),
            Self::Accounts(accounts) => accounts
                .is_operator(secret.expose())
                .await
                .map_err(|error| self.failed(&error)),
        }
    }

    /// Makes a secret the first key. Returns false if there is a key already.
    async fn make(&self, secret: &Secret) -> Result<bool> {
        match self {
            Self::Engine(engine) => engine
                .bootstrap(secret)
                .await
                .map_err(|error| self.failed(&error)),
            Self::Accounts(accounts) => accounts
                .set_first_operator_key(secret)
                .await
                .map_err(|error| self.failed(&error)),
        }
    }
}

/// Makes the first key if the store has none. The secret is written to the folder before the store gets it, so that a
/// crash cannot lose it. A secret left by an earlier start is put in place if the store knows it.
pub(super) async fn first_key(holder: KeyHolder<'_>, data_dir: &DataDir) -> Result<Option<FirstKey>> {
    let which = holder.which();
    if let Some(left) = data_dir.left_key(which)
        && holder.knows(left.secret()).await?
    {
        return Ok(Some(FirstKey::of(which, &left)));
    }
    let random = random_bytes().map_err(|e| Failure::internal(format!("no random numbers: {e}")))?;
    let prepared = data_dir.prepare_key(which, Secret::new(which.prefix(), random))?;
    // After an error the key may exist or not: the file stays for the next start.
    if holder.make(prepared.secret()).await? {
        Ok(Some(FirstKey::of(which, &prepared)))
    } else {
        prepared.discard();
        Ok(None)
    }
}

fn random_bytes() -> std::result::Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map(|()| bytes)
}

impl FirstKey {
    fn of(which: NodeKey, prepared: &PreparedKey) -> Self {
        Self {
            which,
            secret: prepared.secret().expose().to_owned(),
            kept: prepared.keep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sortie_store::Store;

    use super::*;

    /// An engine with the database of `folder`.
    async fn engine(folder: &Path) -> Engine {
        let url = format!("sqlite:{}", folder.join("sortie.db").display());
        let options = sortie_engine::Options {
            data_dir: folder.to_owned(),
            ..sortie_engine::Options::default()
        };
        let no_sandbox = Err("this test has no sandbox.".to_owned());
        Engine::start(options, Store::open(&url).await.unwrap(), no_sandbox)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_first_key_that_was_made_just_before_the_process_died_is_kept_by_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let secret = Secret::new(NodeKey::Admin.prefix(), [7; 32]);
        let engine = engine(folder.path()).await;
        // As a start does that is killed right after the commit.
        let prepared = data_dir.prepare_key(NodeKey::Admin, secret.clone()).unwrap();
        assert!(engine.bootstrap(prepared.secret()).await.unwrap());
        drop(prepared);
        assert_eq!(data_dir.admin_key().unwrap(), None);

        let key = first_key(KeyHolder::Engine(&engine), &data_dir)
            .await
            .unwrap()
            .expect("it was never shown");
        assert_eq!(key.secret, secret.expose());
        assert_eq!(data_dir.admin_key().unwrap().as_deref(), Some(secret.expose()));
        assert!(data_dir.left_key(NodeKey::Admin).is_none());
        assert!(
            first_key(KeyHolder::Engine(&engine), &data_dir)
                .await
                .unwrap()
                .is_none()
        );
        engine.shutdown().await;
    }

    #[tokio::test]
    async fn a_prepared_key_that_never_became_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let engine = engine(folder.path()).await;
        let unused = Secret::new(NodeKey::Admin.prefix(), [7; 32]);
        drop(data_dir.prepare_key(NodeKey::Admin, unused.clone()).unwrap());

        let key = first_key(KeyHolder::Engine(&engine), &data_dir)
            .await
            .unwrap()
            .expect("the store is empty");
        assert_ne!(key.secret, unused.expose());
        assert!(engine.authenticate(&key.secret).await.unwrap().is_some());
        engine.shutdown().await;
    }
}
