//! Time inside a queue: it follows the wall clock and never runs backwards (promise 7).

/// The queue's clock, in milliseconds since the Unix epoch.
///
/// Invariant: [`Clock::now_ms`] never falls. A wall clock that is ahead is followed at once. When
/// the wall clock falls back, the queue's clock runs on at half the pace until the wall clock has
/// caught up: leases still end, a little late, and the two meet again.
#[derive(Debug, Clone)]
pub struct Clock {
    now_ms: u64,
    wall_ms: u64,
    /// Wall time that passed while the clock was ahead and is not yet counted: 0 or 1 ms.
    uncounted_ms: u64,
}

impl Clock {
    /// A clock that was last seen at `last_ms` and starts at wall time `wall_ms`.
    pub fn resume(last_ms: u64, wall_ms: u64) -> Clock {
        Clock {
            now_ms: last_ms.max(wall_ms),
            wall_ms,
            uncounted_ms: 0,
        }
    }

    /// Moves the clock to wall time `wall_ms` and returns the queue's time.
    pub fn advance(&mut self, wall_ms: u64) -> u64 {
        let passed_ms = wall_ms.saturating_sub(self.wall_ms);
        self.wall_ms = wall_ms;
        if self.now_ms <= wall_ms {
            self.now_ms = wall_ms;
            self.uncounted_ms = 0;
        } else {
            let doubled = passed_ms.saturating_add(self.uncounted_ms);
            self.uncounted_ms = doubled % 2;
            self.now_ms = self.now_ms.saturating_add(doubled / 2).max(wall_ms);
        }
        self.now_ms
    }

    /// The queue's time at the last advance.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards_and_meets_the_wall_clock_again() {
        let mut clock = Clock::resume(0, 1_000);
        assert_eq!(clock.advance(1_500), 1_500);
        assert_eq!(clock.advance(200), 1_500);
        assert_eq!(clock.advance(301), 1_550);
        assert_eq!(clock.advance(302), 1_551);
        assert_eq!(clock.advance(1_000), 1_900);
        assert_eq!(clock.advance(5_000), 5_000);
    }

    #[test]
    fn a_restart_with_an_earlier_wall_clock_does_not_turn_time_back() {
        let mut clock = Clock::resume(10_000, 4_000);
        assert_eq!(clock.now_ms(), 10_000);
        assert_eq!(clock.advance(4_500), 10_250);
    }
}
