//! A million messages waiting: the object still wakes, answers and stays small, in whichever form
//! they were sent. Counts are asserted and never times; `npm run scale` prints times.
//!
//! What is counted: rows and bytes that SQLite hands to the engine, steps of SQLite's own machine
//! (a scan hidden behind one row of answer shows there), and the bytes that the engine allocates
//! (SQLite is C and allocates beside that).

#[path = "sqlite/mod.rs"]
mod sqlite;

use pullq::queue;
use queue::{
    Config, Consumer, Flow, NewMessage, PullRequest, Queue, Row, SendRequest, Settings, Sql,
    SqlError, Value,
};
use rusqlite::StatementStatus;
use sqlite::NativeSql;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

const MESSAGES: u64 = 1_000_000;
const BODY_BYTES: usize = 100;
const START_MS: u64 = 1_700_000_000_000;
const MEGABYTE: usize = 1_000_000;
/// What an object may use (the design's budget), in bytes.
const MEMORY: usize = 64 * MEGABYTE;

/// Bytes that Rust code has allocated now, and the most there were since the last reset.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The tests count bytes of the whole process, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        System.dealloc(pointer, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What an operation cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    statements: u64,
    rows: u64,
    bytes: u64,
    /// Steps of SQLite's machine.
    steps: u64,
    /// The most memory at once beyond what there was before, in bytes.
    peak: usize,
    /// Memory that stayed, in bytes.
    kept: usize,
}

/// A database that counts.
struct Counted<'a> {
    sql: &'a NativeSql,
    cost: Cell<Cost>,
}

impl Sql for Counted<'_> {
    fn run(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
        read: &mut dyn FnMut(Row) -> Result<Flow, SqlError>,
    ) -> Result<(), SqlError> {
        let mut cost = self.cost.get();
        cost.statements += 1;
        let result = self.sql.run(statement, parameters, &mut |row| {
            cost.rows += 1;
            cost.bytes += row.0.iter().map(bytes).sum::<u64>();
            read(row)
        });
        // The statement is still in the cache, with what it did.
        if let Ok(prepared) = self.sql.connection().prepare_cached(statement) {
            let steps = prepared.reset_status(StatementStatus::VmStep);
            cost.steps += u64::from(steps.unsigned_abs());
        }
        self.cost.set(cost);
        result
    }
}

fn bytes(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::Integer(_) => 8,
        Value::Text(text) => text.len() as u64,
        Value::Blob(bytes) => bytes.len() as u64,
    }
}

/// Runs `work` and says what it cost.
fn counted<T>(sql: &NativeSql, work: impl FnOnce(&Counted<'_>) -> T) -> (T, Cost) {
    let counted = Counted {
        sql,
        cost: Cell::default(),
    };
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let value = work(&counted);
    let mut cost = counted.cost.get();
    cost.peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    cost.kept = ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
    (value, cost)
}

/// A database file that goes when the test ends.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let file =
            File(std::env::temp_dir().join(format!("pullq-{name}-{}.sqlite", std::process::id())));
        file.remove();
        file
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm"] {
            let mut path = self.0.clone().into_os_string();
            path.push(end);
            // There may be none.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.remove();
    }
}

fn config() -> Config {
    Config {
        queue_name: "scale".into(),
        settings: Settings::default(),
        consumer: Some(Consumer {
            visibility_timeout_ms: 600_000,
            ..Consumer::default()
        }),
    }
}

/// Sends `messages` in batches of `batch`, delayed by `delay_s`, with one commit for many sends.
fn fill(sql: &NativeSql, queue: &mut Queue, wall_ms: u64, messages: u64, batch: u64, delay_s: u32) {
    let content = message_content();
    let mut sent = 0;
    while sent < messages {
        sql.begin();
        for _ in 0..1_000 {
            let request = SendRequest {
                messages: (0..batch.min(messages - sent))
                    .map(|_| NewMessage {
                        form: 0,
                        content: content.clone(),
                        size: BODY_BYTES as u64,
                        delay_s: Some(delay_s),
                    })
                    .collect(),
                idempotency_key: None,
            };
            sent += request.messages.len() as u64;
            // The last bytes of an id say which message of a send it is.
            let entropy = (u128::from(sent) << 64).to_be_bytes();
            queue.send(sql, wall_ms, &entropy, request).expect("a send");
            if sent == messages {
                break;
            }
        }
        sql.commit();
    }
}

/// A text message as the REST API stores it.
fn message_content() -> Vec<u8> {
    let body = "x".repeat(BODY_BYTES);
    format!(
        r#""body":"{body}","metadata":{{"CF-Content-Type":"text","CF-sourceMessageSource":"api"}}"#
    )
    .into_bytes()
}

fn filled(path: &Path, batch: u64, delay_s: u32) -> NativeSql {
    let sql = NativeSql::in_file(path, &[]);
    let mut queue = Queue::create(&sql, START_MS, config(), &[7; 32]).expect("a queue");
    fill(&sql, &mut queue, START_MS, MESSAGES, batch, delay_s);
    sql
}

fn open(sql: &impl Sql, wall_ms: u64) -> Queue {
    Queue::open(sql, wall_ms)
        .expect("it opens")
        .expect("a queue")
}

/// Opens the queue, pulls and acknowledges, and checks what each costs.
fn wakes_and_answers(sql: &NativeSql, wall_ms: u64, batch: u64) {
    let (mut queue, opened) = counted(sql, |sql| open(sql, wall_ms));
    println!("  open: {opened:?}");
    assert!(
        opened.rows <= 10 && opened.bytes <= 2_000,
        "opening reads no payload and no list: {opened:?}"
    );
    assert!(opened.steps <= 1_000, "opening scans nothing: {opened:?}");
    assert!(opened.peak < 100_000, "{opened:?}");
    for wanted in [1, 100, 1, 100] {
        let request = PullRequest {
            batch_size: Some(wanted),
            visibility_timeout_ms: None,
        };
        let (pulled, pull) = counted(sql, |sql| {
            queue.pull(sql, wall_ms, request).expect("a pull")
        });
        println!("  pull of {wanted}: {pull:?}");
        assert_eq!(pulled.deliveries.len(), wanted as usize);
        let blocks = u64::from(wanted).div_ceil(batch);
        assert!(
            pull.rows <= 4 * blocks + 4,
            "a pull reads about what it brings: {pull:?}"
        );
        assert!(
            pull.steps <= 100 * blocks + 400,
            "a pull scans nothing: {pull:?}"
        );
        assert!(pull.peak < MEGABYTE, "{pull:?}");
        let acks: Vec<String> = pulled
            .deliveries
            .into_iter()
            .map(|delivery| delivery.lease_id)
            .collect();
        let (_, settled) = counted(sql, |sql| {
            queue.settle(sql, wall_ms, &acks, &[]).expect("an ack")
        });
        println!("  ack of {wanted}: {settled:?}");
        assert!(
            settled.steps <= 200 * blocks + 400,
            "an acknowledgement scans nothing: {settled:?}"
        );
    }
    let (metrics, cost) = counted(sql, |sql| queue.metrics(sql).expect("metrics"));
    assert_eq!(metrics.backlog_count, MESSAGES - 202);
    assert!(
        cost.steps <= 200,
        "the backlog is a subtraction, never a count: {cost:?}"
    );
    let (_, ticked) = counted(sql, |sql| queue.tick(sql, wall_ms + 1).expect("a tick"));
    println!("  alarm: {ticked:?}");
    assert!(
        ticked.steps <= 500,
        "an alarm with nothing to do scans nothing: {ticked:?}"
    );
}

/// Leases messages, one hold for each 100, with one commit for all.
fn pull_until_out(sql: &NativeSql, queue: &mut Queue, wall_ms: u64, out: usize) {
    sql.begin();
    while queue.messages_out() < out {
        let request = PullRequest {
            batch_size: Some(100),
            visibility_timeout_ms: None,
        };
        queue.pull(sql, wall_ms, request).expect("a pull");
    }
    sql.commit();
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn a_million_messages_in_blocks_of_100_cost_no_more_than_a_few() {
    let _alone = alone();
    let file = File::new("hundreds");
    let sql = filled(&file.0, 100, 0);
    wakes_and_answers(&sql, START_MS + 1, 100);
}

#[test]
fn a_million_messages_in_blocks_of_one_cost_no_more_than_a_few() {
    let _alone = alone();
    let file = File::new("ones");
    let sql = filled(&file.0, 1, 0);
    wakes_and_answers(&sql, START_MS + 1, 1);
}

/// The most that the object remembers: as many messages out as may be, each in a block of its own.
#[test]
fn the_most_messages_out_fit_into_the_memory() {
    let _alone = alone();
    let file = File::new("out");
    let sql = NativeSql::in_file(&file.0, &[]);
    let mut queue = Queue::create(&sql, START_MS, config(), &[7; 32]).expect("a queue");
    let out = queue::limits::MAX_MESSAGES_OUT as u64;
    fill(&sql, &mut queue, START_MS, out + 1_000, 1, 0);
    let (_, pulling) = counted(&sql, |_| {
        pull_until_out(&sql, &mut queue, START_MS, out as usize)
    });
    println!("  {out} messages out: {pulling:?}");
    drop(queue);
    let (queue, opened) = counted(&sql, |sql| open(sql, START_MS));
    println!("  open with {out} messages out: {opened:?}");
    assert_eq!(queue.messages_out(), out as usize);
    assert!(opened.peak < MEMORY, "{opened:?}");
    assert!(opened.kept < MEMORY, "{opened:?}");
}

/// A tool and no test: sends `PULLQ_SCALE_MESSAGES` in batches of `PULLQ_SCALE_BATCH` into the
/// database of a queue's object, `PULLQ_SCALE_FILE`, while no server has it open, and pulls
/// `PULLQ_SCALE_OUT` of them. `npm run scale` runs it: a million requests over HTTP take too long.
#[test]
#[ignore = "a tool for npm run scale"]
fn fill_an_objects_database() {
    let setting = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let number = |name: &str| -> u64 {
        let value = setting(name).parse();
        value.unwrap_or_else(|_| panic!("{name} is no number"))
    };
    let sql = NativeSql::in_file(Path::new(&setting("PULLQ_SCALE_FILE")), &[]);
    let wall_ms = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    let mut queue = open(&sql, wall_ms);
    let (messages, batch) = (number("PULLQ_SCALE_MESSAGES"), number("PULLQ_SCALE_BATCH"));
    fill(&sql, &mut queue, wall_ms, messages, batch, 0);
    pull_until_out(
        &sql,
        &mut queue,
        wall_ms,
        number("PULLQ_SCALE_OUT") as usize,
    );
}
