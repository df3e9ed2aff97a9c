//! What a pull or a peek may bring: which messages, in which order, whole, counted.

use super::{Checked, CopyNo, End, Leased, Message, Model, State};
use crate::broken::{ensure, Broken};
use crate::rng;
use pullq::queue::{Death, Delivery, MessageId, Peeked};
use std::collections::BTreeSet;

/// A pull may end early once it has this much.
const FULL_PULL_BYTES: usize = 8_000_000;

impl Model {
    // ---- pulling

    pub fn pulled(
        &mut self,
        now_ms: u64,
        wanted: usize,
        visibility_timeout_ms: u64,
        answer: &[Delivery],
    ) -> Result<Vec<Leased>, Broken> {
        self.sweep(now_ms);
        let order = self.order(now_ms, wanted);
        let mut content_bytes = 0;
        let max_retries = self
            .config
            .consumer
            .as_ref()
            .map(|consumer| consumer.max_retries);
        let mut leases = Vec::with_capacity(answer.len());
        for (place, delivery) in answer.iter().enumerate() {
            let copy = self.known(&delivery.id)?;
            content_bytes += delivery.content.len();
            self.deliverable(now_ms, copy)?;
            order.check(self, place, copy)?;
            let message = &mut self.messages[copy as usize];
            ensure!(
                delivery.attempts == message.deliveries + 1,
                "6: attempts counts deliveries",
                "#{copy} says attempt {}, and was delivered {} times before",
                delivery.attempts,
                message.deliveries
            );
            ensure!(
                max_retries.is_none_or(|max_retries| delivery.attempts <= max_retries + 1),
                "6: at most max_retries + 1 deliveries",
                "#{copy} is delivered for the {}th time, max_retries is {max_retries:?}",
                delivery.attempts
            );
            message.deliveries += 1;
            self.deliveries += 1;
            message.delivery = self.deliveries;
            leases.push(Leased {
                copy,
                attempts: message.deliveries,
                leased_ms: now_ms,
                delivery: self.deliveries,
            });
            let until_ms = now_ms + visibility_timeout_ms;
            message.is_whole(
                copy,
                &delivery.content,
                delivery.form,
                delivery.sent_ms,
                &delivery.death,
            )?;
            self.set_state(copy, State::Leased { until_ms });
            self.counters.delivered += 1;
        }
        if answer.len() != order.len() {
            ensure!(
                answer.len() < order.len() && content_bytes >= FULL_PULL_BYTES,
                "10: a deliverable message is delivered",
                "{} messages of {content_bytes} bytes were delivered, {} could be",
                answer.len(),
                order.len()
            );
        }
        Ok(leases)
    }

    /// Whether a pull now would bring anything.
    pub fn is_deliverable(&self, now_ms: u64) -> bool {
        let come_back = self.out.range(..(now_ms + 1, 0)).map(|&(_, copy)| copy);
        !self.fresh.is_empty()
            || self
                .delayed
                .first()
                .is_some_and(|&(ready_ms, _)| ready_ms <= now_ms)
            || come_back.into_iter().any(|copy| !self.is_used_up(copy))
    }

    /// A peek sees what pulls would bring. It may also see what the next pull will find outlived or
    /// used up, because a peek changes nothing.
    pub fn peeked(
        &self,
        now_ms: u64,
        wanted: usize,
        answer: &[Peeked],
    ) -> Result<Vec<CopyNo>, Broken> {
        let mut doomed: BTreeSet<CopyNo> = self.used_up(now_ms).collect();
        for group in self.outlived(now_ms) {
            doomed.extend(&self.groups[group as usize].members);
        }
        // Where nothing is doomed the order is as strict as a pull's.
        let order = doomed.is_empty().then(|| self.order(now_ms, wanted));
        let mut copies = Vec::with_capacity(answer.len());
        let mut content_bytes = 0;
        for (place, peeked) in answer.iter().enumerate() {
            let copy = self.known(&peeked.id)?;
            content_bytes += peeked.content.len();
            self.deliverable(now_ms, copy)?;
            if let Some(order) = &order {
                order.check(self, place, copy)?;
            }
            let message = &self.messages[copy as usize];
            ensure!(
                peeked.attempts == message.deliveries,
                "6: attempts counts deliveries",
                "a peek says {} of #{copy}, it was delivered {} times",
                peeked.attempts,
                message.deliveries
            );
            message.is_whole(
                copy,
                &peeked.content,
                peeked.form,
                peeked.sent_ms,
                &peeked.death,
            )?;
            copies.push(copy);
        }
        let shown: BTreeSet<CopyNo> = copies.iter().copied().collect();
        ensure!(
            shown.len() == copies.len(),
            "4: a message is shown once",
            "a peek shows {} of its messages again",
            copies.len() - shown.len()
        );
        if answer.len() < wanted && content_bytes < FULL_PULL_BYTES {
            let all = self.order(now_ms, usize::MAX);
            let missing = all
                .copies(self, now_ms)
                .find(|copy| !shown.contains(copy) && !doomed.contains(copy));
            ensure!(
                missing.is_none(),
                "10: a deliverable message is seen",
                "a peek misses #{missing:?}"
            );
        }
        Ok(copies)
    }

    fn known(&self, id: &MessageId) -> Result<CopyNo, Broken> {
        self.by_id.get(id).copied().ok_or_else(|| {
            Broken::new(
                "1: nothing is delivered that was not sent",
                format!("id {id:02x?}"),
            )
        })
    }

    fn deliverable(&self, now_ms: u64, copy: CopyNo) -> Checked {
        let message = &self.messages[copy as usize];
        let promise = match message.state {
            State::Waiting if message.ready_ms <= now_ms => return Ok(()),
            State::Waiting => "7: no delivery before a delay is over",
            State::Leased { until_ms } | State::GivenBack { until_ms } if until_ms <= now_ms => {
                return Ok(())
            }
            State::Leased { .. } => "4: nobody else gets a message while its lease runs",
            State::GivenBack { .. } => "7: no delivery before a retry's delay is over",
            State::Moving => "6: a message that is dead-lettered is not delivered",
            State::Settled(End::Acknowledged) => {
                "5: an acknowledged message is never delivered again"
            }
            State::Settled(End::Purged) => "11: a purged message is gone",
            State::Settled(End::Expired) => "2: an expired message is gone",
            State::Settled(_) => "6: a message that was given up is gone",
        };
        Err(Broken::new(
            promise,
            format!(
                "#{copy} at {now_ms}: {:?}, ready at {}",
                message.state, message.ready_ms
            ),
        ))
    }

    fn order(&self, now_ms: u64, wanted: usize) -> Order {
        let returned: Vec<u64> = self
            .out
            .range(..(now_ms + 1, 0))
            .take(wanted)
            .map(|&(until_ms, _)| until_ms)
            .collect();
        let firsts = self
            .delayed
            .range(..(now_ms + 1, 0))
            .map(|&(_, copy)| copy)
            .chain(self.fresh.iter().copied())
            .take(wanted - returned.len())
            .collect();
        Order { returned, firsts }
    }
}

impl Message {
    pub(super) fn is_whole(
        &self,
        copy: CopyNo,
        content: &[u8],
        form: u8,
        sent_ms: u64,
        death: &Option<Death>,
    ) -> Checked {
        ensure!(
            form == self.form && rng::is_content(content, self.content_seed, self.length),
            "1: content comes back byte for byte",
            "#{copy}: {} bytes of form {form} instead of {} of form {}",
            content.len(),
            self.length,
            self.form
        );
        ensure!(
            sent_ms == self.sent_ms && *death == self.death,
            "1: a message says when it was sent and how it died",
            "#{copy}: {sent_ms}, {death:?} instead of {}, {:?}",
            self.sent_ms,
            self.death
        );
        Ok(())
    }
}

/// The order in which messages are delivered now: what has come back, the longest ago first; then
/// what was delayed, by readiness; then the others in the order of the sends.
struct Order {
    /// When they came back; those that came back at one time have no order among themselves.
    returned: Vec<u64>,
    firsts: Vec<CopyNo>,
}

impl Order {
    fn len(&self) -> usize {
        self.returned.len() + self.firsts.len()
    }

    fn check(&self, model: &Model, place: usize, copy: CopyNo) -> Checked {
        let state = model.messages[copy as usize].state;
        let right = match state {
            State::Leased { until_ms } | State::GivenBack { until_ms } => {
                self.returned.get(place) == Some(&until_ms)
            }
            _ => place
                .checked_sub(self.returned.len())
                .is_some_and(|place| self.firsts.get(place) == Some(&copy)),
        };
        ensure!(
            right,
            "8: first deliveries follow the order of the sends, after what has come back",
            "#{copy} ({state:?}) is at place {place}; {} had come back, at {:?}; then {:?}",
            self.returned.len(),
            self.returned.get(place),
            place
                .checked_sub(self.returned.len())
                .and_then(|place| self.firsts.get(place))
        );
        Ok(())
    }

    fn copies<'a>(&'a self, model: &'a Model, now_ms: u64) -> impl Iterator<Item = CopyNo> + 'a {
        model
            .out
            .range(..(now_ms + 1, 0))
            .map(|&(_, copy)| copy)
            .chain(self.firsts.iter().copied())
    }
}
