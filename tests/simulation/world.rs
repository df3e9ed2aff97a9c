//! The world of one seed: some queues that are each other's dead-letter queues, producers and
//! consumers that do anything at any time, a wall clock that jumps, and crashes.
//!
//! Each seed has habits of its own (which operations are frequent, how often something fails, how
//! fast time passes), so that seeds differ in kind and not only in detail.

use super::broken::{ensure, Broken};
use super::checks;
use super::database::Failure;
use super::history::{digest, list, History};
use super::host::{Fate, Host, Lease, Outcome, Ref};
use super::model::{Draft, Leased, Presented};
use super::queue::{
    limits, Config, Consumer, Extension, NewMessage, PullError, PullRequest, Queue, Retry,
    SendRequest, Settings, SqlError, Transfer,
};
use super::rng::{content, Rng};

const START_MS: u64 = 1_790_000_000_000;
/// Operations between two deep checks.
const DEEP_CHECK_EVERY: u64 = 64;
/// Bytes of a fat message: three fit into a block.
const FAT: u32 = 300_000;
const LEASES_KEPT: usize = 400;
const STALE_KEPT: usize = 128;
const MOVES_KEPT: usize = 12;
const HOUR_MS: u64 = 3_600_000;

type Checked = Result<(), Broken>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
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
}

/// Each operation with the highest weight that a seed may give it.
const OPS: [(Op, u64); 18] = [
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
];

/// Through which of the two protocols messages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Pull,
    /// Asks no consumer's settings, and needs none.
    Receive,
}

struct Habits {
    weights: [u64; OPS.len()],
    batch: u64,
    backlog: usize,
    /// In 1,000 operations.
    statement_fails: u64,
    crash: u64,
    /// How often the wall clock is set back, and by how much at most.
    set_back: u64,
    /// The longest ordinary pause between two operations.
    stride_ms: u64,
    /// In 1,000 pauses.
    long_pause: u64,
    fat: u64,
    delayed: u64,
    keys: u64,
    /// Of 1,000 settled leases.
    retried: u64,
    dishonest: u64,
    /// How often a due alarm fires before the next operation.
    alarm: u64,
    /// Times that leases run.
    timeouts_ms: Vec<u64>,
}

impl Habits {
    fn of(rng: &mut Rng) -> Habits {
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
        Habits {
            weights,
            batch: rng.pick(&[1, 3, 10, 30, 100]),
            backlog: rng.pick(&[10, 60, 60, 300, 300, 1_500]),
            statement_fails: rng.pick(&[0, 10, 50, 150]),
            crash: rng.pick(&[0, 5, 20, 60]),
            set_back: rng.pick(&[0, 0, 1, 10]),
            stride_ms: rng.pick(&[100, 1_000, 10_000, 60_000]),
            long_pause: rng.pick(&[0, 0, 2, 10]),
            fat: rng.pick(&[0, 0, 0, 0, 0, 0, 0, 8]),
            delayed: rng.pick(&[0, 50, 300, 800]),
            keys: rng.pick(&[0, 50, 300]),
            retried: rng.pick(&[50, 300, 600]),
            dishonest: rng.pick(&[20, 100, 300]),
            alarm: rng.pick(&[0, 100, 900]),
            timeouts_ms: timeouts[..longest].to_vec(),
        }
    }
}

/// A move on its way between two queues.
struct Move {
    source: usize,
    source_id: String,
    transfer: Transfer,
    drafts: Vec<Draft>,
    /// The receiver said that it has the messages.
    arrived: bool,
}

/// What was done, for the figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub operations: u64,
    pub crashes: u64,
    pub failed_statements: u64,
    pub sent: u64,
    pub delivered: u64,
    pub acknowledged: u64,
    pub dead_lettered: u64,
    pub expired: u64,
    pub purged: u64,
}

pub struct World {
    rng: Rng,
    habits: Habits,
    wall_ms: u64,
    hosts: Vec<Host>,
    moves: Vec<Move>,
    made: u64,
    calm: bool,
    line: String,
    pub history: History,
    pub figures: Figures,
}

impl World {
    pub fn new(seed: u64, whole_history: bool) -> Result<World, Broken> {
        let mut rng = Rng::new(seed);
        let habits = Habits::of(&mut rng);
        let mut world = World {
            habits,
            wall_ms: START_MS,
            hosts: Vec::new(),
            moves: Vec::new(),
            made: 0,
            calm: false,
            line: String::new(),
            history: History::new(whole_history),
            figures: Figures::default(),
            rng,
        };
        let queues = world.rng.within(1, 4) as usize;
        for host in 0..queues {
            let config = world.some_config(host, queues, true);
            let host = world.new_host(config)?;
            world.hosts.push(host);
        }
        Ok(world)
    }

    /// A whole history: `operations`, then everything is drained and counted.
    pub fn run(&mut self, operations: u64) -> Checked {
        while self.figures.operations < operations {
            self.step()?;
        }
        for host in 0..self.hosts.len() {
            self.wake(host)?;
            checks::deep(&mut self.hosts[host])?;
        }
        self.drain()?;
        for host in &self.hosts {
            let counters = &host.model.counters;
            self.figures.sent += counters.sent;
            self.figures.delivered += counters.delivered;
            self.figures.acknowledged += counters.acknowledged;
            self.figures.dead_lettered += counters.dead_lettered;
            self.figures.expired += counters.expired;
            self.figures.purged += counters.purged;
        }
        Ok(())
    }

    fn step(&mut self) -> Checked {
        self.pass_time();
        let host = self.rng.index(self.hosts.len());
        let op = match self.due_alarm() {
            Some(due) => return self.perform(Op::Tick, due),
            None => self.some_op(host),
        };
        self.perform(op, host)
    }

    fn perform(&mut self, op: Op, host: usize) -> Checked {
        self.figures.operations += 1;
        self.line = format!("{:>6}", self.figures.operations);
        let result = self.try_perform(op, host);
        let line = std::mem::take(&mut self.line);
        self.history.add(line);
        result
    }

    fn try_perform(&mut self, op: Op, host: usize) -> Checked {
        self.wake(host)?;
        // The queue's time, and how far the wall clock is behind it.
        let now_ms = self.hosts[host].now_ms;
        self.line.push_str(&format!(
            " {}{} q{host} {op:?}",
            now_ms.abs_diff(START_MS),
            match now_ms - self.hosts[host].last_wall_ms() {
                0 => String::new(),
                behind_ms => format!("(wall -{behind_ms})"),
            }
        ));
        match op {
            Op::Send => self.send(host, 1)?,
            Op::SendBatch => {
                let count = self.rng.mostly_small(self.habits.batch);
                self.send(host, count)?;
            }
            Op::Pull => self.pull(host)?,
            Op::Settle => self.settle(host)?,
            Op::Extend => self.extend(host)?,
            Op::Peek => self.peek(host)?,
            Op::Tick => self.tick(host)?,
            Op::Purge => self.purge(host)?,
            Op::PurgeRefs => self.purge_refs(host)?,
            Op::Configure => self.configure(host)?,
            Op::Ferry => self.ferry(host)?,
            Op::HandOut => self.hand_out(host).map(|_| ())?,
            Op::Receive => {
                if !self.moves.is_empty() {
                    let place = self.rng.index(self.moves.len());
                    self.receive(place)?;
                }
            }
            Op::Transferred => {
                if !self.moves.is_empty() {
                    let place = self.rng.index(self.moves.len());
                    self.transferred(place)?;
                }
            }
            Op::Drain => self.drain_queue(host)?,
            Op::TakeBack => self.take_back(host)?,
            Op::Restart => self.restart(host),
            Op::MakeAnew => {
                if self.rng.chance(200) {
                    let config = self.some_config(host, self.hosts.len(), true);
                    self.hosts[host] = self.new_host(config)?;
                }
            }
        }
        checks::at_a_glance(&mut self.hosts[host])?;
        if self.figures.operations % 4 == 0 {
            checks::metrics(&self.hosts[host])?;
        }
        if self.figures.operations % DEEP_CHECK_EVERY == 0 {
            checks::deep(&mut self.hosts[host])?;
        }
        Ok(())
    }

    // ---- time, chance and crashes

    fn pass_time(&mut self) {
        let rng = &mut self.rng;
        match rng.below(100) {
            0..=39 => {}
            40..=74 => self.wall_ms += rng.within(1, 50),
            75..=88 => self.wall_ms += rng.within(1, self.habits.stride_ms),
            89..=97 => self.pass_time_to_an_event(),
            98 => {
                if rng.chance(self.habits.long_pause * 100) {
                    self.wall_ms += rng.pick(&[60_000, HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS]);
                }
            }
            _ => {
                if rng.chance(self.habits.set_back * 100) {
                    self.wall_ms -= rng.within(1, HOUR_MS).min(self.wall_ms - START_MS / 2);
                }
            }
        }
    }

    /// Just before, at, or just after the time at which something happens by itself.
    fn pass_time_to_an_event(&mut self) {
        let host = &self.hosts[self.rng.index(self.hosts.len())];
        let Some(event_ms) = host.model.next_event_ms(host.now_ms) else {
            return;
        };
        let mut in_ms = event_ms - host.now_ms;
        if in_ms > 10 * self.habits.stride_ms && !self.rng.chance(100) {
            return;
        }
        if host.now_ms > host.wall_ms(self.wall_ms) {
            in_ms *= 2;
        }
        self.wall_ms = (self.wall_ms + in_ms + self.rng.below(3)).saturating_sub(1);
    }

    fn due_alarm(&mut self) -> Option<usize> {
        if !self.rng.chance(self.habits.alarm / 4) {
            return None;
        }
        let host = self.rng.index(self.hosts.len());
        let queue = self.hosts[host].queue.as_ref()?;
        (queue.next_event_in_ms() == Some(0)).then_some(host)
    }

    fn some_op(&mut self, host: usize) -> Op {
        let weights = &self.habits.weights;
        let mut place = self.rng.below(weights.iter().sum());
        let mut op = Op::Pull;
        for (&weight, (candidate, _)) in weights.iter().zip(OPS) {
            if place < weight {
                op = candidate;
                break;
            }
            place -= weight;
        }
        if matches!(op, Op::Send | Op::SendBatch)
            && self.hosts[host].model.backlog() > self.habits.backlog
        {
            op = self.rng.pick(&[Op::Pull, Op::Settle, Op::Settle]);
        }
        op
    }

    fn fate(&mut self) -> Fate {
        if self.calm {
            return Fate::Well;
        }
        if self.rng.chance(self.habits.statement_fails) {
            return Fate::StatementFails(self.failure());
        }
        if self.rng.chance(self.habits.crash) {
            return self
                .rng
                .pick(&[Fate::CrashBeforeCommit, Fate::CrashBeforeAnswer]);
        }
        Fate::Well
    }

    fn failure(&mut self) -> Failure {
        Failure {
            after: self.rng.pick(&[0, 0, 1, 1, 2, 2, 3, 4, 6, 9]),
            done_first: self.rng.chance(500),
            lasts: self.rng.chance(500),
        }
    }

    fn wake(&mut self, host: usize) -> Checked {
        let failure = match self.hosts[host].queue {
            None if self.rng.chance(self.habits.statement_fails) => Some(self.failure()),
            _ => None,
        };
        if self.hosts[host].wake(self.wall_ms, failure)? {
            self.line.push_str(" (opened)");
            checks::at_a_glance(&mut self.hosts[host])?;
            checks::metrics(&self.hosts[host])?;
        }
        Ok(())
    }

    fn restart(&mut self, host: usize) {
        self.hosts[host].queue = None;
        self.figures.crashes += 1;
        let most = match self.habits.set_back {
            0 => 0,
            1 => 5_000,
            _ => HOUR_MS,
        };
        if self.rng.chance(300) {
            self.hosts[host].skew_ms = self.rng.within(0, 2 * most) as i64 - most as i64;
        }
    }

    /// Runs an operation with the fate that chance has for it. `None` when nothing of it lasts.
    /// The flag says whether the answer came through.
    fn operate<T, E: super::host::Trouble>(
        &mut self,
        host: usize,
        work: impl FnOnce(&mut Queue, &super::database::Database, u64) -> Result<T, E>,
    ) -> Result<Option<(Result<T, E>, bool)>, Broken> {
        let fate = self.fate();
        let outcome = self.hosts[host].operate(fate, work)?;
        match outcome {
            Outcome::Answered(value) => Ok(Some((Ok(value), true))),
            Outcome::Refused(error) => Ok(Some((Err(error), true))),
            Outcome::Unanswered(value) => {
                self.figures.crashes += 1;
                self.line.push_str(" (crashed, unanswered)");
                Ok(Some((Ok(value), false)))
            }
            Outcome::Undone => {
                match fate {
                    Fate::StatementFails(_) => self.figures.failed_statements += 1,
                    _ => self.figures.crashes += 1,
                }
                self.line.push_str(" (undone)");
                Ok(None)
            }
        }
    }

    /// [`World::operate`] for operations that only the storage can refuse.
    fn operate_unrefused<T>(
        &mut self,
        host: usize,
        work: impl FnOnce(&mut Queue, &super::database::Database, u64) -> Result<T, SqlError>,
    ) -> Result<Option<(T, bool)>, Broken> {
        match self.operate(host, work)? {
            Some((Ok(value), answered)) => Ok(Some((value, answered))),
            Some((Err(error), _)) => Err(super::host::storage_failed(error)),
            None => Ok(None),
        }
    }

    // ---- settings

    fn new_host(&mut self, config: Config) -> Result<Host, Broken> {
        self.made += 1;
        Host::new(
            config,
            format!("id{}", self.made),
            self.wall_ms,
            &mut self.rng,
        )
    }

    fn some_config(&mut self, host: usize, queues: usize, first: bool) -> Config {
        let timeouts = self.habits.timeouts_ms.clone();
        let rng = &mut self.rng;
        let consumer = Consumer {
            batch_size: rng.mostly_small(100) as u32,
            visibility_timeout_ms: rng.pick(&timeouts),
            max_retries: rng.pick(&[0, 1, 2, 3, 3, 5, 100]),
            retry_delay_s: rng.pick(&[0, 0, 0, 1, 5]),
            dead_letter_queue: rng.chance(700).then(|| name_of(rng.index(queues))),
        };
        Config {
            queue_name: name_of(host),
            settings: Settings {
                delivery_delay_s: rng.pick(&[0, 0, 0, 0, 1, 10]),
                delivery_paused: !first && rng.chance(150),
                retention_s: match rng.below(4) {
                    0 => rng.within(60, 300) as u32,
                    1 => rng.within(60, 86_400) as u32,
                    2 => limits::MAX_RETENTION_S,
                    _ => limits::DEFAULT_RETENTION_S,
                },
            },
            consumer: (first || !rng.chance(80)).then_some(consumer),
        }
    }

    fn configure(&mut self, host: usize) -> Checked {
        let config = self.some_config(host, self.hosts.len(), false);
        let version = self.hosts[host].model.config_version;
        // What was said earlier may arrive later, or twice.
        let version = match self.rng.below(6) {
            0 => version.saturating_sub(self.rng.below(3)),
            1 => version + 2,
            _ => version + 1,
        };
        self.apply(host, version, config)
    }

    fn apply(&mut self, host: usize, version: u64, config: Config) -> Checked {
        self.line.push_str(&format!(
            " version {version}: delay {} s, paused {}, retention {} s, {:?}",
            config.settings.delivery_delay_s,
            config.settings.delivery_paused,
            config.settings.retention_s,
            config.consumer.as_ref().map(|c| (
                c.batch_size,
                c.visibility_timeout_ms,
                c.max_retries,
                c.retry_delay_s,
                c.dead_letter_queue.as_deref()
            ))
        ));
        let new = config.clone();
        let next = self.hosts[host].model.config_version + 1;
        let done = self.operate_unrefused(host, |queue, sql, _| match version == next {
            true => queue.configure(sql, new),
            false => queue.configure_as(sql, version, new),
        })?;
        let model = &mut self.hosts[host].model;
        if done.is_some() && version >= model.config_version {
            model.config = config;
            model.config_version = version;
        }
        Ok(())
    }

    // ---- producers

    fn some_draft(&mut self, fat: bool) -> Draft {
        let rng = &mut self.rng;
        let length = match rng.below(20) {
            _ if fat => FAT,
            0 => 0,
            1 => rng.within(1, 3_000) as u32,
            _ => rng.within(1, 60) as u32,
        };
        let delay_s = match rng.below(1_000) < self.habits.delayed {
            false if rng.chance(100) => Some(0),
            false => None,
            true => Some(match rng.below(20) {
                0 => rng.within(1, u64::from(limits::MAX_DELAY_S)) as u32,
                1..=5 => rng.within(1, 120) as u32,
                _ => rng.within(1, 5) as u32,
            }),
        };
        Draft {
            content_seed: rng.next(),
            length,
            form: rng.below(5) as u8,
            size: match rng.below(10) {
                0 => rng.within(0, limits::MAX_MESSAGE_BYTES as u64),
                _ => u64::from(length.min(100_000)),
            },
            delay_s,
        }
    }

    fn send(&mut self, host: usize, count: u64) -> Checked {
        let fat = self.rng.chance(self.habits.fat);
        let count = if fat { self.rng.within(1, 30) } else { count };
        let mut drafts: Vec<Draft> = (0..count).map(|_| self.some_draft(fat)).collect();
        if self.rng.chance(400) {
            // One delay for all is the usual case.
            for place in 1..drafts.len() {
                drafts[place].delay_s = drafts[0].delay_s;
            }
        }
        let key = self
            .rng
            .chance(self.habits.keys)
            .then(|| self.some_key(host));
        let request = SendRequest {
            messages: drafts
                .iter()
                .map(|draft| NewMessage {
                    form: draft.form,
                    content: content(draft.content_seed, draft.length),
                    size: draft.size,
                    delay_s: draft.delay_s,
                })
                .collect(),
            idempotency_key: key.clone(),
        };
        let entropy = self.rng.bytes16();
        self.line.push_str(&format!(" {count} key {key:?}"));
        let done = self.operate(host, |queue, sql, wall_ms| {
            queue.send(sql, wall_ms, &entropy, request)
        })?;
        let Some((result, _)) = done else {
            return Ok(());
        };
        let receipt = result.map_err(|error| {
            Broken::new(
                "2: an operation that can be done is done",
                error.to_string(),
            )
        })?;
        let host = &mut self.hosts[host];
        if let Some(key) = &key {
            let earlier = host.model.remembered(host.now_ms, key);
            if receipt.repeated {
                ensure!(
                    earlier == Some((receipt.ids.as_slice(), receipt.sent_ms)),
                    "3: a known key gets the first answer again",
                    "key {key} was answered as {} messages of {}",
                    receipt.ids.len(),
                    receipt.sent_ms
                );
                self.line.push_str(" -> repeated");
                return Ok(());
            }
            ensure!(
                earlier.is_none(),
                "3: a known key stores nothing",
                "key {key} was stored again"
            );
        }
        ensure!(
            !receipt.repeated && receipt.sent_ms == host.now_ms,
            "7: a message is sent when it is sent",
            "{receipt:?} at {}",
            host.now_ms
        );
        let first = host.model.messages.len();
        host.model.sent(host.now_ms, &drafts, &receipt.ids, key)?;
        host.wrote();
        let delays: Vec<Option<u32>> = drafts.iter().take(4).map(|draft| draft.delay_s).collect();
        self.line
            .push_str(&format!(" -> #{first}.. delays {delays:?}"));
        Ok(())
    }

    fn some_key(&mut self, host: usize) -> String {
        let keys = &mut self.hosts[host].keys;
        if !keys.is_empty() && self.rng.chance(500) {
            return keys[self.rng.index(keys.len())].clone();
        }
        let key = format!("key{}", self.rng.below(1_000_000));
        if keys.len() < 16 {
            keys.push(key.clone());
        } else {
            let place = self.rng.index(keys.len());
            keys[place] = key.clone();
        }
        key
    }

    // ---- consumers

    fn pull(&mut self, host: usize) -> Checked {
        let batch = self.habits.batch;
        let request = PullRequest {
            batch_size: self
                .rng
                .chance(800)
                .then(|| self.rng.mostly_small(batch) as u32),
            visibility_timeout_ms: self
                .rng
                .chance(700)
                .then(|| self.rng.pick(&self.habits.timeouts_ms)),
        };
        let face = match self.rng.chance(100) {
            true => Face::Receive,
            false => Face::Pull,
        };
        self.pull_as(host, request, face).map(|_| ())
    }

    /// Returns how many messages the consumer got.
    fn pull_as(&mut self, host: usize, request: PullRequest, face: Face) -> Result<usize, Broken> {
        let config = &self.hosts[host].model.config;
        let consumer = config.consumer.clone().unwrap_or_default();
        let wanted = request.batch_size.unwrap_or(consumer.batch_size);
        let timeout_ms = request
            .visibility_timeout_ms
            .unwrap_or(consumer.visibility_timeout_ms);
        self.line
            .push_str(&format!(" {wanted} for {timeout_ms} ms"));
        let done = self.operate(host, |queue, sql, wall_ms| match face {
            Face::Pull => queue.pull(sql, wall_ms, request),
            Face::Receive => queue.take(sql, wall_ms, wanted, timeout_ms),
        })?;
        let Some((result, answered)) = done else {
            return Ok(0);
        };
        let host = &mut self.hosts[host];
        let paused = host.model.config.settings.delivery_paused;
        let refusal = match &host.model.config.consumer {
            None if face == Face::Pull => Some(PullError::NoConsumer),
            _ if paused => Some(PullError::Paused),
            _ => None,
        };
        let pulled = match result {
            Ok(pulled) => pulled,
            Err(error) => {
                ensure!(
                    refusal.as_ref() == Some(&error),
                    "11: a pull is refused for a reason",
                    "{error} instead of {refusal:?}"
                );
                self.line.push_str(&format!(" -> {error}"));
                return Ok(0);
            }
        };
        ensure!(
            refusal.is_none(),
            "11: nothing is delivered while paused or without a consumer",
            "{} messages were",
            pulled.deliveries.len()
        );
        let swept = host.model.sweep(host.now_ms);
        let leases =
            host.model
                .pulled(host.now_ms, wanted as usize, timeout_ms, &pulled.deliveries)?;
        let copies: Vec<u32> = leases.iter().map(|leased| leased.copy).collect();
        self.line.push_str(&format!(" -> {}", list(&copies)));
        if self.history.is_whole() {
            let hash = digest(pulled.deliveries.iter().map(|d| d.lease_id.as_str()));
            self.line.push_str(&format!(" leases {hash:016x}"));
        }
        if swept || !copies.is_empty() {
            host.wrote();
        }
        if copies.is_empty() {
            host.model.counters.empty_pulls += 1;
        }
        if !answered {
            return Ok(0);
        }
        for (delivery, leased) in pulled.deliveries.into_iter().zip(leases) {
            host.held.push(Lease {
                home: host.id.clone(),
                text: delivery.lease_id,
                leased,
            });
        }
        // Some consumers die.
        while host.held.len() > LEASES_KEPT {
            let place = self.rng.index(host.held.len());
            host.held.swap_remove(place);
        }
        Ok(copies.len())
    }

    fn settle(&mut self, host: usize) -> Checked {
        let count = self.rng.mostly_small(self.habits.batch.max(4));
        let mut acks = Vec::new();
        let mut retries = Vec::new();
        for _ in 0..count {
            let Some(presented) = self.some_lease(host) else {
                break;
            };
            let again = self.rng.chance(self.habits.dishonest / 8);
            if again || self.rng.chance(self.habits.retried) {
                let delay_s = match self.rng.below(6) {
                    0 => Some(self.rng.within(1, 5) as u32),
                    1 => Some(self.rng.within(1, 600) as u32),
                    2 | 3 => Some(0),
                    _ => None,
                };
                retries.push((copy_of(&presented), delay_s));
            }
            if again
                || retries
                    .last()
                    .is_none_or(|(last, _)| last.text != presented.text)
            {
                acks.push(presented);
            }
        }
        if acks.is_empty() && retries.is_empty() && !self.rng.chance(50) {
            self.line.push_str(" nothing, Pull");
            return self.pull(host);
        }
        let ack_texts: Vec<String> = acks.iter().map(|ack| ack.text.clone()).collect();
        let retry_texts: Vec<Retry> = retries
            .iter()
            .map(|(retry, delay_s)| Retry {
                lease_id: retry.text.clone(),
                delay_s: *delay_s,
            })
            .collect();
        self.line.push_str(&format!(
            " acks {} retries {} {:?}",
            shown(acks.iter()),
            shown(retries.iter().map(|(retry, _)| retry)),
            retries
                .iter()
                .take(4)
                .map(|(_, delay_s)| *delay_s)
                .collect::<Vec<_>>()
        ));
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.settle(sql, wall_ms, &ack_texts, &retry_texts)
        })?;
        if let Some((settlement, _)) = done {
            let host = &mut self.hosts[host];
            if host
                .model
                .settled(host.now_ms, &acks, &retries, &settlement)?
            {
                host.wrote();
            }
            self.line.push_str(&format!(
                " -> {} {} warned {}",
                settlement.acknowledged,
                settlement.retried,
                settlement.warnings.len()
            ));
        }
        Ok(())
    }

    fn extend(&mut self, host: usize) -> Checked {
        let count = self.rng.mostly_small(self.habits.batch.max(4));
        let mut extensions = Vec::new();
        for _ in 0..count {
            // The lease stays in the consumer's hands.
            let held = &self.hosts[host].held;
            let presented = if held.is_empty() || self.rng.chance(self.habits.dishonest) {
                self.some_lease(host)
            } else {
                let lease = held[self.rng.index(held.len())].clone();
                Some(self.present(host, &lease))
            };
            let Some(presented) = presented else { break };
            let timeout_ms = match self.rng.below(8) {
                0 => limits::MAX_VISIBILITY_TIMEOUT_MS,
                _ => self.rng.pick(&self.habits.timeouts_ms),
            };
            extensions.push((presented, timeout_ms));
        }
        if extensions.is_empty() && !self.rng.chance(50) {
            self.line.push_str(" nothing, Pull");
            return self.pull(host);
        }
        let texts: Vec<Extension> = extensions
            .iter()
            .map(|(lease, timeout_ms)| Extension {
                lease_id: lease.text.clone(),
                visibility_timeout_ms: *timeout_ms,
            })
            .collect();
        self.line.push_str(&format!(
            " {} by {:?} ms",
            shown(extensions.iter().map(|(lease, _)| lease)),
            extensions
                .iter()
                .take(4)
                .map(|(_, ms)| *ms)
                .collect::<Vec<_>>()
        ));
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.extend(sql, wall_ms, &texts)
        })?;
        if let Some((settlement, _)) = done {
            let host = &mut self.hosts[host];
            if host.model.extended(host.now_ms, &extensions, &settlement)? {
                host.wrote();
            }
            self.line.push_str(&format!(
                " -> {} warned {}",
                settlement.extended,
                settlement.warnings.len()
            ));
        }
        Ok(())
    }

    fn drain_queue(&mut self, host: usize) -> Checked {
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| queue.drain(sql, wall_ms))?;
        if let Some((drained, _)) = done {
            let host = &mut self.hosts[host];
            host.model.drained(host.now_ms, drained)?;
            host.wrote();
            self.line.push_str(&format!(" -> {drained}"));
        }
        Ok(())
    }

    /// The consumer went away before it got what it had pulled.
    fn take_back(&mut self, host: usize) -> Checked {
        let mut leases = Vec::new();
        for _ in 0..self.rng.mostly_small(self.habits.batch.max(4)) {
            leases.extend(self.some_lease(host));
        }
        let texts: Vec<String> = leases.iter().map(|lease| lease.text.clone()).collect();
        self.line.push_str(&format!(" {}", shown(leases.iter())));
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.take_back(sql, wall_ms, &texts)
        })?;
        // Nobody ever saw these lease ids.
        let Host { held, stale, .. } = &mut self.hosts[host];
        held.retain(|lease| !texts.contains(&lease.text));
        stale.retain(|lease| !texts.contains(&lease.text));
        if done.is_some() {
            let host = &mut self.hosts[host];
            if host.model.taken_back(host.now_ms, &leases) {
                host.wrote();
            }
        }
        Ok(())
    }

    /// A lease id as a consumer might present it: mostly one of its own, else a used one, another
    /// queue's, or a forged one.
    fn some_lease(&mut self, host: usize) -> Option<Presented<Leased>> {
        if !self.rng.chance(self.habits.dishonest) {
            let held = &mut self.hosts[host].held;
            if held.is_empty() {
                return None;
            }
            let lease = held.swap_remove(self.rng.index(held.len()));
            let presented = self.present(host, &lease);
            self.keep_stale(host, lease);
            return Some(presented);
        }
        let from = match self.rng.below(3) {
            0 => self.rng.index(self.hosts.len()),
            _ => host,
        };
        let pool = match self.rng.below(3) {
            0 => &self.hosts[from].held,
            _ => &self.hosts[from].stale,
        };
        if pool.is_empty() {
            return None;
        }
        let lease = pool[self.rng.index(pool.len())].clone();
        if self.rng.chance(200) {
            return Some(Presented {
                text: self.forge(host, &lease.text),
                says: None,
            });
        }
        Some(self.present(host, &lease))
    }

    fn present(&self, host: usize, lease: &Lease) -> Presented<Leased> {
        Presented {
            text: lease.text.clone(),
            says: (lease.home == self.hosts[host].id).then_some(lease.leased),
        }
    }

    fn keep_stale(&mut self, host: usize, lease: Lease) {
        let stale = &mut self.hosts[host].stale;
        if stale.len() < STALE_KEPT {
            stale.push(lease);
        } else {
            let place = self.rng.index(stale.len());
            stale[place] = lease;
        }
    }

    fn forge(&mut self, host: usize, token: &str) -> String {
        let mut bytes = token.as_bytes().to_vec();
        let place = self.rng.index(bytes.len());
        match self.rng.below(6) {
            0 => {
                bytes.truncate(place);
            }
            1 => {
                bytes.push(b'A');
            }
            2 => return "lease_id1".to_owned(),
            3 => {
                let refs = &self.hosts[host].refs;
                if let Some(reference) = refs.last() {
                    return reference.text.clone();
                }
                return "ü".to_owned();
            }
            _ => {
                bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    // ---- looking and purging

    fn peek(&mut self, host: usize) -> Checked {
        let wanted = self.rng.mostly_small(100) as u32;
        let done =
            self.operate_unrefused(host, |queue, sql, wall_ms| queue.peek(sql, wall_ms, wanted))?;
        let Some((peeked, answered)) = done else {
            return Ok(());
        };
        let host = &mut self.hosts[host];
        let copies = host.model.peeked(host.now_ms, wanted as usize, &peeked)?;
        self.line
            .push_str(&format!(" {wanted} -> {}", list(&copies)));
        if answered {
            if host.refs.len() > 100 {
                host.refs.drain(..50);
            }
            let refs = peeked.into_iter().zip(copies).map(|(peeked, copy)| Ref {
                home: host.id.clone(),
                text: peeked.reference,
                copy,
            });
            host.refs.extend(refs);
        }
        Ok(())
    }

    fn purge_refs(&mut self, host: usize) -> Checked {
        let mut presented = Vec::new();
        for _ in 0..self.rng.mostly_small(10) {
            let from = match self.rng.chance(self.habits.dishonest) {
                true => self.rng.index(self.hosts.len()),
                false => host,
            };
            let refs = &self.hosts[from].refs;
            if refs.is_empty() {
                continue;
            }
            let reference = refs[self.rng.index(refs.len())].clone();
            if self.rng.chance(self.habits.dishonest / 4) {
                let text = match self.hosts[host].stale.last() {
                    Some(lease) if self.rng.chance(300) => lease.text.clone(),
                    _ => self.forge_ref(&reference.text),
                };
                presented.push(Presented { text, says: None });
                continue;
            }
            let home = reference.home == self.hosts[host].id;
            presented.push(Presented {
                text: reference.text,
                says: home.then_some(reference.copy),
            });
        }
        let texts: Vec<String> = presented.iter().map(|one| one.text.clone()).collect();
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.purge_refs(sql, wall_ms, &texts)
        })?;
        if let Some((outcome, _)) = done {
            let host = &mut self.hosts[host];
            if host
                .model
                .refs_purged(&presented, outcome.purged, &outcome.warnings)?
            {
                host.wrote();
            }
            self.line
                .push_str(&format!(" {} -> {}", texts.len(), outcome.purged));
        }
        Ok(())
    }

    fn forge_ref(&mut self, token: &str) -> String {
        let mut bytes = token.as_bytes().to_vec();
        let place = self.rng.index(bytes.len());
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn purge(&mut self, host: usize) -> Checked {
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| queue.purge(sql, wall_ms))?;
        if let Some((purged, _)) = done {
            let host = &mut self.hosts[host];
            host.model.purged(host.now_ms, purged)?;
            host.wrote();
            self.line.push_str(&format!(" -> {purged}"));
        }
        Ok(())
    }

    // ---- the alarm, and moves to dead-letter queues

    fn tick(&mut self, host: usize) -> Checked {
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| queue.tick(sql, wall_ms))?;
        if done.is_some() {
            let host = &mut self.hosts[host];
            if host.model.sweep(host.now_ms) {
                host.wrote();
                self.line.push_str(" swept");
            }
            host.model.forget_keys(host.now_ms);
            checks::nothing_is_due(host)?;
            if self.figures.operations % 16 == 0 {
                checks::tidy(host)?;
            }
        }
        Ok(())
    }

    /// Both halves of moves one after the other, as they go when nothing goes wrong in between.
    fn ferry(&mut self, host: usize) -> Checked {
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
    fn hand_out(&mut self, source: usize) -> Result<Option<usize>, Broken> {
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

    fn receive(&mut self, place: usize) -> Checked {
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

    fn transferred(&mut self, place: usize) -> Checked {
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

    // ---- the end

    /// Everything is delivered and acknowledged; nothing may be left, and nothing unexpected come.
    fn drain(&mut self) -> Checked {
        self.calm = true;
        for host in 0..self.hosts.len() {
            self.wake(host)?;
            self.line = format!("drain q{host}");
            let config = Config {
                queue_name: name_of(host),
                settings: Settings {
                    retention_s: limits::MAX_RETENTION_S,
                    ..Settings::default()
                },
                consumer: Some(Consumer {
                    max_retries: limits::MAX_MAX_RETRIES,
                    ..Consumer::default()
                }),
            };
            let version = self.hosts[host].model.config_version + 1;
            self.apply(host, version, config)?;
            self.hosts[host].held.clear();
        }
        // Each round empties what is ready; the longest wait is a delay at half the clock's pace.
        for _ in 0..10_000 {
            for host in 0..self.hosts.len() {
                self.drain_what_is_ready(host)?;
            }
            if self.hosts.iter().all(|host| host.model.backlog() == 0) {
                return self.tidy_up();
            }
            let event_ms = |host: &Host| Some(host.model.next_event_ms(host.now_ms)? - host.now_ms);
            let in_ms = self.hosts.iter().filter_map(event_ms).min().unwrap_or(0);
            self.wall_ms += in_ms + 1;
        }
        Err(Broken::new(
            "2: lost 0, unexpected 0",
            "messages are left, and no time makes them ready",
        ))
    }

    fn drain_what_is_ready(&mut self, host: usize) -> Checked {
        self.wake(host)?;
        self.line = format!("drain q{host}");
        self.tick(host)?;
        loop {
            let request = PullRequest {
                batch_size: Some(100),
                visibility_timeout_ms: Some(1_000),
            };
            if self.pull_as(host, request, Face::Pull)? == 0 {
                break;
            }
            let leases = std::mem::take(&mut self.hosts[host].held);
            let acks: Vec<Presented<Leased>> = leases
                .iter()
                .map(|lease| self.present(host, lease))
                .collect();
            let texts: Vec<String> = acks.iter().map(|ack| ack.text.clone()).collect();
            let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
                queue.settle(sql, wall_ms, &texts, &[])
            })?;
            if let Some((settlement, _)) = done {
                let host = &mut self.hosts[host];
                if host.model.settled(host.now_ms, &acks, &[], &settlement)? {
                    host.wrote();
                }
            }
        }
        while self.hosts[host].model.moving() > 0 {
            self.ferry(host)?;
        }
        let line = std::mem::take(&mut self.line);
        self.history.add(line);
        checks::at_a_glance(&mut self.hosts[host])?;
        checks::metrics(&self.hosts[host])
    }

    /// Once more after the idempotency window, when nothing is remembered any more.
    fn tidy_up(&mut self) -> Checked {
        let behind_ms = |host: &Host| host.now_ms.saturating_sub(host.wall_ms(self.wall_ms));
        let behind_ms = self.hosts.iter().map(behind_ms).max().unwrap_or(0);
        self.wall_ms += behind_ms + 2 * limits::IDEMPOTENCY_WINDOW_MS;
        for host in 0..self.hosts.len() {
            self.wake(host)?;
            self.tick(host)?;
            checks::deep(&mut self.hosts[host])?;
            checks::tidy(&self.hosts[host])?;
            checks::drained(&self.hosts[host])?;
        }
        Ok(())
    }
}

fn name_of(host: usize) -> String {
    format!("queue-{host}")
}

fn copy_of(presented: &Presented<Leased>) -> Presented<Leased> {
    Presented {
        text: presented.text.clone(),
        says: presented.says,
    }
}

fn shown<'a>(presented: impl Iterator<Item = &'a Presented<Leased>>) -> String {
    let mut text = String::from("[");
    for (place, one) in presented.enumerate() {
        if place == 6 {
            text.push('…');
            break;
        }
        match one.says {
            Some(leased) => text.push_str(&format!("#{}/{} ", leased.copy, leased.attempts)),
            None => text.push_str("? "),
        }
    }
    text.push(']');
    text
}
