//! When a queue's object tells the directory that it has done something: once, until it is asked.

use std::cell::Cell;

/// Told again after this, lest a directory that failed in between never hears of it.
const AGAIN_MS: u64 = 60_000;

/// What the directory knows.
#[derive(Default)]
pub struct Report {
    /// The queue's writes when the object woke, or was asked or told since; `None` before.
    known_writes: Cell<Option<u64>>,
    /// When it was told, by the wall clock; `None` when it has asked since.
    told_ms: Cell<Option<u64>>,
}

impl Report {
    /// The object woke: what was written before, it told then.
    pub fn woke(&self, writes: u64) {
        if self.known_writes.get().is_none() {
            self.known_writes.set(Some(writes));
        }
    }

    /// Whether the directory is to be told, of a queue that has written `writes` times. `by_time`:
    /// time alone may have changed its state.
    pub fn is_due(&self, writes: u64, by_time: bool, now_ms: u64) -> bool {
        if self.known_writes.get() == Some(writes) && !by_time {
            return false;
        }
        let lately = |told_ms: u64| now_ms.saturating_sub(told_ms) < AGAIN_MS;
        if self.told_ms.get().is_some_and(lately) {
            return false;
        }
        // Others that come meanwhile need not tell it too.
        self.told_ms.set(Some(now_ms));
        true
    }

    /// The directory has heard.
    pub fn was_told(&self, writes: u64, now_ms: u64) {
        self.known_writes.set(Some(writes));
        self.told_ms.set(Some(now_ms));
    }

    /// The directory has asked, and hears how the queue stands.
    pub fn was_asked(&self, writes: u64) {
        self.known_writes.set(Some(writes));
        self.told_ms.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_hears_of_a_change_once_until_it_asks() {
        let report = Report::default();
        report.woke(7);
        assert!(!report.is_due(7, false, 1_000), "nothing was done");
        assert!(report.is_due(8, false, 1_000));
        assert!(!report.is_due(9, false, 1_001), "it is being told");
        report.was_told(8, 1_002);
        assert!(!report.is_due(9, true, 1_003), "it knows");
        report.was_asked(9);
        assert!(!report.is_due(9, false, 1_004), "nothing since");
        assert!(report.is_due(9, true, 1_004), "time has done something");
        report.was_told(9, 1_005);
        assert!(
            report.is_due(10, false, 1_005 + AGAIN_MS),
            "it may not have heard"
        );
    }
}
