//! One measurement: connections that do the same over and over, and what each call took.

use crate::client::{connect, Client, Result};
use crate::cpu::Cpu;
use crate::options::{Options, Workload};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// How many connections fill a queue, and with how many messages a call.
const FILL_CONNECTIONS: usize = 8;
/// A batch's bodies may be 256,000 bytes.
const FILL_BATCH: usize = 100;
const BATCH_BYTES: usize = 256_000;
/// How long a consumer waits in a hand-over.
const WAIT_MS: u64 = 20_000;
/// How long a hand-over's consumer gets to be waiting again.
const BETWEEN_HAND_OVERS: Duration = Duration::from_millis(15);

/// What a connection measured; microseconds.
#[derive(Default)]
struct Tally {
    messages: usize,
    /// All calls of a step together.
    step_us: Vec<u32>,
    send_us: Vec<u32>,
    pull_us: Vec<u32>,
    ack_us: Vec<u32>,
    hand_over_us: Vec<u32>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.messages += other.messages;
        self.step_us.extend(other.step_us);
        self.send_us.extend(other.send_us);
        self.pull_us.extend(other.pull_us);
        self.ack_us.extend(other.ack_us);
        self.hand_over_us.extend(other.hand_over_us);
    }
}

/// Does the measurement and prints it.
pub fn run(options: &Options) -> Result<()> {
    let mut first = connect(options, 1)?;
    first.create()?;
    fill(options)?;
    let began = Instant::now();
    let (tally, elapsed, cpu) = match options.workload {
        Workload::Fill => (Tally::default(), began.elapsed(), Cpu::default()),
        Workload::HandOver => hand_over(options)?,
        _ => repeat(options)?,
    };
    if options.clean_up {
        first.destroy()?;
    }
    let calls = tally.send_us.len() + tally.pull_us.len() + tally.ack_us.len();
    println!(
        r#"{{"messages":{},"calls":{calls},"seconds":{:.4},"generator_cpu_seconds":{:.2},"server_cpu_seconds":{:.2},"step":{},"send":{},"pull":{},"ack":{},"hand_over":{}}}"#,
        tally.messages,
        elapsed.as_secs_f64(),
        cpu.generator_s,
        cpu.server_s,
        percentiles(tally.step_us),
        percentiles(tally.send_us),
        percentiles(tally.pull_us),
        percentiles(tally.ack_us),
        percentiles(tally.hand_over_us),
    );
    Ok(())
}

fn percentiles(mut us: Vec<u32>) -> String {
    if us.is_empty() {
        return "null".into();
    }
    us.sort_unstable();
    let at = |share: f64| us[((us.len() - 1) as f64 * share).round() as usize] as f64 / 1_000.0;
    format!(
        r#"{{"calls":{},"p50_ms":{:.3},"p90_ms":{:.3},"p99_ms":{:.3},"max_ms":{:.3}}}"#,
        us.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    )
}

/// Sends `prefill` messages, as fast as it can be done.
fn fill(options: &Options) -> Result<()> {
    let batch = FILL_BATCH.min(BATCH_BYTES / options.size.max(1)).max(1);
    let calls = options.prefill.div_ceil(batch);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..FILL_CONNECTIONS.min(calls))
            .map(|_| {
                scope.spawn(|| {
                    let mut client = connect(options, batch)?;
                    while next.fetch_add(1, Ordering::Relaxed) < calls {
                        if timed(options.pause, || client.send()).is_err() {
                            // workerd closes a connection that it has not looked at for five seconds.
                            client = connect(options, batch)?;
                            client.send()?;
                        }
                    }
                    Result::Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}

/// Every connection does the workload's calls again and again for the time given.
fn repeat(options: &Options) -> Result<(Tally, Duration, Cpu)> {
    let ready = Barrier::new(options.connections + 1);
    let go = Barrier::new(options.connections + 1);
    let over = AtomicBool::new(false);
    // The time from the start to the last call's end, of the connection that ended last.
    let total = Mutex::new((Tally::default(), Duration::ZERO));
    let mut cpu = Cpu::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.connections)
            .map(|_| {
                scope.spawn(|| {
                    let warm = connect(options, options.batch).and_then(|mut client| {
                        let mut unused = Tally::default();
                        for _ in 0..options.warm_up {
                            step(options, client.as_mut(), &mut unused)?;
                        }
                        Ok(client)
                    });
                    ready.wait();
                    go.wait();
                    let mut client = warm?;
                    let began = Instant::now();
                    let mut tally = Tally::default();
                    while began.elapsed() < options.during && !over.load(Ordering::Relaxed) {
                        if !step(options, client.as_mut(), &mut tally)? {
                            // The queue is empty: what the others still have out is their last.
                            over.store(true, Ordering::Relaxed);
                        }
                    }
                    let elapsed = began.elapsed();
                    let mut total = total.lock().map_err(|_| "a thread panicked")?;
                    total.0.add(tally);
                    total.1 = total.1.max(elapsed);
                    Result::Ok(())
                })
            })
            .collect();
        ready.wait();
        let before = Cpu::so_far(options.server_pid);
        go.wait();
        let done: Result<()> = threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?);
        cpu = Cpu::so_far(options.server_pid).since(&before);
        done
    })?;
    let (tally, elapsed) = total.into_inner().map_err(|_| "a thread panicked")?;
    Ok((tally, elapsed, cpu))
}

/// The calls that a connection repeats; false when there was nothing to pull.
fn step(options: &Options, client: &mut dyn Client, tally: &mut Tally) -> Result<bool> {
    // One connection alone starves nobody.
    let pause = if options.connections > 1 {
        options.pause
    } else {
        Duration::ZERO
    };
    let mut all_us = 0;
    if options.workload != Workload::Drain {
        let (us, ()) = timed(pause, || client.send())?;
        tally.send_us.push(us);
        tally.messages += options.batch;
        all_us += us;
    }
    if options.workload != Workload::Send {
        let (us, pulled) = timed(pause, || client.pull(0))?;
        if pulled == 0 {
            // In a cycle, another connection has this one's messages: it goes on with what it sends next.
            return Ok(options.workload == Workload::Cycle);
        }
        tally.pull_us.push(us);
        all_us += us;
        let (us, ()) = timed(pause, || client.ack())?;
        tally.ack_us.push(us);
        all_us += us;
        if options.workload == Workload::Drain {
            tally.messages += pulled;
        }
    }
    tally.step_us.push(all_us);
    Ok(true)
}

/// Microseconds that a call took, and what it gave back.
fn timed<T>(pause: Duration, call: impl FnOnce() -> Result<T>) -> Result<(u32, T)> {
    if !pause.is_zero() {
        std::thread::sleep(pause);
    }
    let began = Instant::now();
    let value = call()?;
    Ok((
        u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX),
        value,
    ))
}

/// Consumers wait, one message is sent, one of them gets it: from the send's first byte until the
/// message is there.
fn hand_over(options: &Options) -> Result<(Tally, Duration, Cpu)> {
    let sent_at = Mutex::new(Instant::now());
    let received = AtomicUsize::new(0);
    let tally = Mutex::new(Tally::default());
    let began = Instant::now();
    let before = Cpu::so_far(options.server_pid);
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..options.connections)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = connect(options, 1)?;
                    // One round more for each consumer, so that none is left waiting at the end.
                    while received.load(Ordering::Acquire) < options.count {
                        if client.pull(WAIT_MS)? == 0 {
                            continue;
                        }
                        let took = sent_at.lock().map_err(|_| "a thread panicked")?.elapsed();
                        received.fetch_add(1, Ordering::Release);
                        let mut tally = tally.lock().map_err(|_| "a thread panicked")?;
                        tally.messages += 1;
                        tally.hand_over_us.push(took.as_micros() as u32);
                        drop(tally);
                        client.ack()?;
                    }
                    Result::Ok(())
                })
            })
            .collect();
        let mut producer = connect(options, 1)?;
        for number in 0..options.count + options.connections - 1 {
            std::thread::sleep(BETWEEN_HAND_OVERS);
            *sent_at.lock().map_err(|_| "a thread panicked")? = Instant::now();
            producer.send()?;
            let deadline = Instant::now() + Duration::from_millis(WAIT_MS);
            while received.load(Ordering::Acquire) <= number {
                if Instant::now() > deadline || consumers.iter().all(|thread| thread.is_finished())
                {
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        consumers
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    let tally = tally.into_inner().map_err(|_| "a thread panicked")?;
    Ok((
        tally,
        began.elapsed(),
        Cpu::so_far(options.server_pid).since(&before),
    ))
}
