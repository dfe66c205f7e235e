//! Shared rows for the tests of this crate: windows of budgets that have room for everything.

use sortie_api::OrgId;

use crate::{
    Error, Result, Stmt, Tx,
    tail::{SharedRow, SharedRows, Sums, Tail, Written},
    vals,
};

#[derive(Debug)]
pub(crate) struct FakeRows;

impl SharedRows for FakeRows {
    fn write(&self, tx: &mut dyn Tx, sums: &Sums) -> Result<Written> {
        let windows = sums.windows().keys();
        let statement = |scope| {
            Stmt::new("UPDATE budget_window SET held = 0 WHERE scope = $1", vals![scope])
                .exactly(1, Error::NotFound)
        };
        let statements: Vec<_> = windows.map(|key| statement(key.scope.as_str())).collect();
        tx.batch(&statements)?;
        Ok(Written::default())
    }

    fn write_of_one(&self, tx: &mut dyn Tx, tails: &[Tail]) -> Result<Written> {
        self.write(tx, &Sums::of(tails))
    }

    fn row_after(&self, answered: usize, sums: &Sums) -> Option<SharedRow> {
        sums.windows()
            .keys()
            .nth(answered)
            .cloned()
            .map(SharedRow::Window)
    }

    fn committed(&self, _: &[Tail], _: Vec<OrgId>) {}
}
