//! The world of one seed: some queues that are each other's dead-letter queues, producers and
//! consumers that do anything at any time, a wall clock that jumps, and crashes.
//!
//! Each seed has habits of its own (which operations are frequent, how often something fails, how
//! fast time passes), so that seeds differ in kind and not only in detail.

mod clients;
mod habits;
mod moves;

use super::broken::Broken;
use super::checks;
use super::database::{Database, Failure};
use super::history::History;
use super::host::{storage_failed, Fate, Host, Outcome, Trouble};
use super::model::{Leased, Presented};
use super::queue::{limits, Config, Consumer, PullRequest, Queue, Settings, SqlError};
use super::rng::Rng;
use clients::Face;
use habits::{Habits, Op, OPS};
use moves::Move;

const START_MS: u64 = 1_790_000_000_000;
/// Operations between two deep checks.
const DEEP_CHECK_EVERY: u64 = 64;
const HOUR_MS: u64 = 3_600_000;

type Checked = Result<(), Broken>;

/// What an operation that lasts brought, and whether its answer came through.
type Lasting<T> = (T, bool);

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
    pub redriven: u64,
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
            self.figures.redriven += counters.redriven;
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
            Op::SendTogether => self.send_together(host)?,
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
            Op::Redrive => self.redrive(host)?,
            Op::Restart => self.restart(host),
            Op::MakeAnew => {
                if self.rng.chance(200) {
                    let config = self.some_config(host, self.hosts.len(), true);
                    self.hosts[host] = self.new_host(config)?;
                }
            }
        }
        checks::at_a_glance(&mut self.hosts[host])?;
        if self.figures.operations.is_multiple_of(4) {
            checks::metrics(&mut self.hosts[host])?;
        }
        if self.figures.operations.is_multiple_of(DEEP_CHECK_EVERY) {
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
        if matches!(op, Op::Send | Op::SendBatch | Op::SendTogether)
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
            checks::metrics(&mut self.hosts[host])?;
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
    fn operate<T, E: Trouble>(
        &mut self,
        host: usize,
        work: impl FnOnce(&mut Queue, &Database, u64) -> Result<T, E>,
    ) -> Result<Option<Lasting<Result<T, E>>>, Broken> {
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
        work: impl FnOnce(&mut Queue, &Database, u64) -> Result<T, SqlError>,
    ) -> Result<Option<Lasting<T>>, Broken> {
        match self.operate(host, work)? {
            Some((Ok(value), answered)) => Ok(Some((value, answered))),
            Some((Err(error), _)) => Err(storage_failed(error)),
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
        checks::metrics(&mut self.hosts[host])
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
            checks::drained(&mut self.hosts[host])?;
        }
        Ok(())
    }
}

fn name_of(host: usize) -> String {
    format!("queue-{host}")
}
