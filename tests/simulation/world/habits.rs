//! What a seed does often, seldom or never.

use super::HOUR_MS;
use crate::rng::Rng;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Send,
    SendBatch,
    Pull,
    Settle,
    Extend,
    Peek,
    Tick,
    Purge,
    PurgeRefs,
    Configure,
    Ferry,
    HandOut,
    Receive,
    Transferred,
    Restart,
    MakeAnew,
    Drain,
    TakeBack,
    SendTogether,
    Redrive,
}

/// Each operation with the highest weight that a seed may give it.
pub const OPS: [(Op, u64); 20] = [
    (Op::Send, 200),
    (Op::SendBatch, 100),
    (Op::Pull, 250),
    (Op::Settle, 250),
    (Op::Extend, 60),
    (Op::Peek, 40),
    (Op::Tick, 100),
    (Op::Purge, 3),
    (Op::PurgeRefs, 30),
    (Op::Configure, 25),
    (Op::Ferry, 40),
    (Op::HandOut, 20),
    (Op::Receive, 30),
    (Op::Transferred, 20),
    (Op::Restart, 20),
    (Op::MakeAnew, 1),
    (Op::Drain, 4),
    (Op::TakeBack, 30),
    (Op::SendTogether, 60),
    (Op::Redrive, 60),
];

pub struct Habits {
    pub weights: [u64; OPS.len()],
    pub batch: u64,
    pub backlog: usize,
    /// In 1,000 operations.
    pub statement_fails: u64,
    pub crash: u64,
    /// How often the wall clock is set back, and by how much at most.
    pub set_back: u64,
    /// The longest ordinary pause between two operations.
    pub stride_ms: u64,
    /// In 1,000 pauses.
    pub long_pause: u64,
    /// In 1,000 sends, as long as the history is young: they take time.
    pub fat: u64,
    pub delayed: u64,
    pub keys: u64,
    /// Of 1,000 settled leases.
    pub retried: u64,
    pub dishonest: u64,
    /// How often a due alarm fires before the next operation.
    pub alarm: u64,
    /// Times that leases run.
    pub timeouts_ms: Vec<u64>,
}

impl Habits {
    pub fn of(rng: &mut Rng) -> Habits {
        let mut weights = OPS.map(|(_, most)| match rng.below(4) {
            0 => 0,
            1 => rng.below(most + 1) / 8,
            _ => rng.below(most + 1),
        });
        // Without these nothing happens.
        weights[0] += 20;
        weights[2] += 60;
        weights[3] += 60;
        let timeouts = [1, 10, 200, 1_000, 5_000, 30_000, 12 * HOUR_MS];
        let longest = rng.within(2, timeouts.len() as u64) as usize;
        let fat = rng.chance(60);
        Habits {
            weights,
            batch: if fat {
                100
            } else {
                rng.pick(&[1, 3, 10, 30, 100])
            },
            backlog: rng.pick(&[10, 60, 60, 300, 300, 1_500]),
            statement_fails: rng.pick(&[0, 10, 50, 150]),
            crash: rng.pick(&[0, 5, 20, 60]),
            set_back: rng.pick(&[0, 0, 1, 10]),
            stride_ms: rng.pick(&[100, 1_000, 10_000, 60_000]),
            long_pause: rng.pick(&[0, 0, 2, 10]),
            fat: if fat { 150 } else { 0 },
            delayed: rng.pick(&[0, 50, 300, 800]),
            keys: rng.pick(&[0, 50, 300]),
            retried: rng.pick(&[50, 300, 600]),
            dishonest: rng.pick(&[20, 100, 300]),
            alarm: rng.pick(&[0, 100, 900]),
            timeouts_ms: timeouts[..longest].to_vec(),
        }
    }
}
