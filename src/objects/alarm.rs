//! An object's one alarm, moved only when the new time is earlier: a move costs a written row.

use std::cell::Cell;
use worker::{Date, Result, Storage};

/// An alarm handler first arms the alarm again at this distance, whatever becomes of it.
const FALLBACK_MS: u64 = 60_000;
/// `setAlarm` for right now can stall inside an alarm handler (workerd#6866).
const SOONEST_MS: u64 = 1;

/// What is known of the alarm, by the wall clock.
pub struct Alarm {
    /// `None`: not looked up since the object woke. `Some(None)`: not armed.
    at_ms: Cell<Option<Option<u64>>>,
    /// How often the alarm was armed since the object woke; each time is billed as a written row.
    armed: Cell<u64>,
}

impl Alarm {
    pub fn new() -> Alarm {
        Alarm {
            at_ms: Cell::new(None),
            armed: Cell::new(0),
        }
    }

    pub fn times_armed(&self) -> u64 {
        self.armed.get()
    }

    /// Looks the alarm up where that wasn't done since the object woke.
    pub async fn look_up(&self, storage: &Storage) -> Result<()> {
        if self.at_ms.get().is_none() {
            let at_ms = storage.get_alarm().await?;
            self.at_ms
                .set(Some(at_ms.and_then(|ms| u64::try_from(ms).ok())));
        }
        Ok(())
    }

    /// Sees to it that the alarm fires in `in_ms` at the latest.
    pub async fn at_latest_in(&self, storage: &Storage, in_ms: u64) -> Result<()> {
        let at_ms = Date::now().as_millis().saturating_add(in_ms);
        match self.at_ms.get() {
            Some(Some(armed_ms)) if armed_ms <= at_ms => Ok(()),
            _ => self.arm(storage, in_ms).await,
        }
    }

    /// The first thing an alarm handler does: from here on the chain of alarms can't break.
    pub async fn fired(&self, storage: &Storage) -> Result<()> {
        self.arm(storage, FALLBACK_MS).await
    }

    /// The last thing an alarm handler does: the alarm fires next in `in_ms`, or not at all.
    pub async fn next(&self, storage: &Storage, in_ms: Option<u64>) -> Result<()> {
        match in_ms {
            Some(in_ms) => self.arm(storage, in_ms).await,
            None => {
                self.at_ms.set(Some(None));
                storage.delete_alarm().await
            }
        }
    }

    async fn arm(&self, storage: &Storage, in_ms: u64) -> Result<()> {
        let in_ms = in_ms.max(SOONEST_MS);
        self.armed.set(self.armed.get().saturating_add(1));
        self.at_ms
            .set(Some(Some(Date::now().as_millis().saturating_add(in_ms))));
        // The crate takes a number as a distance from now, in milliseconds.
        storage
            .set_alarm(i64::try_from(in_ms).unwrap_or(i64::MAX))
            .await
    }
}
