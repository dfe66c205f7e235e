//! Status changes in SQL. Every statement that changes a status takes the allowed previous statuses from
//! [`RunStatus::may_become`].

use sortie_api::RunStatus;

use crate::{
    Error, Result, Store,
    db::{Val, vals},
    runs::Fence,
};

/// Number of statuses that a run can leave.
const OPEN: usize = 4;

/// Statuses from which a run may change to `next`, for `status IN ($a, $b, $c, $d)`, repeated to fill the
/// four. [`Error::Conflict`] if there is no such status.
pub(super) fn sources(next: RunStatus) -> Result<[Val<'static>; OPEN]> {
    let mut from = RunStatus::ALL
        .into_iter()
        .filter(|status| status.may_become(next))
        .cycle()
        .map(Val::from);
    let mut source = || from.next().ok_or(Error::Conflict("no run may go to this status"));
    Ok([source()?, source()?, source()?, source()?])
}

/// Statuses in which a worker holds a run. A lost worker leaves its runs in one of them.
pub(super) fn held() -> Result<[Val<'static>; OPEN]> {
    // Exactly these statuses can time out.
    sources(RunStatus::TimedOut)
}

impl Store {
    /// Error of a worker's write that the fence refused. [`Error::Conflict`] if the worker still holds the
    /// run and asked for a forbidden status, [`Error::Fenced`] otherwise. Call it after the write was rolled
    /// back.
    pub(super) async fn refusal(&self, fence: Fence, next: RunStatus) -> Result<Error> {
        let held = self
            .db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT status FROM run WHERE id = $1 AND attempt = $2 AND last_event = $3",
                    vals![fence.run, fence.attempt, fence.last_event],
                )
            })
            .await?;
        Ok(match held {
            Some(row) if !row.only::<RunStatus>()?.may_become(next) => {
                Error::Conflict("the run may not go from its status to this one")
            }
            Some(_) | None => Error::Fenced,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_exactly_the_statuses_that_may_move() {
        for next in RunStatus::ALL {
            let allowed: Vec<Val<'_>> = RunStatus::ALL
                .into_iter()
                .filter(|status| status.may_become(next))
                .map(Val::from)
                .collect();
            match sources(next) {
                Ok(named) => {
                    assert!(named.iter().all(|status| allowed.contains(status)), "{next}");
                    assert!(allowed.iter().all(|status| named.contains(status)), "{next}");
                }
                Err(_) => assert!(allowed.is_empty(), "{next}"),
            }
        }
    }
}
