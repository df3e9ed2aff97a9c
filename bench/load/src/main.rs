//! The benchmark's load generator.
//!
//! `load run --flag value …` does one measurement and prints it as one line of JSON; `load null` is a
//! server that does nothing, to see how fast the generator itself is.
//!
//! - [`workload`]: what is done, by how many connections, and how long each call took
//! - [`client`]: what every target can do: send, pull, acknowledge
//! - [`http`], [`beanstalkd`], [`nats`], [`postgres`]: the targets' protocols, over blocking sockets
//! - [`cpu`]: CPU time of this process and of the server
//! - [`null`]: the server that does nothing

mod beanstalkd;
mod client;
mod cpu;
mod http;
mod nats;
mod null;
mod options;
mod postgres;
mod workload;

use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("run") => Options::parse(arguments).and_then(|options| workload::run(&options)),
        Some("null") => null::serve(),
        _ => Err("load run --flag value …, or load null".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}
