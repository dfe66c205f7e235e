//! Installation: all nodes of one database. They share random bytes, and derive keys from them that no other installation has.

use hmac::Hmac;
use sha2::Sha256;
use sortie_api::Refusal;
use sortie_base::derived_key;
use sortie_store::Store;
use zeroize::Zeroizing;

use crate::{Engine, kit::random::random};

/// Random bytes of the installation.
pub(crate) struct Installation(Zeroizing<[u8; 32]>);

impl Installation {
    /// Reads the random bytes from the database. The first node makes them.
    pub(crate) async fn of(store: &Store) -> Result<Self, Refusal> {
        Ok(Self(store.installation_seed(random()?).await?.into()))
    }
}

impl Engine {
    /// Derives the key of the installation for a purpose. Every node of the database has the same one, also after a restart and
    /// after a rotation of the master key.
    pub fn installation_key(&self, purpose: &[u8]) -> Hmac<Sha256> {
        derived_key(&self.0.cluster.installation.0, purpose)
    }

    /// Whether the database has more than one organization. Deleted ones count.
    pub async fn has_several_organizations(&self) -> Result<bool, Refusal> {
        Ok(self.store().operated_organizations(None, 2).await?.len() > 1)
    }
}
