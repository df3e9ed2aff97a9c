//! What a target can do over one connection, and a buffered socket to do it with.

use crate::options::Options;
use crate::{beanstalkd, http, nats, postgres};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

/// No call takes longer than this.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// One connection. Every call returns when the target has confirmed it.
pub trait Client: Send {
    /// Makes the queue, where a target needs that.
    fn create(&mut self) -> Result<()> {
        Ok(())
    }

    /// Sends `batch` messages in what the target's protocol has for that.
    fn send(&mut self) -> Result<()>;

    /// Takes up to `batch` messages, waiting up to `wait_ms` for the first; says how many came.
    fn pull(&mut self, wait_ms: u64) -> Result<usize>;

    /// Acknowledges what the last pull brought.
    fn ack(&mut self) -> Result<()>;

    /// Removes the queue, where a target can.
    fn destroy(&mut self) -> Result<()> {
        Ok(())
    }
}

pub fn connect(options: &Options, batch: usize) -> Result<Box<dyn Client>> {
    let body = body(options.size);
    Ok(match options.target.as_str() {
        "queue" => Box::new(http::Queue::connect(options, &body, batch)?),
        "bare" => Box::new(http::Bare::connect(options, &body, batch)?),
        "beanstalkd" => Box::new(beanstalkd::Tube::connect(options, &body, batch)?),
        "nats" => Box::new(nats::JetStream::connect(options, &body, batch)?),
        "postgres" => Box::new(postgres::Pgmq::connect(options, &body, batch)?),
        other => return Err(format!("no such target: {other}").into()),
    })
}

/// A message's body: letters and digits that don't compress, since some targets compress what they
/// store.
pub fn body(size: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(ALPHABET[(state % 64) as usize])
        })
        .collect()
}

/// A socket and what was read from it and not used yet.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the unused bytes begin and end.
    start: usize,
    end: usize,
}

impl Connection {
    pub fn open(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Connection {
            stream,
            buffer: vec![0; 64 * 1024],
            start: 0,
            end: 0,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// The next line without its line end.
    pub fn line(&mut self) -> Result<&str> {
        let mut searched = self.start;
        let at = loop {
            match find(&self.buffer[searched..self.end], b"\r\n") {
                Some(at) => break searched + at,
                None => {
                    let unused = self.end - self.start;
                    self.read_more()?;
                    searched = self.start + unused.saturating_sub(1);
                }
            }
        };
        let line = self.start..at;
        self.start = at + 2;
        Ok(std::str::from_utf8(&self.buffer[line])?)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&[u8]> {
        while self.end - self.start < count {
            self.read_more()?;
        }
        let from = self.start;
        self.start += count;
        Ok(&self.buffer[from..from + count])
    }

    fn read_more(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err("the connection was closed".into()),
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

pub fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|&byte| byte == first) {
        let at = from + at;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}
