//! What a queue owes its users, as a model of one queue: what each message is doing, and what every
//! operation must answer. Written from the promises, never from the engine's code: it knows nothing
//! of blocks, holds and cursors, only that messages sent together with one delay leave together
//! when their retention is over.

mod deliveries;
mod moves;
mod redrive;
mod settling;

use super::broken::{ensure, Broken};
use pullq::queue::ledger::Counters;
use pullq::queue::{Config, Death, MessageId, SendReceipt};
use std::collections::{BTreeMap, BTreeSet, HashMap};

// What users are told, written out again: the engine's own limits may be wrong.
const IDEMPOTENCY_WINDOW_MS: u64 = 300_000;
/// Messages of one call and one delay stay together up to these.
const MAX_GROUP_BYTES: usize = 1_000_000;
const MAX_GROUP_MESSAGES: usize = 100;

/// A message in one queue, by the order of its arrival there. A message that is dead-lettered is
/// another copy in the other queue.
pub type CopyNo = u32;

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
///   from each of them, its time over: Moving by a redrive, then Settled
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
    /// On its way to another queue.
    Moving,
    Settled(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Acknowledged,
    DeadLettered,
    Redriven,
    Dropped,
    Expired,
    Purged,
}

/// Messages whose retention ends at once: sent together with one delay, up to a megabyte.
struct Group {
    ready_ms: u64,
    sent_ms: u64,
    members: Vec<CopyNo>,
    live: u32,
    moving: u32,
}

/// What a lease id says, for the queue that gave it out.
#[derive(Debug, Clone, Copy)]
pub struct Leased {
    pub copy: CopyNo,
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

/// The groups that a call has begun, by their delay, with the bytes in them so far.
pub type Groups = BTreeMap<u32, (u32, usize)>;

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
    fresh: BTreeSet<CopyNo>,
    /// Never delivered and delayed, by the time at which they are ready.
    delayed: BTreeSet<(u64, CopyNo)>,
    /// Delivered and not settled, by the time at which they may be delivered again.
    out: BTreeSet<(u64, CopyNo)>,
    moving: BTreeSet<CopyNo>,
    /// Those of them that a redrive has moving, and where to.
    redriven: BTreeMap<CopyNo, String>,
    redrive: Option<redrive::Redrive>,
    /// Moves that were handed out, by their numbers.
    moves: BTreeMap<u64, Vec<CopyNo>>,
    latest_move: u64,
    by_id: HashMap<MessageId, CopyNo>,
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
            redriven: BTreeMap::new(),
            redrive: None,
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
            self.next_portion_ms().map(|at_ms| at_ms.max(now_ms)),
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
        let used_up: Vec<CopyNo> = self.used_up(now_ms).collect();
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
    fn used_up(&self, now_ms: u64) -> impl Iterator<Item = CopyNo> + '_ {
        self.out
            .range(..(now_ms + 1, 0))
            .map(|&(_, copy)| copy)
            .filter(|&copy| self.is_used_up(copy))
    }

    /// Without a consumer nobody says how often is too often.
    fn is_used_up(&self, copy: CopyNo) -> bool {
        let max_retries = self
            .config
            .consumer
            .as_ref()
            .map(|consumer| consumer.max_retries);
        max_retries.is_some_and(|max_retries| self.messages[copy as usize].deliveries > max_retries)
    }

    fn give_up(&mut self, copy: CopyNo) {
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
    fn remembered(&self, now_ms: u64, key: &str) -> Option<(&[MessageId], u64)> {
        let answer = self.keys.get(key)?;
        let known = now_ms < answer.at_ms + IDEMPOTENCY_WINDOW_MS;
        known.then_some((&answer.ids, answer.at_ms))
    }

    /// An alarm forgets keys for good, also for a queue whose unwritten time is lost afterwards.
    pub fn forget_keys(&mut self, now_ms: u64) {
        self.keys
            .retain(|_, answer| now_ms < answer.at_ms + IDEMPOTENCY_WINDOW_MS);
    }

    /// One of the sends of a call, and its answer. Returns whether it stored anything.
    pub fn sent(
        &mut self,
        now_ms: u64,
        drafts: &[Draft],
        key: Option<String>,
        answer: &SendReceipt,
        groups: &mut Groups,
    ) -> Result<bool, Broken> {
        let earlier = key.as_ref().and_then(|key| self.remembered(now_ms, key));
        if let Some((ids, sent_ms)) = earlier {
            ensure!(
                answer.repeated && (ids, sent_ms) == (&answer.ids, answer.sent_ms),
                "3: a known key stores nothing and gets the first answer again",
                "key {key:?}: {} ids of {}, repeated {}; {} ids of {sent_ms} were right",
                answer.ids.len(),
                answer.sent_ms,
                answer.repeated,
                ids.len()
            );
            return Ok(false);
        }
        ensure!(
            !answer.repeated && answer.ids.len() == drafts.len(),
            "3: a batch is taken whole",
            "{} ids for {} messages, repeated {}",
            answer.ids.len(),
            drafts.len(),
            answer.repeated
        );
        ensure!(
            answer.sent_ms == now_ms,
            "7: a message is sent when it is sent",
            "{} at {now_ms}",
            answer.sent_ms
        );
        for (draft, &id) in drafts.iter().zip(&answer.ids) {
            ensure!(
                !self.by_id.contains_key(&id),
                "1: a message has an id of its own",
                "{id:02x?} came twice"
            );
            let delay_s = draft
                .delay_s
                .unwrap_or(self.config.settings.delivery_delay_s);
            self.add(now_ms, delay_s, id, *draft, None, groups);
        }
        if let Some(key) = key {
            let answered = Answered {
                at_ms: now_ms,
                ids: answer.ids.clone(),
            };
            self.keys.insert(key, answered);
        }
        Ok(true)
    }

    fn add(
        &mut self,
        now_ms: u64,
        delay_s: u32,
        id: MessageId,
        draft: Draft,
        death: Option<Death>,
        groups: &mut Groups,
    ) {
        let copy = self.messages.len() as CopyNo;
        let ready_ms = now_ms + u64::from(delay_s) * 1_000;
        let new_group = self.groups.len() as u32;
        let (group, bytes) = groups.entry(delay_s).or_insert((new_group, 0));
        let is_full = |group: &Group| group.members.len() >= MAX_GROUP_MESSAGES;
        if *bytes + draft.length as usize > MAX_GROUP_BYTES
            || self.groups.get(*group as usize).is_some_and(is_full)
        {
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
                State::Settled(End::Redriven) => recount.redriven += 1,
                State::Settled(End::Dropped) => recount.dropped += 1,
                State::Settled(End::Expired) => recount.expired += 1,
                State::Settled(End::Purged) => recount.purged += 1,
                _ => {}
            }
        }
        recount
    }

    fn settle(&mut self, copy: CopyNo, end: End) {
        let message = &self.messages[copy as usize];
        if matches!(message.state, State::Settled(_)) {
            return;
        }
        self.backlog_bytes -= message.size;
        *match end {
            End::Acknowledged => &mut self.counters.acknowledged,
            End::DeadLettered => &mut self.counters.dead_lettered,
            End::Redriven => &mut self.counters.redriven,
            End::Dropped => &mut self.counters.dropped,
            End::Expired => &mut self.counters.expired,
            End::Purged => &mut self.counters.purged,
        } += 1;
        self.set_state(copy, State::Settled(end));
    }

    fn set_state(&mut self, copy: CopyNo, state: State) {
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
                self.redriven.remove(&copy);
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
