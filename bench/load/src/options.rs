//! The command line of one measurement.

use crate::client::Error;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Options {
    /// `queue` (pullq's API), `bare` (one POST), `beanstalkd`, `nats`, `postgres`.
    pub target: String,
    /// Host and port.
    pub address: String,
    /// The path of the queue or of the bare object, the tube, the stream, or the queue of pgmq.
    pub queue: String,
    /// The bearer token over HTTP.
    pub token: String,
    pub workload: Workload,
    pub connections: usize,
    /// Messages in a call.
    pub batch: usize,
    /// Bytes of a message's body.
    pub size: usize,
    /// How long is measured.
    pub during: Duration,
    /// Calls of one connection before the measurement begins.
    pub warm_up: usize,
    /// How long each of several connections pauses before a call. workerd looks at other connections only when the one
    /// that it answered has nothing more to read: without a pause the first few starve the others.
    pub pause: Duration,
    /// Messages sent before the measurement begins.
    pub prefill: usize,
    /// Hand-overs that are measured.
    pub count: usize,
    /// Removes what was sent, where a target can.
    pub clean_up: bool,
    /// The server whose CPU time is read, its children included.
    pub server_pid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Sends.
    Send,
    /// Pulls and acknowledges what `prefill` sent, until it is over.
    Drain,
    /// Sends, pulls, acknowledges.
    Cycle,
    /// A consumer waits, a producer sends.
    HandOver,
    /// Only what `prefill` does.
    Fill,
}

impl Options {
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, Error> {
        let mut options = Options {
            target: "queue".into(),
            address: String::new(),
            queue: String::new(),
            token: String::new(),
            workload: Workload::Send,
            connections: 1,
            batch: 1,
            size: 200,
            during: Duration::from_secs(1),
            warm_up: 5,
            pause: Duration::ZERO,
            prefill: 0,
            count: 50,
            clean_up: false,
            server_pid: None,
        };
        let mut arguments = arguments;
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or(format!("{flag} has no value"))?;
            match flag.as_str() {
                "--target" => options.target = value,
                "--address" => options.address = value,
                "--queue" => options.queue = value,
                "--token" => options.token = value,
                "--workload" => options.workload = workload(&value)?,
                "--connections" => options.connections = value.parse()?,
                "--batch" => options.batch = value.parse()?,
                "--size" => options.size = value.parse()?,
                "--seconds" => options.during = Duration::from_secs_f64(value.parse()?),
                "--warm-up" => options.warm_up = value.parse()?,
                "--pause-ms" => {
                    options.pause = Duration::from_secs_f64(value.parse::<f64>()? / 1e3)
                }
                "--prefill" => options.prefill = value.parse()?,
                "--count" => options.count = value.parse()?,
                "--server-pid" => options.server_pid = Some(value.parse()?),
                "--clean-up" => options.clean_up = value == "on",
                _ => return Err(format!("no such flag: {flag}").into()),
            }
        }
        Ok(options)
    }
}

fn workload(name: &str) -> Result<Workload, Error> {
    Ok(match name {
        "send" => Workload::Send,
        "drain" => Workload::Drain,
        "cycle" => Workload::Cycle,
        "hand-over" => Workload::HandOver,
        "fill" => Workload::Fill,
        _ => return Err(format!("no such workload: {name}").into()),
    })
}
