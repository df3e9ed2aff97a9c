//! The alarm, and moves to other queues, dead letters' and redrives': each half by itself, repeated,
//! late or never.

use super::{name_of, Checked, World};
use crate::broken::Broken;
use crate::checks;
use crate::model::{CopyNo, Draft};
use crate::queue::{RedriveError, RedriveRequest, Transfer};

const MOVES_KEPT: usize = 12;

/// A move on its way between two queues.
pub struct Move {
    source: usize,
    source_id: String,
    transfer: Transfer,
    drafts: Vec<Draft>,
    /// The receiver said that it has the messages.
    arrived: bool,
}

impl World {
    // ---- the alarm, and moves to dead-letter queues

    pub(super) fn tick(&mut self, host: usize) -> Checked {
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| queue.tick(sql, wall_ms))?;
        if done.is_some() {
            let host = &mut self.hosts[host];
            if host.model.sweep(host.now_ms) {
                host.wrote();
                self.line.push_str(" swept");
            }
            host.model.forget_keys(host.now_ms);
            if host.model.redrive_on(host.now_ms) {
                host.wrote();
                self.line.push_str(" redriving");
            }
            checks::nothing_is_due(host)?;
            if self.figures.operations.is_multiple_of(16) {
                checks::tidy(host)?;
            }
        }
        Ok(())
    }

    /// Begins a redrive, or stops the one that runs.
    pub(super) fn redrive(&mut self, host: usize) -> Checked {
        if self.hosts[host].model.is_redriving() && self.rng.chance(300) {
            let done = self
                .operate_unrefused(host, |queue, sql, wall_ms| queue.stop_redrive(sql, wall_ms))?;
            if done.is_some() {
                let host = &mut self.hosts[host];
                host.model.redrive_stopped(host.now_ms);
                self.line.push_str(" stopped");
            }
            return checks::metrics(&mut self.hosts[host]);
        }
        let (refs, chosen) = match self.rng.chance(400) {
            true => {
                let presented = self.some_refs(host);
                let copies: Vec<CopyNo> = presented.iter().filter_map(|one| one.says).collect();
                let named = presented.len() as u64;
                let texts = presented.into_iter().map(|one| one.text).collect();
                (Some(texts), Some((copies, named)))
            }
            false => (None, None),
        };
        let to = self.rng.index(self.hosts.len());
        let request = RedriveRequest {
            destination: self.rng.chance(400).then(|| name_of(to)),
            messages_per_second: self.rng.pick(&[None, None, Some(1), Some(20), Some(2_000)]),
            refs,
        };
        let (destination, rate) = (request.destination.clone(), request.messages_per_second);
        self.line.push_str(&format!(
            " to {destination:?} at {rate:?}, {:?} refs",
            request.refs.as_ref().map(Vec::len)
        ));
        let done = self.operate(host, |queue, sql, wall_ms| {
            queue.start_redrive(sql, wall_ms, request)
        })?;
        let own = destination.as_ref() == Some(&name_of(host));
        let host = &mut self.hosts[host];
        let refusal = match (host.model.is_redriving(), own) {
            (true, _) => Some(RedriveError::Running),
            (_, true) => Some(RedriveError::OwnDestination),
            _ => None,
        };
        match done {
            None => Ok(()),
            Some((Err(error), _)) if Some(&error) == refusal.as_ref() => Ok(()),
            Some((Ok(_), _)) if refusal.is_none() => {
                host.model
                    .redrive_began(host.now_ms, chosen, destination, rate);
                checks::metrics(host)
            }
            Some((result, _)) => Err(Broken::new(
                "6: a queue has one redrive at a time, to another queue",
                format!("{result:?} instead of {refusal:?}"),
            )),
        }
    }

    /// Both halves of moves one after the other, as they go when nothing goes wrong in between.
    pub(super) fn ferry(&mut self, host: usize) -> Checked {
        for _ in 0..self.rng.within(1, 3) {
            let Some(place) = self.hand_out(host)? else {
                return Ok(());
            };
            self.receive(place)?;
            self.wake(host)?;
            self.transferred(place)?;
            self.wake(host)?;
        }
        Ok(())
    }

    /// Takes the next move from its sender. Returns its place among the moves.
    pub(super) fn hand_out(&mut self, source: usize) -> Result<Option<usize>, Broken> {
        let done = self.operate_unrefused(source, |queue, sql, _| queue.next_transfer(sql))?;
        let Some((transfer, answered)) = done else {
            return Ok(None);
        };
        let host = &mut self.hosts[source];
        host.model.handed_out(transfer.as_ref())?;
        let (Some(transfer), true) = (transfer, answered) else {
            return Ok(None);
        };
        self.line.push_str(&format!(
            " move {} of {} to {}",
            transfer.number,
            transfer.messages.len(),
            transfer.destination
        ));
        let drafts = transfer
            .messages
            .iter()
            .filter_map(|message| host.model.draft_of(&message.id))
            .collect();
        if self.moves.len() == MOVES_KEPT {
            let place = self.rng.index(self.moves.len());
            self.moves.swap_remove(place);
        }
        self.moves.push(Move {
            source,
            source_id: host.id.clone(),
            transfer,
            drafts,
            arrived: false,
        });
        Ok(Some(self.moves.len() - 1))
    }

    pub(super) fn receive(&mut self, place: usize) -> Checked {
        let (transfer, source_id) = {
            let one = &self.moves[place];
            (one.transfer.clone(), one.source_id.clone())
        };
        let Some(to) = (0..self.hosts.len()).find(|&host| name_of(host) == transfer.destination)
        else {
            return Err(Broken::new(
                "6: a dead letter goes to its queue",
                format!("{} is no queue", transfer.destination),
            ));
        };
        if self.hosts[to].model.has_already(&source_id, &transfer) {
            return Ok(());
        }
        self.wake(to)?;
        self.line.push_str(&format!(
            " move {} of {source_id} -> q{to}",
            transfer.number
        ));
        let done = self.operate_unrefused(to, |queue, sql, wall_ms| {
            queue.receive(
                sql,
                wall_ms,
                &source_id,
                transfer.number,
                &transfer.messages,
            )
        })?;
        if let Some((new, answered)) = done {
            let one = &mut self.moves[place];
            one.arrived |= answered;
            let source = &self.hosts[one.source];
            let pending = source.id == one.source_id && source.model.has_move(transfer.number);
            let now_ms = self.hosts[to].now_ms;
            self.hosts[to].model.received(
                now_ms,
                &source_id,
                &transfer,
                &one.drafts,
                pending,
                new,
            )?;
            if new {
                self.hosts[to].wrote();
            }
            self.line.push_str(if new { " new" } else { " repeated" });
        }
        checks::at_a_glance(&mut self.hosts[to])
    }

    pub(super) fn transferred(&mut self, place: usize) -> Checked {
        let one = &self.moves[place];
        let (source, number) = (one.source, one.transfer.number);
        if !one.arrived || self.hosts[source].id != one.source_id {
            return Ok(());
        }
        self.wake(source)?;
        self.line
            .push_str(&format!(" q{source} move {number} is over"));
        let done = self.operate_unrefused(source, |queue, sql, wall_ms| {
            queue.transferred(sql, wall_ms, number)
        })?;
        if done.is_some() {
            let host = &mut self.hosts[source];
            if host.model.transferred(number) {
                host.wrote();
            }
        }
        checks::at_a_glance(&mut self.hosts[source])
    }
}
