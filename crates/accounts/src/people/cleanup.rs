//! Clean-up: deletes ended sessions, one-time tokens and old attempts, in batches each hour.
//!
//! Every node runs it, and concurrent runs share the work. A failed unit does not block the others.

use std::time::Duration;

use sortie_store::people::PARTS;
use tokio::time::MissedTickBehavior;

use crate::{Accounts, attempts::DAY};

/// Time between two passes.
const INTERVAL: Duration = Duration::from_hours(1);

/// Maximum number of rows that one transaction deletes.
const BATCH: u32 = 1_000;

impl Accounts {
    /// Deletes expired rows now and every hour, until the future is dropped.
    pub async fn keep_clean(&self) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if self.0.options.clock.fault().is_none() {
                self.clean().await;
            }
        }
    }

    /// Deletes expired rows.
    pub(crate) async fn clean(&self) {
        let (store, now) = (&self.0.store, self.0.options.clock.now());
        // The longest window of attempts is a day, and a part of a window counts for a day after its end.
        let counted = i64::try_from((DAY + DAY / PARTS).as_micros()).unwrap_or(i64::MAX);
        let before = sortie_api::Timestamp::from_micros(now.as_micros().saturating_sub(counted));
        delete("sessions", || store.delete_ended_sessions(now, BATCH)).await;
        delete("one-time tokens", || store.delete_ended_one_times(now, BATCH)).await;
        delete("invitations", || store.delete_ended_invitations(now, BATCH)).await;
        delete("codes, tokens and grants", || {
            store.delete_ended_oauth(now, BATCH)
        })
        .await;
        delete("attempts", || store.delete_old_attempts(before, BATCH)).await;
    }
}

/// Deletes the rows of a unit, batch by batch.
async fn delete<F: Future<Output = sortie_store::Result<u64>>>(unit: &'static str, batch: impl Fn() -> F) {
    let mut deleted = 0_u64;
    loop {
        match batch().await {
            Ok(rows) => {
                deleted = deleted.saturating_add(rows);
                if rows < u64::from(BATCH) {
                    break;
                }
            }
            Err(error) => {
                tracing::warn!(unit, %error, "deleting ended rows of accounts failed");
                return;
            }
        }
    }
    if deleted > 0 {
        tracing::debug!(unit, rows = deleted, "deleted ended rows of accounts");
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::Role;
    use sortie_store::{
        access::{Actor, Caller},
        people::{NewOneTime, OneTimeMail, Purpose},
    };

    use super::*;
    use crate::rig::Rig;

    /// Tables with rows that expire.
    const TABLES: [&str; 4] = ["session", "one_time", "invitation", "attempt"];

    /// Accounts with an expired row in each table.
    async fn with_ended_rows() -> Rig {
        let rig = Rig::new().await;
        let (user, _) = rig.signed_in("ann").await;
        let actor = Actor::default();
        let created = rig.accounts.create_organization((user, &actor), "Ours").await;
        let org = created.unwrap().id;
        let caller = Caller { org, actor };
        rig.accounts
            .invite((&caller, user), Role::Member, "bob@example.com")
            .await
            .unwrap();
        let token = NewOneTime {
            hash: [1; 32],
            purpose: Purpose::ResetPassword,
            user,
            expires_at: rig.clock.now(),
        };
        let token = OneTimeMail { token, mail: None };
        rig.accounts.store().keep_one_time(token).await.unwrap();
        rig.pass(Duration::from_hours(60 * 24));
        rig
    }

    /// Returns the tables that have rows.
    fn filled(rig: &Rig) -> Vec<&'static str> {
        let database = rig.database();
        let has_rows = |table: &&str| {
            let count = format!("SELECT COUNT(*) FROM {table}");
            database
                .query_one(&count, (), |row| row.get::<_, i64>(0))
                .unwrap()
                > 0
        };
        TABLES.into_iter().filter(has_rows).collect()
    }

    #[tokio::test]
    async fn a_unit_that_fails_does_not_keep_the_others_from_theirs() {
        for broken in TABLES {
            let rig = with_ended_rows().await;
            assert_eq!(filled(&rig), TABLES);
            let trigger = format!(
                "CREATE TRIGGER broken BEFORE DELETE ON {broken} BEGIN SELECT RAISE(ABORT, 'broken'); END"
            );
            rig.database().execute_batch(&trigger).unwrap();
            rig.accounts.clean().await;
            assert_eq!(filled(&rig), [broken]);
            rig.database().execute_batch("DROP TRIGGER broken").unwrap();
            rig.accounts.clean().await;
            assert_eq!(filled(&rig), [""; 0]);
        }
    }
}
