//! Installation: all nodes of one database.

mod backup;
mod checks;
pub(crate) mod observe;
mod reseal;
pub(crate) mod sealed;

pub use backup::{DatabaseCopy, ReferredBlob, Referrer, Summary};
pub use checks::{Backlog, DatabaseInfo};
pub use observe::{DeadRows, MOST_COUNTED, Observed};
pub use reseal::{NodeMasterKeys, Resealed, RowKey, SealedColumn, SealedRow};

use sortie_api::Timestamp;

use crate::{
    Result, Store,
    db::{Stmt, batch, insert, vals},
};

impl Store {
    /// System: returns the random bytes of the installation. The first node stores `fresh`.
    pub async fn installation_seed(&self, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.db
            .write(move |tx| {
                let [_, found] = batch(
                    tx,
                    &[
                        insert!("installation", { "id" = "1", "seed": &fresh }, " ON CONFLICT (id) DO NOTHING"),
                        Stmt::new("SELECT seed FROM installation WHERE id = 1", vals![]),
                    ],
                )?;
                found.value()
            })
            .await
    }

    /// System: returns the time of the last pass of retention. Before the first one, that is the creation of the newest run.
    /// `None` if there is neither.
    pub async fn last_retention(&self) -> Result<Option<Timestamp>> {
        self.db
            .read(|tx| {
                let [pass, run] = batch(
                    tx,
                    &[
                        Stmt::new("SELECT retention_at FROM installation WHERE id = 1", vals![]),
                        Stmt::new("SELECT created_at FROM run ORDER BY id DESC LIMIT 1", vals![]),
                    ],
                )?;
                let pass: Option<Option<Timestamp>> = pass.opt_value()?;
                let run = run.opt_value()?;
                Ok(pass.flatten().or(run))
            })
            .await
    }

    /// System: records the time of a pass of retention.
    pub async fn record_retention(&self, at: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE installation SET retention_at = $1 WHERE id = 1",
                    vals![at],
                )
                .map(drop)
            })
            .await
    }
}
