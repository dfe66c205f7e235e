//! Commands share a transaction under load, on `PostgreSQL` those that write only rows of their own. The fate of one
//! command does not affect the others.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use futures_util::FutureExt as _;
use parking_lot::Mutex;

use super::{backend::hold_up, prelude::*};
use crate::Result;

const THREADS: usize = crate::CONNECTIONS as usize;

/// Adds a separate row for a command. `turn` later identifies the kind of command that added it, and `xmin` the transaction.
fn add(tx: &mut dyn Tx, number: i64, turn: i64) -> Result<()> {
    tx.exec(
        "INSERT INTO dispatch (id, turn, last_org) VALUES ($1, $2, '')",
        vals![10 + number, turn],
    )
    .map(drop)
}

const ADDED: &str = "SELECT COUNT(*) FROM dispatch WHERE id >= 10";
const TRANSACTIONS: &str = "SELECT COUNT(DISTINCT CAST(xmin AS TEXT)) FROM dispatch WHERE id >= 10";

/// Runs `command` for each of these numbers. All commands arrive while no thread is free.
async fn all_at_once<C>(fixture: &Fixture, count: i64, bytes: usize, command: C) -> Vec<Result<()>>
where
    C: Fn(&mut dyn Tx, i64) -> Result<()> + Clone + Send + 'static,
{
    let (release, held_up) = hold_up(&fixture.store, THREADS).await;
    let commands = join_all((0..count).map(|number| {
        let command = command.clone();
        fixture.store.db.write_own(bytes, move |tx| command(tx, number))
    }));
    // The futures are polled in this order: all commands are sent before the threads are free.
    let (outcomes, _) = join(commands, join(async { drop(release) }, join_all(held_up))).await;
    outcomes
}

both! {
    async fn one_that_fails_does_not_take_those_with_it_that_share_its_transaction(fixture: &Fixture) {
        let commands = (0..200_i64).map(|number| fixture.store.db.write_own(0, move |tx| {
            add(tx, number, 0)?;
            if number % 7 == 0 { Err(Error::Conflict("on purpose")) } else { Ok(()) }
        }));
        for (number, outcome) in join_all(commands).await.into_iter().enumerate() {
            let expected = if number % 7 == 0 { Err(Error::Conflict("on purpose")) } else { Ok(()) };
            assert_eq!(outcome, expected);
        }
        assert_eq!(fixture.count(ADDED).await, 171);
    }

    async fn who_takes_locks_that_others_often_want_says_so(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let contended = || store.db.faults().contended();
        store.create_run(fixture.new_run(org)).await.unwrap();
        let plain = fixture.claim(node, 1).await.remove(0).fence;
        contended();
        store.start_run(plain, Vec::new()).await.unwrap();
        fixture.append(plain, vec![fixture.message("a")], Micros::ZERO).await.unwrap();
        assert!(!contended());

        let key = Some("once".to_owned());
        store.create_run(NewRun { idempotency_key: key, ..fixture.new_run(org) }).await.unwrap();
        assert!(!contended());
        fixture.claim(node, 1).await;

        let fence = fixture.running(org, node).await;
        let finish = fixture.with_artifacts(org, &[("a.txt", 1)]).await;
        contended();
        store.finish_run(fence, finish).await.unwrap();
        assert!(contended());

        let fence = fixture.running(org, node).await;
        contended();
        store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert!(!contended());

        fixture.budget(org, &BudgetScope::Organization, 100_000_000).await;
        contended();
        let fence = fixture.running(org, node).await;
        store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert!(!contended());
    }
}

/// Runs twenty commands in one group on `SQLite`, of which the eleventh fails: before it has written, or `late`. Returns
/// how many times commands were run.
async fn runs_of_twenty(fixture: &Fixture, late: bool) -> i64 {
    let (release, held_up) = hold_up(&fixture.store, 1).await;
    let runs = Arc::new(AtomicI64::new(0));
    let commands = join_all((0..20).map(|nth| {
        let (runs, number, fails) = (Arc::clone(&runs), fixture.number(), nth == 10);
        fixture.store.db.write_own(0, move |tx| {
            runs.fetch_add(1, Ordering::SeqCst);
            if late || !fails {
                add(tx, number, 0)?;
            }
            if fails { Err(Error::NotFound) } else { Ok(()) }
        })
    }));
    let (outcomes, _) = join(commands, join(async { drop(release) }, join_all(held_up))).await;
    for (nth, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.is_err(), nth == 10, "{nth}: {outcome:?}");
    }
    runs.load(Ordering::SeqCst)
}

sqlite! {
    async fn sqlite_runs_a_group_again_only_if_one_has_failed_after_it_had_written(fixture: &Fixture) {
        assert_eq!(runs_of_twenty(fixture, false).await, 20);
        assert_eq!(runs_of_twenty(fixture, true).await, 11 + 20);
        // A command that keeps failing late does not make further groups run twice: it runs in savepoints.
        assert_eq!(runs_of_twenty(fixture, true).await, 20);
        assert_eq!(fixture.count(ADDED).await, 3 * 19);

        let runs = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&runs);
        let alone = fixture.store.db.write_own(0, move |tx| {
            counted.fetch_add(1, Ordering::SeqCst);
            add(tx, 1_000, 0)?;
            Err::<(), _>(Error::NotFound)
        });
        assert_eq!(alone.await, Err(Error::NotFound));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(fixture.count(ADDED).await, 3 * 19);
    }

    async fn sqlite_counts_no_lone_command_as_a_group_with_savepoints(fixture: &Fixture) {
        assert_eq!(runs_of_twenty(fixture, true).await, 11 + 20);
        for number in 0..300 {
            fixture.store.db.write_own(0, move |tx| add(tx, 2_000 + number, 0)).await.unwrap();
        }
        assert_eq!(runs_of_twenty(fixture, true).await, 20);
    }
}

/// Runs twenty commands in one group without savepoints on `SQLite`, of which the eleventh is `fails`, as a command that may
/// `share` rows with others. Shows that each of the others is committed once, and that the failed one leaves no row.
async fn spoils_its_group(share: bool, fails: fn(&mut dyn Tx) -> Result<()>) {
    let fixture = Fixture::sqlite().await;
    let (db, runs) = (&fixture.store.db, Arc::new(AtomicI64::new(0)));
    db.faults().guard(0);
    let (release, held_up) = hold_up(&fixture.store, 1).await;
    let commands = join_all((0..20).map(|nth| {
        let runs = Arc::clone(&runs);
        let command = move |tx: &mut dyn Tx| {
            runs.fetch_add(1, Ordering::SeqCst);
            if nth == 10 {
                return fails(tx);
            }
            add(tx, nth, 0)?;
            tx.exec("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![])
                .map(drop)
        };
        if nth == 10 && share {
            db.write(command).boxed()
        } else {
            db.write_own(0, command).boxed()
        }
    }));
    let (outcomes, _) = join(commands, join(async { drop(release) }, join_all(held_up))).await;
    for (nth, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.is_err(), nth == 10, "{nth}: {outcome:?}");
    }
    // The first eleven have run without savepoints, and then all of them with one each.
    assert_eq!(runs.load(Ordering::SeqCst), 11 + 20);
    assert_eq!(fixture.count(ADDED).await, 19);
    assert_eq!(fixture.count("SELECT turn FROM dispatch WHERE id = 1").await, 19);
}

/// Number of the row that a failing command adds.
const LOST: i64 = 5_000;

#[tokio::test]
async fn sqlite_keeps_the_others_of_a_group_where_one_panics_after_it_had_written() {
    spoils_its_group(false, |tx| {
        add(tx, LOST, 0)?;
        panic!("on purpose");
    })
    .await;
}

#[tokio::test]
async fn sqlite_keeps_the_commands_before_one_that_may_share_rows_and_fails_late() {
    spoils_its_group(true, |tx| {
        add(tx, LOST, 0)?;
        Err(Error::NotFound)
    })
    .await;
}

#[tokio::test]
async fn sqlite_takes_a_statement_that_has_added_one_of_two_rows_for_a_late_failure() {
    spoils_its_group(false, |tx| {
        tx.exec(
            "INSERT OR FAIL INTO dispatch (id, turn, last_org) VALUES ($1, 0, ''), (1, 0, '')",
            vals![LOST],
        )
        .map(drop)
    })
    .await;
}

postgres! {
    async fn several_give_up_early_where_they_would_wait_for_a_lock(fixture: &Fixture) {
        let limits = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&limits);
        let outcomes = all_at_once(fixture, 64, 0, move |tx, number| {
            add(tx, number, 0)?;
            let row = tx.query_one("SELECT current_setting('lock_timeout')", vals![])?;
            seen.lock().push(row.text(0)?.to_owned());
            Ok(())
        })
        .await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let early = |limits: &[String]| limits.iter().filter(|limit| *limit == "50ms").count();
        assert!(early(&limits.lock()) > 32);
        // A setting of one transaction does not outlast it.
        let alone = fixture.store.db.write_own(0, |tx| {
            let row = tx.query_one("SELECT current_setting('lock_timeout')", vals![])?;
            row.text(0).map(str::to_owned)
        });
        assert_eq!(alone.await.unwrap(), "4s");
    }
}

/// Runs concurrent commands. The command number `blocked` has to wait for a lock; if it `contends`, it announces the lock.
async fn is_done_by_itself(blocked: i64, contends: bool) {
    let fixture = Fixture::postgres().await;
    let other = crate::Store::open(fixture.url()).await.unwrap();
    fixture.store.db.write(|tx| add(tx, -1, 0)).await.unwrap();
    let (reached, go_on) = other.db.faults().pause(1);
    let change = "UPDATE dispatch SET turn = turn + 1 WHERE id = 9";
    let holds = other.db.write(move |tx| {
        tx.batch(&[Stmt::new(change, vals![]), Stmt::new("SELECT 1", vals![])])
            .map(drop)
    });
    let (held, outcomes) = join(holds, async {
        reached.await.unwrap();
        let commands = all_at_once(&fixture, 32, 0, move |tx, number| {
            if number == blocked && contends {
                tx.contend();
            }
            add(tx, number, 0)?;
            if number == blocked {
                tx.exec(change, vals![]).map(drop)
            } else {
                Ok(())
            }
        });
        let release = async {
            // All other commands are done without the one that waits. That one has the lock timeout of a lone
            // command.
            while fixture.count(ADDED).await < 31 {
                tokio::task::yield_now().await;
            }
            go_on.send(()).unwrap();
        };
        join(commands, release).await.0
    })
    .await;
    held.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(fixture.count("SELECT turn FROM dispatch WHERE id = 9").await, 2);
}

#[tokio::test]
async fn one_that_cannot_have_a_lock_together_with_others_is_done_by_itself() {
    is_done_by_itself(20, false).await;
}

#[tokio::test]
async fn the_first_of_several_is_done_by_itself_too() {
    is_done_by_itself(0, false).await;
    is_done_by_itself(0, true).await;
}

postgres! {
    async fn commands_that_wait_share_a_transaction(fixture: &Fixture) {
        let outcomes = all_at_once(fixture, 64, 0, |tx, number| add(tx, number, 0)).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(fixture.count(ADDED).await, 64);
        let transactions = fixture.count(TRANSACTIONS).await;
        assert!(transactions <= 32, "{transactions}");
    }

    async fn large_commands_have_a_transaction_each(fixture: &Fixture) {
        let outcomes = all_at_once(fixture, 32, 600 << 10, |tx, number| add(tx, number, 0)).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(fixture.count(TRANSACTIONS).await, 32);
    }

    async fn one_that_takes_locks_of_others_is_the_last_of_its_transaction(fixture: &Fixture) {
        let outcomes = all_at_once(fixture, 64, 0, |tx, number| {
            let contends = number % 4 == 0;
            if contends {
                tx.contend();
            }
            // Jobs run in the order of their arrival.
            add(tx, number, i64::from(contends))
        })
        .await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let followed = "SELECT COUNT(*) FROM dispatch a JOIN dispatch b \
            ON CAST(a.xmin AS TEXT) = CAST(b.xmin AS TEXT) AND CAST(a.cmin AS TEXT)::bigint < CAST(b.cmin AS TEXT)::bigint \
            WHERE a.turn = 1 AND a.id >= 10 AND b.id >= 10";
        assert_eq!(fixture.count(followed).await, 0);
        let transactions = fixture.count(TRANSACTIONS).await;
        assert!((16..64).contains(&transactions), "{transactions}");
    }
}

#[tokio::test]
async fn a_connection_that_is_lost_among_several_loses_none_of_them() {
    static LOST: AtomicBool = AtomicBool::new(false);
    let fixture = Fixture::postgres().await;
    let outcomes = all_at_once(&fixture, 64, 0, |tx, number| {
        add(tx, number, 0)?;
        if number == 20 && !LOST.swap(true, Ordering::SeqCst) {
            tx.query_all(
                "SELECT CAST(pg_terminate_backend(pg_backend_pid()) AS TEXT)",
                vals![],
            )?;
        }
        Ok(())
    })
    .await;
    assert!(LOST.load(Ordering::SeqCst));
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(fixture.count(ADDED).await, 64);
}
