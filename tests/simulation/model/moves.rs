//! Moves to another queue, as their sender and as their receiver sees them.

use super::{Checked, Draft, End, Model};
use crate::broken::{ensure, Broken};
use pullq::queue::{Death, Transfer};
use std::collections::BTreeMap;

const MAX_MOVE_MESSAGES: usize = 100;

impl Model {
    // ---- moving to the dead-letter queue

    /// A move is handed out to be carried to the other queue.
    pub fn handed_out(&mut self, transfer: Option<&Transfer>) -> Checked {
        let Some(transfer) = transfer else {
            ensure!(
                self.moving.is_empty(),
                "6: dead letters are moved",
                "{} messages wait to be moved, and no move is offered",
                self.moving.len()
            );
            return Ok(());
        };
        let number = transfer.number;
        let mut copies = Vec::with_capacity(transfer.messages.len());
        for message in &transfer.messages {
            let candidates = self.moving.iter().copied();
            let copy = candidates
                .clone()
                .find(|&copy| self.messages[copy as usize].id == message.id);
            let Some(copy) = copy else {
                return Err(Broken::new(
                    "6: only what is used up is dead-lettered",
                    format!("move {number} brings {:02x?}", message.id),
                ));
            };
            let known = &self.messages[copy as usize];
            let first_sent_ms = known
                .death
                .as_ref()
                .map_or(known.sent_ms, |d| d.first_sent_ms);
            // What is redriven begins anew.
            let death = (!self.redriven.contains_key(&copy)).then(|| Death {
                queue_name: self.config.queue_name.clone(),
                first_sent_ms,
                attempts: known.deliveries,
            });
            known.is_whole(
                copy,
                &message.content,
                message.form,
                known.sent_ms,
                &known.death,
            )?;
            ensure!(
                message.death == death && message.size == known.size,
                "6: a dead letter says how it died",
                "#{copy}: {:?}, {} bytes instead of {death:?}, {} bytes",
                message.death,
                message.size,
                known.size
            );
            copies.push(copy);
        }
        self.goes_where_it_should(&copies, &transfer.destination)?;
        ensure!(
            !copies.is_empty() && copies.len() <= MAX_MOVE_MESSAGES,
            "13: a move's size is bounded",
            "move {number} has {} messages",
            copies.len()
        );
        match self.moves.get(&number) {
            Some(before) => ensure!(
                *before == copies,
                "6: a repeated move is the same",
                "move {number} had {before:?} and has {copies:?}"
            ),
            None => {
                ensure!(
                    number > self.latest_move && self.moves.is_empty(),
                    "6: one move after the other",
                    "move {number} after {}, with {} open",
                    self.latest_move,
                    self.moves.len()
                );
                self.latest_move = number;
                self.moves.insert(number, copies);
            }
        }
        Ok(())
    }

    /// A move that is new here brings a message that is here already. Only a queue that was made
    /// anew can see that: it doesn't know what its predecessor had got.
    pub fn has_already(&self, source: &str, transfer: &Transfer) -> bool {
        let known = |number| {
            self.arrivals
                .get(source)
                .is_some_and(|n| n.contains(number))
        };
        let mut copies = transfer
            .messages
            .iter()
            .filter_map(|message| self.by_id.get(&message.id));
        !known(&transfer.number) && copies.any(|&copy| self.is_here(copy))
    }

    /// A move arrived here. `pending`: its sender still waits for it.
    pub fn received(
        &mut self,
        now_ms: u64,
        source: &str,
        transfer: &Transfer,
        drafts: &[Draft],
        pending: bool,
        new: bool,
    ) -> Checked {
        let numbers = self.arrivals.entry(source.to_owned()).or_default();
        let repeated = numbers.contains(&transfer.number);
        let overtaken = numbers.last().is_some_and(|&last| last > transfer.number);
        ensure!(
            !(repeated && new),
            "6: a dead letter arrives once",
            "move {} of {source} was stored again",
            transfer.number
        );
        ensure!(
            repeated || new || (overtaken && !pending),
            "6: a dead letter arrives",
            "move {} of {source} was taken for a repeat",
            transfer.number
        );
        if new {
            numbers.insert(transfer.number);
            let mut groups = BTreeMap::new();
            for (message, &draft) in transfer.messages.iter().zip(drafts) {
                self.add(
                    now_ms,
                    0,
                    message.id,
                    draft,
                    message.death.clone(),
                    &mut groups,
                );
            }
        }
        Ok(())
    }

    /// The other queue has a move. True when that was news.
    pub fn transferred(&mut self, number: u64) -> bool {
        let copies = self.moves.remove(&number);
        for &copy in copies.iter().flatten() {
            let end = match self.redriven.contains_key(&copy) {
                true => End::Redriven,
                false => End::DeadLettered,
            };
            self.settle(copy, end);
        }
        copies.is_some()
    }
}
