//! What a queue owes its users, as a model of one queue: what each message is doing, and what every
//! operation must answer. Written from the promises, never from the engine's code: it knows nothing
//! of blocks, holds and cursors, only that messages sent together with one delay leave together
//! when their retention is over.

use super::broken::{ensure, Broken};
use super::rng;
use pullq::queue::ledger::Counters;
use pullq::queue::{Config, Death, Delivery, MessageId, Peeked, Settlement, Transfer};
use std::collections::{BTreeMap, BTreeSet, HashMap};

// What users are told, written out again: the engine's own limits may be wrong.
const IDEMPOTENCY_WINDOW_MS: u64 = 300_000;
const MAX_LEASE_MS: u64 = 43_200_000;
/// A pull may end early once it has this much.
const FULL_PULL_BYTES: usize = 8_000_000;
const MAX_MOVE_MESSAGES: usize = 100;
/// Messages of one send and one delay stay together up to this.
const MAX_GROUP_BYTES: usize = 1_000_000;

/// A message in one queue, by the order of its arrival there. A message that is dead-lettered is
/// another copy in the other queue.
pub type Copy = u32;

pub struct Message {
    pub id: MessageId,
    pub content_seed: u64,
    pub length: u32,
    pub form: u8,
    pub size: u64,
    pub sent_ms: u64,
    pub ready_ms: u64,
    pub death: Option<Death>,
    pub deliveries: u32,
    pub state: State,
    /// The delivery of the queue that brought it last; deliveries that were taken back count too.
    delivery: u64,
    group: u32,
}

///   Waiting ──pull──▶ Leased ──retry──▶ GivenBack
///                     ▲  │ ◀───pull────────┘ (its time over)
///                     └──┘ pull (its time over)
///   from each of them: Settled; from the two on the right, deliveries used up: Moving, then Settled
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Never delivered.
    Waiting,
    Leased {
        until_ms: u64,
    },
    GivenBack {
        until_ms: u64,
    },
    /// On its way to the dead-letter queue.
    Moving,
    Settled(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Acknowledged,
    DeadLettered,
    Dropped,
    Expired,
    Purged,
}

/// Messages whose retention ends at once: sent together with one delay, up to a megabyte.
struct Group {
    ready_ms: u64,
    sent_ms: u64,
    members: Vec<Copy>,
    live: u32,
    moving: u32,
}

/// What a lease id says, for the queue that gave it out.
#[derive(Debug, Clone, Copy)]
pub struct Leased {
    pub copy: Copy,
    pub attempts: u32,
    pub leased_ms: u64,
    pub delivery: u64,
}

/// A lease id or ref as a client presents it, and what it says to this queue: nothing if this queue
/// never gave it out.
pub struct Presented<T> {
    pub text: String,
    pub says: Option<T>,
}

/// A message that is sent.
#[derive(Debug, Clone, Copy)]
pub struct Draft {
    pub content_seed: u64,
    pub length: u32,
    pub form: u8,
    pub size: u64,
    pub delay_s: Option<u32>,
}

struct Answered {
    at_ms: u64,
    ids: Vec<MessageId>,
}

pub struct Model {
    pub config: Config,
    pub config_version: u64,
    pub messages: Vec<Message>,
    pub counters: Counters,
    pub backlog_bytes: u64,
    pub purged_ms: Option<u64>,
    deliveries: u64,
    groups: Vec<Group>,
    /// Never delivered and sent without a delay.
    fresh: BTreeSet<Copy>,
    /// Never delivered and delayed, by the time at which they are ready.
    delayed: BTreeSet<(u64, Copy)>,
    /// Delivered and not settled, by the time at which they may be delivered again.
    out: BTreeSet<(u64, Copy)>,
    moving: BTreeSet<Copy>,
    /// Moves that were handed out, by their numbers.
    moves: BTreeMap<u64, Vec<Copy>>,
    latest_move: u64,
    by_id: HashMap<MessageId, Copy>,
    /// Groups with messages that are not settled: all by readiness, those without a delay in the
    /// order of the sends, and the delayed ones by readiness.
    live_by_readiness: BTreeSet<(u64, u32)>,
    undelayed_groups: BTreeSet<u32>,
    delayed_groups: BTreeSet<(u64, u32)>,
    keys: BTreeMap<String, Answered>,
    arrivals: BTreeMap<String, BTreeSet<u64>>,
}

type Checked = Result<(), Broken>;

impl Model {
    pub fn new(config: Config) -> Model {
        Model {
            config,
            config_version: 0,
            messages: Vec::new(),
            counters: Counters::default(),
            backlog_bytes: 0,
            purged_ms: None,
            deliveries: 0,
            groups: Vec::new(),
            fresh: BTreeSet::new(),
            delayed: BTreeSet::new(),
            out: BTreeSet::new(),
            moving: BTreeSet::new(),
            moves: BTreeMap::new(),
            latest_move: 0,
            by_id: HashMap::new(),
            live_by_readiness: BTreeSet::new(),
            undelayed_groups: BTreeSet::new(),
            delayed_groups: BTreeSet::new(),
            keys: BTreeMap::new(),
            arrivals: BTreeMap::new(),
        }
    }

    // ---- what is in the queue

    pub fn waiting(&self) -> usize {
        self.fresh.len() + self.delayed.len()
    }

    /// Delivered at least once and not settled.
    pub fn out(&self) -> usize {
        self.out.len() + self.moving.len()
    }

    pub fn backlog(&self) -> usize {
        self.waiting() + self.out()
    }

    pub fn moving(&self) -> usize {
        self.moving.len()
    }

    pub fn has_move(&self, number: u64) -> bool {
        self.moves.contains_key(&number)
    }

    pub fn live_groups(&self) -> usize {
        self.live_by_readiness.len()
    }

    pub fn remembered_keys(&self) -> usize {
        self.keys.len()
    }

    /// When the oldest message was sent: of those without a delay, and of the delayed ones that are
    /// ready first. (A message with a longer delay may have been sent before; nobody waits for it.)
    pub fn oldest_sent_ms(&self) -> Option<u64> {
        let sent_ms = |group: u32| self.groups[group as usize].sent_ms;
        let undelayed = self.undelayed_groups.first().map(|&group| sent_ms(group));
        let delayed = self
            .delayed_groups
            .first()
            .map(|&(_, group)| sent_ms(group));
        [undelayed, delayed].into_iter().flatten().min()
    }

    /// When something happens by itself next, at the earliest `now_ms`.
    pub fn next_event_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.moving.is_empty() || self.used_up(now_ms).next().is_some() {
            return Some(now_ms);
        }
        let retention_ms = u64::from(self.config.settings.retention_s) * 1_000;
        let later = now_ms + 1;
        [
            self.out
                .range((later, 0)..)
                .next()
                .map(|&(until_ms, _)| until_ms),
            self.delayed
                .range((later, 0)..)
                .next()
                .map(|&(ready_ms, _)| ready_ms),
            self.live_by_readiness
                .first()
                .map(|&(ready_ms, _)| (ready_ms + retention_ms).max(now_ms)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    // ---- time

    /// Retention first, then deliveries that are used up. True when anything changed.
    pub fn sweep(&mut self, now_ms: u64) -> bool {
        let expired: Vec<u32> = self.outlived(now_ms).collect();
        for &group in &expired {
            for copy in self.groups[group as usize].members.clone() {
                self.settle(copy, End::Expired);
            }
        }
        let used_up: Vec<Copy> = self.used_up(now_ms).collect();
        for &copy in &used_up {
            self.give_up(copy);
        }
        !expired.is_empty() || !used_up.is_empty()
    }

    /// Groups that have outlived their retention; one with a message that moves waits for the move.
    fn outlived(&self, now_ms: u64) -> impl Iterator<Item = u32> + '_ {
        let retention_ms = u64::from(self.config.settings.retention_s) * 1_000;
        self.live_by_readiness
            .iter()
            .take_while(move |&&(ready_ms, _)| ready_ms + retention_ms <= now_ms)
            .map(|&(_, group)| group)
            .filter(|&group| self.groups[group as usize].moving == 0)
    }

    /// Messages that have come back and may not be delivered again.
    fn used_up(&self, now_ms: u64) -> impl Iterator<Item = Copy> + '_ {
        self.out
            .range(..(now_ms + 1, 0))
            .map(|&(_, copy)| copy)
            .filter(|&copy| self.is_used_up(copy))
    }

    /// Without a consumer nobody says how often is too often.
    fn is_used_up(&self, copy: Copy) -> bool {
        let max_retries = self
            .config
            .consumer
            .as_ref()
            .map(|consumer| consumer.max_retries);
        max_retries.is_some_and(|max_retries| self.messages[copy as usize].deliveries > max_retries)
    }

    fn give_up(&mut self, copy: Copy) {
        let to_queue = self
            .config
            .consumer
            .as_ref()
            .is_some_and(|consumer| consumer.dead_letter_queue.is_some());
        if to_queue {
            self.set_state(copy, State::Moving);
        } else {
            self.settle(copy, End::Dropped);
        }
    }

    // ---- sending

    /// The ids and the time that a send with this key was answered with, while it is remembered.
    pub fn remembered(&self, now_ms: u64, key: &str) -> Option<(&[MessageId], u64)> {
        let answer = self.keys.get(key)?;
        let known = now_ms < answer.at_ms + IDEMPOTENCY_WINDOW_MS;
        known.then_some((&answer.ids, answer.at_ms))
    }

    /// An alarm forgets keys for good, also for a queue whose unwritten time is lost afterwards.
    pub fn forget_keys(&mut self, now_ms: u64) {
        self.keys
            .retain(|_, answer| now_ms < answer.at_ms + IDEMPOTENCY_WINDOW_MS);
    }

    pub fn sent(
        &mut self,
        now_ms: u64,
        drafts: &[Draft],
        ids: &[MessageId],
        key: Option<String>,
    ) -> Checked {
        ensure!(
            ids.len() == drafts.len(),
            "3: a batch is taken whole",
            "{} ids for {} messages",
            ids.len(),
            drafts.len()
        );
        let mut groups = BTreeMap::new();
        for (draft, &id) in drafts.iter().zip(ids) {
            ensure!(
                !self.by_id.contains_key(&id),
                "1: a message has an id of its own",
                "{id:02x?} came twice"
            );
            let delay_s = draft
                .delay_s
                .unwrap_or(self.config.settings.delivery_delay_s);
            self.add(now_ms, delay_s, id, *draft, None, &mut groups);
        }
        if let Some(key) = key {
            self.keys.insert(
                key,
                Answered {
                    at_ms: now_ms,
                    ids: ids.to_vec(),
                },
            );
        }
        Ok(())
    }

    /// `groups` are the groups that this call has begun, with the bytes in them.
    fn add(
        &mut self,
        now_ms: u64,
        delay_s: u32,
        id: MessageId,
        draft: Draft,
        death: Option<Death>,
        groups: &mut BTreeMap<u32, (u32, usize)>,
    ) {
        let copy = self.messages.len() as Copy;
        let ready_ms = now_ms + u64::from(delay_s) * 1_000;
        let new_group = self.groups.len() as u32;
        let (group, bytes) = groups.entry(delay_s).or_insert((new_group, 0));
        if *bytes + draft.length as usize > MAX_GROUP_BYTES {
            (*group, *bytes) = (new_group, 0);
        }
        *bytes += draft.length as usize;
        let group = *group;
        if group == new_group {
            self.groups.push(Group {
                ready_ms,
                sent_ms: now_ms,
                members: Vec::new(),
                live: 0,
                moving: 0,
            });
            self.live_by_readiness.insert((ready_ms, group));
            if delay_s == 0 {
                self.undelayed_groups.insert(group);
            } else {
                self.delayed_groups.insert((ready_ms, group));
            }
        }
        self.groups[group as usize].members.push(copy);
        self.groups[group as usize].live += 1;
        self.messages.push(Message {
            id,
            content_seed: draft.content_seed,
            length: draft.length,
            form: draft.form,
            size: draft.size,
            sent_ms: now_ms,
            ready_ms,
            death,
            deliveries: 0,
            state: State::Waiting,
            delivery: 0,
            group,
        });
        if delay_s == 0 {
            self.fresh.insert(copy);
        } else {
            self.delayed.insert((ready_ms, copy));
        }
        self.by_id.insert(id, copy);
        self.counters.sent += 1;
        self.backlog_bytes += draft.size;
    }

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
    ) -> Result<Vec<Copy>, Broken> {
        let mut doomed: BTreeSet<Copy> = self.used_up(now_ms).collect();
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
        let shown: BTreeSet<Copy> = copies.iter().copied().collect();
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

    fn known(&self, id: &MessageId) -> Result<Copy, Broken> {
        self.by_id.get(id).copied().ok_or_else(|| {
            Broken::new(
                "1: nothing is delivered that was not sent",
                format!("id {id:02x?}"),
            )
        })
    }

    fn deliverable(&self, now_ms: u64, copy: Copy) -> Checked {
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
    fn can_be_acknowledged(&self, copy: Copy) -> bool {
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
        let given_back = |&&(until_ms, copy): &&(u64, Copy)| {
            until_ms <= now_ms
                || matches!(self.messages[copy as usize].state, State::GivenBack { .. })
        };
        let mut copies: Vec<Copy> = self.fresh.iter().copied().collect();
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
        refs: &[Presented<Copy>],
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

    fn is_here(&self, copy: Copy) -> bool {
        !matches!(
            self.messages[copy as usize].state,
            State::Moving | State::Settled(_)
        )
    }

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
            let death = Death {
                queue_name: self.config.queue_name.clone(),
                first_sent_ms,
                attempts: known.deliveries,
            };
            known.is_whole(
                copy,
                &message.content,
                message.form,
                known.sent_ms,
                &known.death,
            )?;
            ensure!(
                message.death.as_ref() == Some(&death) && message.size == known.size,
                "6: a dead letter says how it died",
                "#{copy}: {:?}, {} bytes instead of {death:?}, {} bytes",
                message.death,
                message.size,
                known.size
            );
            copies.push(copy);
        }
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
            self.settle(copy, End::DeadLettered);
        }
        copies.is_some()
    }

    // ---- what all of them share

    pub fn draft_of(&self, id: &MessageId) -> Option<Draft> {
        let message = &self.messages[*self.by_id.get(id)? as usize];
        Some(Draft {
            content_seed: message.content_seed,
            length: message.length,
            form: message.form,
            size: message.size,
            delay_s: None,
        })
    }

    /// Messages in each state, counted one by one.
    pub fn recount(&self) -> Counters {
        let mut recount = Counters {
            delivered: self.counters.delivered,
            retried: self.counters.retried,
            empty_pulls: self.counters.empty_pulls,
            sent: self.messages.len() as u64,
            ..Counters::default()
        };
        for message in &self.messages {
            match message.state {
                State::Settled(End::Acknowledged) => recount.acknowledged += 1,
                State::Settled(End::DeadLettered) => recount.dead_lettered += 1,
                State::Settled(End::Dropped) => recount.dropped += 1,
                State::Settled(End::Expired) => recount.expired += 1,
                State::Settled(End::Purged) => recount.purged += 1,
                _ => {}
            }
        }
        recount
    }

    fn settle(&mut self, copy: Copy, end: End) {
        let message = &self.messages[copy as usize];
        if matches!(message.state, State::Settled(_)) {
            return;
        }
        self.backlog_bytes -= message.size;
        *match end {
            End::Acknowledged => &mut self.counters.acknowledged,
            End::DeadLettered => &mut self.counters.dead_lettered,
            End::Dropped => &mut self.counters.dropped,
            End::Expired => &mut self.counters.expired,
            End::Purged => &mut self.counters.purged,
        } += 1;
        self.set_state(copy, State::Settled(end));
    }

    fn set_state(&mut self, copy: Copy, state: State) {
        let message = &mut self.messages[copy as usize];
        let (before, ready_ms) = (message.state, message.ready_ms);
        message.state = state;
        let group_number = message.group;
        let group = &mut self.groups[group_number as usize];
        match before {
            State::Waiting => {
                if !self.fresh.remove(&copy) {
                    self.delayed.remove(&(ready_ms, copy));
                }
            }
            State::Leased { until_ms } | State::GivenBack { until_ms } => {
                self.out.remove(&(until_ms, copy));
            }
            State::Moving => {
                self.moving.remove(&copy);
                group.moving -= 1;
            }
            State::Settled(_) => unreachable!("a settled message stays settled"),
        }
        match state {
            State::Leased { until_ms } | State::GivenBack { until_ms } => {
                self.out.insert((until_ms, copy));
            }
            State::Moving => {
                self.moving.insert(copy);
                group.moving += 1;
            }
            State::Settled(_) => {
                group.live -= 1;
                if group.live == 0 {
                    self.live_by_readiness
                        .remove(&(group.ready_ms, group_number));
                    self.delayed_groups.remove(&(group.ready_ms, group_number));
                    self.undelayed_groups.remove(&group_number);
                    group.members = Vec::new();
                }
            }
            State::Waiting => unreachable!("a message waits for its first delivery once"),
        }
    }
}

impl Message {
    fn is_whole(
        &self,
        copy: Copy,
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
    firsts: Vec<Copy>,
}

impl Order {
    fn len(&self) -> usize {
        self.returned.len() + self.firsts.len()
    }

    fn check(&self, model: &Model, place: usize, copy: Copy) -> Checked {
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

    fn copies<'a>(&'a self, model: &'a Model, now_ms: u64) -> impl Iterator<Item = Copy> + 'a {
        model
            .out
            .range(..(now_ms + 1, 0))
            .map(|&(_, copy)| copy)
            .chain(self.firsts.iter().copied())
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
