//! What the directory remembers of its queues' states, and which of them have changed since they were
//! asked.

use super::{read_entry, text, Directory};
use crate::overview::{Known, QueueState};
use crate::queue::{Flow, Sql, SqlError};

impl<S: Sql> Directory<'_, S> {
    /// A queue has done something since it was asked. Writes a row unless that is known.
    pub fn mark_changed(&self, queue_id: &str) -> Result<(), SqlError> {
        self.sql.execute(
            "INSERT INTO state (queue_id, changed, at_ms)
             SELECT queue_id, 1, 0 FROM queue WHERE queue_id = ?
             ON CONFLICT (queue_id) DO UPDATE SET changed = 1 WHERE changed = 0",
            vec![text(queue_id)],
        )
    }

    /// Queues to be asked, those first whose state is the oldest, at most `limit`. They count as
    /// unchanged from here on: what they do after their answer marks them again. Who can't be asked
    /// is to be marked again.
    pub fn take_changed(&self, limit: u64) -> Result<Vec<String>, SqlError> {
        let mut changed = Vec::new();
        self.sql.run(
            "SELECT queue_id FROM state WHERE changed = 1 ORDER BY at_ms LIMIT ?",
            vec![limit.into()],
            &mut |mut row| {
                changed.extend(row.take_text(0)?);
                Ok(Flow::More)
            },
        )?;
        if !changed.is_empty() {
            self.sql.execute(
                "UPDATE state SET changed = 0 WHERE queue_id IN (SELECT value FROM json_each(?))",
                vec![super::json(&changed)?],
            )?;
        }
        Ok(changed)
    }

    /// Remembers what queues answered at `now_ms`.
    pub fn remember(&self, answers: &[(String, QueueState)], now_ms: u64) -> Result<(), SqlError> {
        for (queue_id, state) in answers {
            self.sql.execute(
                "UPDATE state SET at_ms = ?, state = ? WHERE queue_id = ?",
                vec![now_ms.into(), super::json(state)?, text(queue_id)],
            )?;
        }
        Ok(())
    }

    /// Live queues in the order of their creation, with what is known of them.
    pub fn known(&self) -> Result<Vec<Known>, SqlError> {
        let mut known = Vec::new();
        self.sql.run(
            "SELECT queue.queue_id, name, version, created_ms, modified_ms, settings,
                consumer_id, consumer_created_ms, consumer, state.at_ms, state.state
             FROM queue LEFT JOIN state ON state.queue_id = queue.queue_id
             WHERE queue.state = 'live' ORDER BY seq",
            Vec::new(),
            &mut |mut row| {
                let at_ms = row.integer_or_zero(9)?;
                let state = match row.take_text(10)? {
                    Some(state) => super::parse(&state)?,
                    None => QueueState::default(),
                };
                known.push(Known {
                    at_ms,
                    state,
                    entry: read_entry(row)?,
                });
                Ok(Flow::More)
            },
        )?;
        Ok(known)
    }

    /// Forgets what was known of a queue that is gone.
    pub(super) fn forget_state(&self, queue_id: &str) -> Result<(), SqlError> {
        self.sql
            .execute("DELETE FROM state WHERE queue_id = ?", vec![text(queue_id)])
    }
}
