//! Report of the master keys in use, and their rotation: each value is sealed again with the first key of the node, a
//! page at a time, while the service runs.
//!
//! A page is one transaction for each column and may be repeated. The caller keeps the position of a rotation; the
//! engine stores none. A value is never sealed with a key that another node lacks: every node publishes the ids of its
//! keys, and a node without the first key of this one blocks the rotation.

use std::{collections::BTreeMap, str::FromStr};

use sortie_api::{
    ErrorCode, OrgId, Refusal,
    master_key::{MasterKeys, NodeKeys, Reseal, SealedValues},
};
use sortie_store::{
    Store,
    access::Caller,
    installation::{Resealed, RowKey, SealedColumn, SealedRow},
};

use crate::{Engine, kit::random::random};
use sortie_base::{MasterKey, SealContext, SealError, Sealer, from_hex, hex, key_of};

/// Seal context of the text by which a node checks that it has the keys of a database.
pub(crate) const SEAL_CHECK: SealContext<'static> = SealContext {
    table: "seal_check",
    column: "sealed",
    row: "1",
    org: None,
};

/// Returns the seal context of a row in a sealed column.
const fn seal_context(column: SealedColumn, row: &str, org: Option<OrgId>) -> SealContext<'_> {
    SealContext {
        table: column.table(),
        column: column.column(),
        row,
        org,
    }
}

/// Values in one page. Those of each column are one transaction.
const PAGE: u32 = 500;

/// Position of a walk through every sealed value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    /// Index of the column in [`SealedColumn::ALL`].
    column: usize,
    after: RowKey,
}

/// A text that is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cursor: must be the `next_cursor` of a page")]
struct InvalidPosition;

impl Position {
    const START: Self = Self {
        column: 0,
        after: RowKey::Text(String::new()),
    };

    fn cursor(&self) -> String {
        format!("{}.{}", self.column, row_name(&self.after))
    }
}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        if text.is_empty() {
            return Ok(Self::START);
        }
        let (column, row) = text.split_once('.').ok_or(InvalidPosition)?;
        let column: usize = column.parse().map_err(|_| InvalidPosition)?;
        let kind = SealedColumn::ALL.get(column).ok_or(InvalidPosition)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let after = if *kind == SealedColumn::OauthFlow {
            RowKey::Hash(from_hex(row).ok_or(InvalidPosition)?.to_vec())
        } else if row.len() <= 64 && row.bytes().all(is_name) {
            RowKey::Text(row.to_owned())
        } else {
            return Err(InvalidPosition);
        };
        Ok(Self { column, after })
    }
}

/// Returns the name of a row in its [`SealContext`].
fn row_name(row: &RowKey) -> String {
    match row {
        RowKey::Text(text) => text.clone(),
        RowKey::Hash(hash) => hex(hash),
    }
}

/// A page of sealed values, by column, and the cursor of the next page.
type Page = (Vec<(SealedColumn, Vec<SealedRow>)>, String);

impl Engine {
    /// Returns the keys of the nodes, and counts the sealed values of a page by key. The page begins at `cursor`; an
    /// empty cursor is the beginning.
    ///
    /// # Errors
    /// `InvalidRequest` for a cursor that no page has returned.
    pub async fn master_keys(&self, cursor: &str) -> Result<MasterKeys, Refusal> {
        let (page, next_cursor) = self.sealed_page(cursor).await?;
        let mut counts: BTreeMap<(String, String), i64> = BTreeMap::new();
        for (column, rows) in &page {
            for row in rows {
                let key = key_of(&row.sealed).unwrap_or_else(|| "unknown".to_owned());
                *counts.entry((key, place_name(*column))).or_default() += 1;
            }
        }
        let sealed = counts
            .into_iter()
            .map(|((key, place), values)| SealedValues { key, place, values })
            .collect();
        Ok(MasterKeys {
            keys: self.0.stores.connections.sealer().ids(),
            nodes: self.nodes_keys().await?,
            sealed,
            next_cursor,
        })
    }

    /// Seals the values of a page again that are not sealed with the first key of this node. The page begins at
    /// `cursor`. The first page is logged, and recorded in the audit log of the caller's organization. The operator of a
    /// hosted deployment has no organization, and is no caller.
    ///
    /// # Errors
    /// `Conflict` while a node lacks the key, this node included; `InvalidRequest` for a cursor that no page has returned.
    pub async fn reseal(&self, caller: Option<&Caller>, cursor: &str) -> Result<Reseal, Refusal> {
        let node = &self.0;
        let newest = node
            .stores
            .connections
            .sealer()
            .ids()
            .into_iter()
            .next()
            .ok_or_else(|| {
                ErrorCode::Conflict.because("this node has no master key: give it one as SORTIE_MASTER_KEY")
            })?;
        for other in self.nodes_keys().await? {
            if !other.keys.contains(&newest) {
                return Err(ErrorCode::Conflict.because(format!(
                    "node {} does not have the master key {newest} and could not read values sealed with it: give every \
                     node both keys first",
                    other.name
                )));
            }
        }
        let mut audit = None;
        if cursor.is_empty() {
            tracing::info!(key = newest, "started to seal all values again");
            let at = (node.options.clock.now(), random()?);
            audit = caller.map(|caller| caller.audit(at, "master_key.reseal", newest));
        }
        let (page, next_cursor) = self.sealed_page(cursor).await?;
        let mut done = Reseal {
            looked_at: 0,
            resealed: 0,
            changed_meanwhile: 0,
            unreadable: 0,
            next_cursor,
        };
        for (column, rows) in page {
            done.looked_at += count(rows.len());
            let (values, unreadable) = self.sealed_again(column, rows)?;
            done.unreadable += unreadable;
            if values.is_empty() && audit.is_none() {
                continue;
            }
            let wanted = count(values.len());
            let changed = node.stores.database.reseal(column, values, audit.take()).await?;
            let changed = i64::try_from(changed).unwrap_or(i64::MAX);
            done.resealed += changed;
            done.changed_meanwhile += wanted - changed;
        }
        Ok(done)
    }

    /// Returns the replacements of rows that need one, and the number of rows that do not open.
    fn sealed_again(
        &self,
        column: SealedColumn,
        rows: Vec<SealedRow>,
    ) -> Result<(Vec<Resealed>, i64), Refusal> {
        let (mut values, mut unreadable) = (Vec::new(), 0);
        for row in rows {
            let name = row_name(&row.row);
            let context = seal_context(column, &name, row.org);
            let sealer = self.0.stores.connections.sealer();
            match sealer.seal_again(context, &row.sealed, random()?) {
                Ok(Some(new)) => values.push(Resealed {
                    row: row.row,
                    old: row.sealed,
                    new,
                }),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, row = name, "cannot open {}", place_name(column));
                    unreadable += 1;
                }
            }
        }
        Ok((values, unreadable))
    }

    async fn sealed_page(&self, cursor: &str) -> Result<Page, Refusal> {
        let mut position: Position = cursor
            .parse()
            .map_err(|rule: InvalidPosition| ErrorCode::InvalidRequest.because(rule.to_string()))?;
        let (mut page, mut left) = (Vec::new(), PAGE);
        while let Some(column) = SealedColumn::ALL.get(position.column).copied() {
            let rows = self
                .store()
                .sealed_rows(column, position.after.clone(), left)
                .await?;
            left -= u32::try_from(rows.len()).unwrap_or(left);
            let last = rows.last().map(|row| row.row.clone());
            page.push((column, rows));
            if let (0, Some(after)) = (left, last) {
                return Ok((page, Position { after, ..position }.cursor()));
            }
            position = Position {
                column: position.column + 1,
                ..Position::START
            };
        }
        Ok((page, String::new()))
    }

    async fn nodes_keys(&self) -> Result<Vec<NodeKeys>, Refusal> {
        let now = self.0.cluster.identity.leases.now();
        let nodes = self.store().node_master_keys(now).await?;
        Ok(nodes
            .into_iter()
            .map(|node| NodeKeys {
                name: node.name,
                keys: node.ids,
            })
            .collect())
    }
}

/// Checks that one of `keys` opens the sealed values of a database. If nothing is sealed yet, any keys pass, or no keys.
///
/// # Errors
/// `InvalidRequest` if no key fits, with the id of the missing key and the remedy. `Internal` if the sealed text used for the
/// check is damaged.
pub async fn check_master_keys(store: &Store, keys: &[MasterKey]) -> Result<(), Refusal> {
    let rows = store
        .sealed_rows(SealedColumn::SealCheck, RowKey::Text(String::new()), 1)
        .await?;
    rows.first()
        .map_or(Ok(()), |first| check_key_text(&first.sealed, keys))
}

/// Checks that one of `keys` opens `sealed`, the text of the key check of a database.
///
/// # Errors
/// The errors of [`check_master_keys`].
pub fn check_key_text(sealed: &[u8], keys: &[MasterKey]) -> Result<(), Refusal> {
    match Sealer::new(keys.to_vec()).open(SEAL_CHECK, sealed) {
        Ok(_) => Ok(()),
        Err(SealError::NoKey | SealError::UnknownKey) => {
            let needed = key_of(sealed).unwrap_or_else(|| "unknown".to_owned());
            let held: Vec<String> = keys.iter().map(MasterKey::id).collect();
            let held = if held.is_empty() {
                "no master key".to_owned()
            } else {
                format!("only {}", held.join(", "))
            };
            // A restart does not help: the operator must supply the key.
            Err(ErrorCode::InvalidRequest.because(format!(
                "this database is sealed with master key {needed}, and this node has {held}: put the master.key that belongs \
                 to it into the data folder, or set SORTIE_MASTER_KEY to it"
            )))
        }
        Err(SealError::Broken) => Err(Refusal::internal(
            "cannot check the master key: its stored check value is damaged; restore the database",
        )),
    }
}

fn place_name(column: SealedColumn) -> String {
    format!("{}.{}", column.table(), column.column())
}

fn count(values: usize) -> i64 {
    i64::try_from(values).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_is_where_it_was_and_nothing_else_is_one() {
        let run = Position {
            column: 6,
            after: RowKey::Text("run_01kafs6w1cefkstv6qr1ptb0mp".to_owned()),
        };
        let flow = Position {
            column: 3,
            after: RowKey::Hash(vec![9; 32]),
        };
        for position in [Position::START, run, flow] {
            assert_eq!(position.cursor().parse(), Ok(position));
        }
        assert_eq!("".parse(), Ok(Position::START));
        for wrong in ["99.x", "x", "0", "3.abc", "1.a b", "-1.x", "6.run'"] {
            assert_eq!(wrong.parse::<Position>(), Err(InvalidPosition), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_cursor_panic(text in "\\PC{0,90}") {
            let _read = text.parse::<Position>();
        }
    }
}
