//! Sealed inline credentials of runs, and the sealed text by which a node finds out whether it has the keys
//! of this database.

use sortie_api::RunId;

use crate::{
    Result, Store,
    db::{Stmt, batch, vals},
};

impl Store {
    /// Worker: returns the sealed inline credentials of a run, if it has any.
    pub async fn run_secrets(&self, run: RunId) -> Result<Option<Vec<u8>>> {
        self.db
            .read(move |tx| {
                let row = tx.query_opt("SELECT credentials FROM run_secret WHERE run_id = $1", vals![run])?;
                row.map(|row| row.only()).transpose()
            })
            .await
    }

    /// System: returns the text that the first node of this database sealed. The first node stores `sealed`.
    pub async fn seal_check(&self, sealed: Vec<u8>) -> Result<Vec<u8>> {
        self.db
            .write(move |tx| {
                let [_, found] = batch(
                    tx,
                    &[
                        Stmt::new(
                            "INSERT INTO seal_check (id, sealed) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
                            vals![sealed.as_slice()],
                        ),
                        Stmt::new("SELECT sealed FROM seal_check WHERE id = 1", vals![]),
                    ],
                )?;
                found.value()
            })
            .await
    }
}

/// Statement that deletes the inline credentials of a run, which a settled run does not need.
pub(crate) fn delete_run_secrets(run: RunId) -> Stmt<'static> {
    Stmt::new("DELETE FROM run_secret WHERE run_id = $1", vals![run])
}
