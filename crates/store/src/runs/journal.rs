//! Journal of a run: the entries from which another worker can resume it. The journal exists for as long as
//! the run may be resumed, and is deleted in the transaction that ends the run.

use sortie_api::RunId;

use crate::{
    Result, Store,
    db::{Stmt, filled, vals},
    runs::NewEntries,
};

/// Number of entries in one read. Each may hold a large output, and a statement has a time limit.
const PAGE: u32 = 64;

impl Store {
    /// Worker: returns every entry of a run's journal, in order. The result is complete only for the worker
    /// that holds the run, because that worker writes the later entries.
    pub async fn journal(&self, run: RunId) -> Result<Vec<String>> {
        let mut entries = Vec::new();
        loop {
            let after = i64::try_from(entries.len()).unwrap_or(i64::MAX);
            let page = self
                .db
                .read(move |tx| {
                    tx.query_all(
                        "SELECT data FROM journal WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                        vals![run, after, PAGE],
                    )
                })
                .await?;
            for row in &page {
                entries.push(row.only()?);
            }
            if page.len() < PAGE as usize {
                return Ok(entries);
            }
        }
    }

    /// Worker: returns the data of the newest `resumed` event of a run; `None` if the run was never resumed.
    pub async fn last_resumed(&self, run: RunId) -> Result<Option<String>> {
        let row = self
            .db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT data FROM event WHERE run_id = $1 AND kind = 'resumed' ORDER BY seq DESC LIMIT 1",
                    vals![run],
                )
            })
            .await?;
        row.map(|row| row.only()).transpose()
    }
}

const INSERT_ENTRY: &str =
    "INSERT INTO journal (run_id, seq, data) VALUES ($1, $2, $3)@more ON CONFLICT (run_id, seq) DO NOTHING";

/// Statements that insert one, two, three and four entries.
const INSERT_ENTRIES: [&str; 4] = [
    filled!(INSERT_ENTRY, "@more" = ""),
    filled!(INSERT_ENTRY, "@more" = ", ($1, $4, $5)"),
    filled!(INSERT_ENTRY, "@more" = ", ($1, $4, $5), ($1, $6, $7)"),
    filled!(
        INSERT_ENTRY,
        "@more" = ", ($1, $4, $5), ($1, $6, $7), ($1, $8, $9)"
    ),
];

/// Adds the statements that append `new` to the existing entries.
pub(super) fn insert_entries<'a>(statements: &mut Vec<Stmt<'a>>, run: RunId, new: &'a NewEntries) {
    let mut seq = new.after;
    for chunk in new.data.chunks(INSERT_ENTRIES.len()) {
        let mut params = vals![run];
        for data in chunk {
            seq = seq.saturating_add(1);
            params.extend(vals![seq, data.as_str()]);
        }
        let sql = INSERT_ENTRIES.get(chunk.len() - 1);
        statements.extend(sql.map(|sql| Stmt::new(sql, params)));
    }
}

/// Deletes the journal of a run that has ended.
pub(super) fn delete_journal(run: RunId) -> Stmt<'static> {
    Stmt::new("DELETE FROM journal WHERE run_id = $1", vals![run])
}
