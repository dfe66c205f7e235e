//! Rules that hold after every command.

use sortie_testkit::rows;

use super::prelude::*;

impl Fixture {
    /// Checks the rules that hold after every command.
    pub(super) async fn check(&self) {
        for (rule, broken) in rows! {
            "nothing of the content of a run without retention is stored",
                "SELECT COUNT(*) FROM run r WHERE r.zero_data_retention = 1 AND (\
                EXISTS (SELECT 1 FROM event e WHERE e.run_id = r.id) \
                OR EXISTS (SELECT 1 FROM run_definition d WHERE d.run_id = r.id) \
                OR EXISTS (SELECT 1 FROM run_output o WHERE o.run_id = r.id) \
                OR EXISTS (SELECT 1 FROM run_secret s WHERE s.run_id = r.id) \
                OR EXISTS (SELECT 1 FROM journal j WHERE j.run_id = r.id))";
            "events are numbered from 1 without gaps, up to last_event",
                "SELECT COUNT(*) FROM run r WHERE (r.zero_data_retention = 0 AND r.last_event <> \
                (SELECT COUNT(*) FROM event e WHERE e.run_id = r.id AND e.seq BETWEEN 1 AND r.last_event)) \
                OR EXISTS (SELECT 1 FROM event e WHERE e.run_id = r.id AND e.seq > r.last_event)";
            "a run is in the queue exactly until it is settled, held by a node exactly while one works on it",
                "SELECT COUNT(*) FROM run r LEFT JOIN queue q ON q.run_id = r.id \
                WHERE (r.billing_pending = 1) <> (q.run_id IS NOT NULL) \
                OR (r.status = 'queued' AND COALESCE(q.node_id, -1) NOT IN (-1, -2)) \
                OR (q.node_id = -2 AND r.status <> 'queued') \
                OR (q.node_id = -1 AND r.zero_data_retention = 0) \
                OR (r.status IN ('starting', 'running', 'cancelled') AND r.billing_pending = 1 \
                AND q.node_id IS NULL)";
            "a final run has its outcome and its end, and is settled unless it was cancelled",
                "SELECT COUNT(*) FROM run r \
                WHERE (r.status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'interrupted')) \
                <> (r.outcome IS NOT NULL) \
                OR (r.outcome IS NOT NULL AND r.outcome <> r.status) \
                OR (r.outcome IS NULL) <> (r.finished_at IS NULL) \
                OR (r.outcome IS NULL AND r.billing_pending = 0) \
                OR (r.outcome <> 'cancelled' AND r.billing_pending = 1)";
            "a final run tells its end exactly once",
                "SELECT COUNT(*) FROM run r WHERE r.outcome IS NOT NULL AND r.zero_data_retention = 0 AND (\
                SELECT COUNT(*) FROM event e WHERE e.run_id = r.id AND e.kind = 'status' AND \
                (e.data LIKE '%\"succeeded\"%' OR e.data LIKE '%\"failed\"%' OR e.data LIKE '%\"cancelled\"%' \
                OR e.data LIKE '%\"timed_out\"%' OR e.data LIKE '%\"interrupted\"%')) <> 1";
            "nothing belongs to a run that is not there, and no run is without its definition",
                "SELECT (SELECT COUNT(*) FROM event e WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.id = e.run_id)) \
                + (SELECT COUNT(*) FROM run r WHERE r.zero_data_retention = 0 AND NOT EXISTS \
                (SELECT 1 FROM run_definition d WHERE d.run_id = r.id))";
            "a journal is numbered from 1 without gaps, and gone once its run is settled",
                "SELECT COUNT(*) FROM journal j \
                WHERE (SELECT r.billing_pending FROM run r WHERE r.id = j.run_id AND r.attempt > 0) <> 1 \
                OR (SELECT COUNT(*) FROM journal e WHERE e.run_id = j.run_id AND e.seq BETWEEN 1 AND j.seq) <> j.seq";
        } {
            assert_eq!(self.count(broken).await, 0, "{rule}");
        }
        self.check_budgets().await;
    }
}
