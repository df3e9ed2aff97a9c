//! Acknowledging, retrying, extending, taking back, purging: what changes, and what is warned of.

use super::{Checked, CopyNo, End, Leased, Model, Presented, State};
use crate::broken::{ensure, Broken};
use pullq::queue::Settlement;
use std::collections::{BTreeMap, BTreeSet};

/// From the delivery, extensions included.
const MAX_LEASE_MS: u64 = 43_200_000;

impl Model {
    // ---- settling

    pub fn settled(
        &mut self,
        now_ms: u64,
        acks: &[Presented<Leased>],
        retries: &[(Presented<Leased>, Option<u32>)],
        answer: &Settlement,
    ) -> Result<bool, Broken> {
        let mut right = Right::default();
        let mut acked = BTreeSet::new();
        let mut wrote = false;
        for ack in acks {
            let Some(leased) = ack.says else {
                right.warned.push(&ack.text);
                continue;
            };
            right.acknowledged += 1;
            acked.insert(leased.copy);
            if self.can_be_acknowledged(leased.copy) {
                self.settle(leased.copy, End::Acknowledged);
                wrote = true;
            }
        }
        let default_delay_s = self.config.consumer.as_ref().map_or(0, |c| c.retry_delay_s);
        let mut given_back = BTreeMap::new();
        for (retry, delay_s) in retries {
            let late = |leased: &Leased| acked.contains(&leased.copy) || !self.runs(now_ms, leased);
            let Some(leased) = retry.says.filter(|leased| !late(leased)) else {
                right.warned.push(&retry.text);
                continue;
            };
            right.retried += 1;
            given_back.entry(leased.copy).or_insert(*delay_s);
        }
        for (copy, delay_s) in given_back {
            wrote = true;
            self.counters.retried += 1;
            if self.is_used_up(copy) {
                self.give_up(copy);
            } else {
                let delay_s = delay_s.unwrap_or(default_delay_s);
                let until_ms = now_ms + u64::from(delay_s) * 1_000;
                self.set_state(copy, State::GivenBack { until_ms });
            }
        }
        right.check(answer)?;
        Ok(wrote)
    }

    pub fn extended(
        &mut self,
        now_ms: u64,
        extensions: &[(Presented<Leased>, u64)],
        answer: &Settlement,
    ) -> Result<bool, Broken> {
        let mut right = Right::default();
        for (lease, visibility_timeout_ms) in extensions {
            let until_ms = now_ms + visibility_timeout_ms;
            let may = |leased: &Leased| {
                self.runs(now_ms, leased) && until_ms <= leased.leased_ms + MAX_LEASE_MS
            };
            let Some(leased) = lease.says.filter(may) else {
                right.warned.push(&lease.text);
                continue;
            };
            right.extended += 1;
            self.set_state(leased.copy, State::Leased { until_ms });
        }
        right.check(answer)?;
        Ok(right.extended > 0)
    }

    /// The lease still runs, and it is this one.
    fn runs(&self, now_ms: u64, leased: &Leased) -> bool {
        let message = &self.messages[leased.copy as usize];
        message.delivery == leased.delivery
            && matches!(message.state, State::Leased { until_ms } if until_ms > now_ms)
    }

    /// What has begun to move is the other queue's.
    fn can_be_acknowledged(&self, copy: CopyNo) -> bool {
        matches!(
            self.messages[copy as usize].state,
            State::Leased { .. } | State::GivenBack { .. }
        )
    }

    /// A delivery never reached its consumer: it doesn't count. Returns whether anything changed.
    pub fn taken_back(&mut self, now_ms: u64, leases: &[Presented<Leased>]) -> bool {
        let mut changed = false;
        for leased in leases.iter().filter_map(|lease| lease.says) {
            if self.runs(now_ms, &leased) {
                changed = true;
                self.messages[leased.copy as usize].deliveries -= 1;
                self.counters.delivered -= 1;
                self.set_state(leased.copy, State::GivenBack { until_ms: now_ms });
            }
        }
        changed
    }

    /// All that nobody has is acknowledged.
    pub fn drained(&mut self, now_ms: u64, answer: u64) -> Checked {
        self.sweep(now_ms);
        let before = self.counters.acknowledged;
        let given_back = |&&(until_ms, copy): &&(u64, CopyNo)| {
            until_ms <= now_ms
                || matches!(self.messages[copy as usize].state, State::GivenBack { .. })
        };
        let mut copies: Vec<CopyNo> = self.fresh.iter().copied().collect();
        copies.extend(self.delayed.iter().map(|&(_, copy)| copy));
        copies.extend(self.out.iter().filter(given_back).map(|&(_, copy)| copy));
        for copy in copies {
            self.settle(copy, End::Acknowledged);
        }
        let drained = self.counters.acknowledged - before;
        ensure!(
            drained == answer,
            "5: all that nobody has is acknowledged",
            "{drained} messages were, the answer says {answer}"
        );
        Ok(())
    }

    // ---- purging

    pub fn purged(&mut self, now_ms: u64, answer: u64) -> Checked {
        self.purged_ms = Some(now_ms);
        let live: Vec<u32> = self
            .live_by_readiness
            .iter()
            .map(|&(_, group)| group)
            .collect();
        let before = self.counters.purged;
        for group in live {
            for copy in self.groups[group as usize].members.clone() {
                self.settle(copy, End::Purged);
            }
        }
        self.moves.clear();
        let purged = self.counters.purged - before;
        ensure!(
            purged == answer,
            "11: a purge removes what was there",
            "{purged} messages were there, {answer} were purged"
        );
        Ok(())
    }

    pub fn refs_purged(
        &mut self,
        refs: &[Presented<CopyNo>],
        purged: u64,
        warnings: &[(String, String)],
    ) -> Result<bool, Broken> {
        let mut right_warned = BTreeSet::new();
        let mut here = BTreeSet::new();
        for presented in refs {
            match presented.says {
                Some(copy) if self.is_here(copy) => {
                    here.insert(copy);
                }
                _ => {
                    right_warned.insert(presented.text.as_str());
                }
            }
        }
        for &copy in &here {
            self.settle(copy, End::Purged);
        }
        let warned: BTreeSet<&str> = warnings.iter().map(|(text, _)| text.as_str()).collect();
        ensure!(
            purged == here.len() as u64 && warned == right_warned,
            "11: a purge by ref removes what its refs name",
            "{} messages were there, {purged} were purged; {} refs name nothing, {} were warned of",
            here.len(),
            right_warned.len(),
            warned.len()
        );
        Ok(!here.is_empty())
    }

    pub(super) fn is_here(&self, copy: CopyNo) -> bool {
        !matches!(
            self.messages[copy as usize].state,
            State::Moving | State::Settled(_)
        )
    }
}

/// The right answer to lease ids.
#[derive(Default)]
struct Right<'a> {
    acknowledged: u64,
    retried: u64,
    extended: u64,
    warned: Vec<&'a str>,
}

impl Right<'_> {
    fn check(&self, answer: &Settlement) -> Checked {
        let warned: Vec<&str> = answer
            .warnings
            .iter()
            .map(|(text, _)| text.as_str())
            .collect();
        ensure!(
            (self.acknowledged, self.retried, self.extended)
                == (answer.acknowledged, answer.retried, answer.extended)
                && self.warned == warned,
            "5: a lease id is accepted or warned of",
            "{} acknowledged, {} retried, {} extended, {} warned of; answered was {}, {}, {}, {}",
            self.acknowledged,
            self.retried,
            self.extended,
            self.warned.len(),
            answer.acknowledged,
            answer.retried,
            answer.extended,
            warned.len()
        );
        Ok(())
    }
}
