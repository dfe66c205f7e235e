//! Installation: all nodes of one database.

use crate::{
    Store,
    db::{Stmt, batch, vals},
    types::{Error, Result},
};

impl Store {
    /// System: returns the random bytes of the installation. The first node stores `fresh`.
    pub async fn installation_seed(&self, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.db
            .write(move |tx| {
                let [_, found] = batch(
                    tx,
                    &[
                        Stmt::new(
                            "INSERT INTO installation (id, seed) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
                            vals![fresh.as_slice()],
                        ),
                        Stmt::new("SELECT seed FROM installation WHERE id = 1", vals![]),
                    ],
                )?;
                let row = found.rows.first().ok_or(Error::NotFound)?;
                let seed = row.blob(0)?;
                seed.try_into()
                    .map_err(|_| Error::Database("the seed of the installation is not 32 bytes".to_owned()))
            })
            .await
    }
}
