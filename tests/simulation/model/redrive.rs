//! A redrive, as the queue owes it: it walks once over what was there when it began, in the order of
//! delivery, and has move what nobody holds.

use super::{Checked, CopyNo, Model, State};
use crate::broken::ensure;
use pullq::queue::{RedriveState, RedriveStatus};
use std::collections::BTreeMap;

/// Messages, groups and bytes of one portion.
const MAX_PORTION: usize = 1_000;
const MAX_GROUPS: usize = 200;
const MAX_BYTES: u64 = 1_000_000;

#[derive(Debug)]
pub struct Redrive {
    status: RedriveStatus,
    redriven_before: u64,
    next_ms: u64,
    /// Chosen messages in the order of their places, and how many were looked at.
    chosen: Option<(Vec<CopyNo>, usize)>,
    /// Where the walk over all goes on: a group, and a message in it.
    at: (u32, CopyNo),
    /// The first group that was not there when it began.
    end_group: u32,
}

impl Model {
    pub fn is_redriving(&self) -> bool {
        let runs = |redrive: &Redrive| redrive.status.state == RedriveState::Running;
        self.redrive.as_ref().is_some_and(runs) || !self.redriven.is_empty()
    }

    pub fn redrive_status(&self) -> Option<RedriveStatus> {
        let redrive = self.redrive.as_ref()?;
        Some(RedriveStatus {
            moved: self.counters.redriven - redrive.redriven_before,
            ..redrive.status.clone()
        })
    }

    /// When the next portion is taken, while the one before is not on its way.
    pub fn next_portion_ms(&self) -> Option<u64> {
        let redrive = self.redrive.as_ref()?;
        let waits = redrive.status.state == RedriveState::Running && self.redriven.is_empty();
        waits.then_some(redrive.next_ms)
    }

    /// A redrive began, of all or of what `chosen` of `named` refs name.
    pub fn redrive_began(
        &mut self,
        now_ms: u64,
        chosen: Option<(Vec<CopyNo>, u64)>,
        destination: Option<String>,
        messages_per_second: Option<u32>,
    ) {
        let (chosen, skipped) = match chosen {
            None => (None, 0),
            Some((mut copies, named)) => {
                copies.sort_by_key(|&copy| self.place(copy));
                copies.dedup();
                let skipped = named - copies.len() as u64;
                (Some((copies, 0)), skipped)
            }
        };
        let to_move = match &chosen {
            Some((copies, _)) => copies.len() as u64,
            None => self.states(now_ms).0,
        };
        self.redrive = Some(Redrive {
            status: RedriveStatus {
                state: RedriveState::Running,
                destination,
                messages_per_second,
                to_move,
                moved: 0,
                skipped,
                started_ms: now_ms,
                ended_ms: None,
            },
            redriven_before: self.counters.redriven,
            next_ms: now_ms,
            chosen,
            at: (0, 0),
            end_group: self.groups.len() as u32,
        });
    }

    pub fn redrive_stopped(&mut self, now_ms: u64) {
        self.end_redrive(now_ms, RedriveState::Stopped);
    }

    fn end_redrive(&mut self, now_ms: u64, state: RedriveState) {
        if let Some(redrive) = &mut self.redrive {
            if redrive.status.state == RedriveState::Running {
                redrive.status.state = state;
                redrive.status.ended_ms = Some(now_ms);
            }
        }
    }

    /// An alarm's part of a redrive. True when messages began to move.
    pub fn redrive_on(&mut self, now_ms: u64) -> bool {
        if self.next_portion_ms().is_none_or(|at_ms| at_ms > now_ms) {
            return false;
        }
        let Some(mut redrive) = self.redrive.take() else {
            return false;
        };
        let rate = redrive.status.messages_per_second;
        let wanted = rate.map_or(MAX_PORTION, |rate| {
            (rate as usize / 5).clamp(1, MAX_PORTION)
        });
        let (looked_at, is_last) = match &mut redrive.chosen {
            Some((copies, seen)) => {
                let rest = &copies[*seen..];
                let mut bytes = 0;
                let fitting = rest.iter().take_while(|&&copy| {
                    let fits = bytes < MAX_BYTES;
                    bytes += self.messages[copy as usize].size;
                    fits
                });
                let looked_at: Vec<CopyNo> = fitting.take(wanted).copied().collect();
                *seen += looked_at.len();
                let is_last = looked_at.is_empty();
                (looked_at, is_last)
            }
            None => self.walk(&mut redrive, now_ms, wanted),
        };
        let mut moved: u64 = 0;
        for copy in looked_at {
            match self.way(&redrive, now_ms, copy) {
                Some(destination) => {
                    self.set_state(copy, State::Moving);
                    self.redriven.insert(copy, destination);
                    moved += 1;
                }
                None => redrive.status.skipped += 1,
            }
        }
        let pause_ms = rate.map_or(0, |rate| (moved * 1_000).div_ceil(u64::from(rate)));
        redrive.next_ms = now_ms + pause_ms;
        self.redrive = Some(redrive);
        if is_last && moved == 0 {
            self.end_redrive(now_ms, RedriveState::Completed);
        }
        moved > 0
    }

    /// Walks on until enough messages were found that can move. Returns what it passed and was not
    /// settled, and whether that was all.
    fn walk(&self, redrive: &mut Redrive, now_ms: u64, wanted: usize) -> (Vec<CopyNo>, bool) {
        let mut passed = Vec::new();
        let (mut found, mut visited) = (0, 0);
        let groups = self.undelayed_groups.range(redrive.at.0..redrive.end_group);
        for &group in groups {
            if visited == MAX_GROUPS || found == wanted {
                return (passed, false);
            }
            visited += 1;
            for &copy in &self.groups[group as usize].members {
                if (group, copy) < redrive.at {
                    continue;
                }
                if found == wanted {
                    redrive.at = (group, copy);
                    return (passed, false);
                }
                if !matches!(self.messages[copy as usize].state, State::Settled(_)) {
                    passed.push(copy);
                    found += usize::from(self.way(redrive, now_ms, copy).is_some());
                }
            }
            redrive.at = (group + 1, 0);
        }
        (passed, visited < MAX_GROUPS && found < wanted)
    }

    /// Where a message goes; `None` when it is somebody's, settled, or has nowhere to go.
    fn way(&self, redrive: &Redrive, now_ms: u64, copy: CopyNo) -> Option<String> {
        let message = &self.messages[copy as usize];
        match message.state {
            State::Waiting => {}
            State::Leased { until_ms } | State::GivenBack { until_ms } if until_ms <= now_ms => {}
            _ => return None,
        }
        redrive.status.destination.clone().or_else(|| {
            let died_in = &message.death.as_ref()?.queue_name;
            (*died_in != self.config.queue_name).then(|| died_in.clone())
        })
    }

    /// What orders messages as they are delivered first.
    fn place(&self, copy: CopyNo) -> (u64, CopyNo) {
        let message = &self.messages[copy as usize];
        match message.ready_ms > message.sent_ms {
            true => (message.ready_ms, copy),
            false => (0, copy),
        }
    }

    /// Messages that wait for a pull, are somebody's, and wait for a time.
    pub fn states(&self, now_ms: u64) -> (u64, u64, u64) {
        let (mut waiting, mut out, mut delayed) = (0, 0, 0);
        for copy in self.fresh.iter().chain(&self.moving) {
            match self.messages[*copy as usize].state {
                State::Moving => out += 1,
                _ => waiting += 1,
            }
        }
        for &(ready_ms, _) in &self.delayed {
            match ready_ms > now_ms {
                true => delayed += 1,
                false => waiting += 1,
            }
        }
        for &(_, copy) in &self.out {
            match self.messages[copy as usize].state {
                State::Leased { until_ms } if until_ms > now_ms => out += 1,
                State::GivenBack { until_ms } if until_ms > now_ms => delayed += 1,
                _ => waiting += 1,
            }
        }
        (waiting, out, delayed)
    }

    /// A move's messages all moved for one reason, and to where they should.
    pub fn goes_where_it_should(&self, copies: &[CopyNo], destination: &str) -> Checked {
        let ways: BTreeMap<Option<&String>, usize> =
            copies.iter().fold(BTreeMap::new(), |mut ways, copy| {
                *ways.entry(self.redriven.get(copy)).or_default() += 1;
                ways
            });
        let is_right = match ways.keys().next() {
            Some(Some(way)) => *way == destination,
            _ => true,
        };
        ensure!(
            ways.len() == 1 && is_right,
            "6: a message that is redriven goes where it should",
            "to {destination}: {ways:?}"
        );
        Ok(())
    }
}
