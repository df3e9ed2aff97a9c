//! NATS JetStream's protocol: a stream with work-queue retention, one pull consumer, and every publish
//! and acknowledgement confirmed by the server before it counts.

use crate::client::{Client, Connection, Result};
use crate::options::Options;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long a delivered message may stay unacknowledged.
const ACK_WAIT_NS: u64 = 30_000_000_000;
const CONSUMER: &str = "workers";

static INBOXES: AtomicUsize = AtomicUsize::new(0);

pub struct JetStream {
    connection: Connection,
    stream: String,
    inbox: String,
    body: String,
    batch: usize,
    /// Batches sent so far.
    batches: usize,
    /// Where the last pull's messages are acknowledged.
    reply_subjects: Vec<String>,
}

/// A message from the server.
struct Delivered {
    reply_subject: Option<String>,
    /// The status line of a message that is none: "404 No Messages" and the like.
    status: Option<u32>,
    /// What answers are made of; empty for a stream's own messages.
    text: String,
}

impl JetStream {
    pub fn connect(options: &Options, body: &str, batch: usize) -> Result<JetStream> {
        let mut connection = Connection::open(&options.address)?;
        connection.line()?;
        let inbox = format!(
            "_INBOX.{}.{}",
            std::process::id(),
            INBOXES.fetch_add(1, Ordering::Relaxed)
        );
        connection.write(
            format!(
                "CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}}\r\n\
                 SUB {inbox} 1\r\nPING\r\n"
            )
            .as_bytes(),
        )?;
        while connection.line()? != "PONG" {}
        let stream = options.queue.clone();
        Ok(JetStream {
            connection,
            stream,
            inbox,
            body: body.to_string(),
            batch,
            batches: 0,
            reply_subjects: Vec::new(),
        })
    }

    fn publish(&mut self, subject: &str, payload: &str) -> Result<()> {
        let inbox = &self.inbox;
        let message = format!("PUB {subject} {inbox} {}\r\n{payload}\r\n", payload.len());
        self.connection.write(message.as_bytes())
    }

    fn request(&mut self, subject: &str, payload: &str) -> Result<String> {
        self.publish(subject, payload)?;
        let answer = self.next()?;
        match answer.text.contains("\"error\"") {
            true => Err(answer.text.into()),
            false => Ok(answer.text),
        }
    }

    fn next(&mut self) -> Result<Delivered> {
        loop {
            let line = self.connection.line()?.to_string();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["PING"] => self.connection.write(b"PONG\r\n")?,
                ["MSG", _, _, rest @ .., size] => {
                    let reply_subject = rest.first().map(|word| word.to_string());
                    let size: usize = size.parse()?;
                    let payload = self.connection.bytes(size + 2)?;
                    let text = match reply_subject {
                        Some(_) => String::new(),
                        None => String::from_utf8_lossy(&payload[..size]).into_owned(),
                    };
                    return Ok(Delivered {
                        reply_subject,
                        status: None,
                        text,
                    });
                }
                ["HMSG", _, _, rest @ .., head, size] => {
                    let reply_subject = rest.first().map(|word| word.to_string());
                    let (head, size): (usize, usize) = (head.parse()?, size.parse()?);
                    let payload = self.connection.bytes(size + 2)?;
                    let head = std::str::from_utf8(&payload[..head])?;
                    let status = head.get(9..12).and_then(|code| code.parse().ok());
                    return Ok(Delivered {
                        reply_subject,
                        status,
                        text: head.to_string(),
                    });
                }
                ["PONG"] | ["INFO", ..] | ["+OK"] => {}
                _ => return Err(line.into()),
            }
        }
    }
}

impl Client for JetStream {
    fn create(&mut self) -> Result<()> {
        let stream = self.stream.clone();
        self.request(
            &format!("$JS.API.STREAM.CREATE.{stream}"),
            &format!(
                r#"{{"name":"{stream}","subjects":["{stream}.m"],"retention":"workqueue","storage":"file","num_replicas":1,"discard":"old","allow_atomic":true}}"#
            ),
        )?;
        self.request(
            &format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{CONSUMER}"),
            &format!(
                r#"{{"stream_name":"{stream}","config":{{"durable_name":"{CONSUMER}","ack_policy":"explicit","ack_wait":{ACK_WAIT_NS},"max_ack_pending":100000,"deliver_policy":"all","replay_policy":"instant"}}}}"#
            ),
        )?;
        Ok(())
    }

    /// Several messages are an atomic batch: stored together or not at all, confirmed once.
    fn send(&mut self) -> Result<()> {
        let subject = format!("{}.m", self.stream);
        let body = &self.body;
        if self.batch == 1 {
            let body = body.clone();
            let answer = self.request(&subject, &body)?;
            return stored(&answer);
        }
        self.batches += 1;
        let inbox = &self.inbox;
        let mut out = String::new();
        for number in 1..=self.batch {
            let (reply_subject, commit) = match number == self.batch {
                true => (inbox.as_str(), "Nats-Batch-Commit: 1\r\n"),
                false => ("", ""),
            };
            let head = format!(
                "NATS/1.0\r\nNats-Batch-Id: {inbox}.{}\r\nNats-Batch-Sequence: {number}\r\n{commit}\r\n",
                self.batches
            );
            let size = head.len() + body.len();
            out.push_str(&format!(
                "HPUB {subject} {reply_subject} {} {size}\r\n{head}{body}\r\n",
                head.len()
            ));
        }
        self.connection.write(out.as_bytes())?;
        let answer = self.next()?;
        stored(&answer.text)
    }

    fn pull(&mut self, wait_ms: u64) -> Result<usize> {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", self.stream);
        let wait = match wait_ms {
            0 => "\"no_wait\":true".to_string(),
            _ => format!("\"expires\":{}", wait_ms * 1_000_000),
        };
        self.publish(&subject, &format!("{{\"batch\":{},{wait}}}", self.batch))?;
        self.reply_subjects.clear();
        while self.reply_subjects.len() < self.batch {
            let delivered = self.next()?;
            match (delivered.reply_subject, delivered.status) {
                (Some(reply_subject), None) => self.reply_subjects.push(reply_subject),
                // No messages, or the wait is over.
                (_, Some(404 | 408)) => break,
                (_, status) => return Err(format!("{status:?}: {}", delivered.text).into()),
            }
        }
        Ok(self.reply_subjects.len())
    }

    fn ack(&mut self) -> Result<()> {
        let inbox = &self.inbox;
        let acks: String = self
            .reply_subjects
            .iter()
            .map(|subject| format!("PUB {subject} {inbox} 4\r\n+ACK\r\n"))
            .collect();
        self.connection.write(acks.as_bytes())?;
        for _ in 0..self.reply_subjects.len() {
            let answer = self.next()?;
            if let Some(status) = answer.status {
                return Err(format!("not acknowledged: {status}").into());
            }
        }
        Ok(())
    }

    fn destroy(&mut self) -> Result<()> {
        let subject = format!("$JS.API.STREAM.DELETE.{}", self.stream);
        self.request(&subject, "").map(|_| ())
    }
}

fn stored(answer: &str) -> Result<()> {
    match answer.contains("\"seq\"") && !answer.contains("\"error\"") {
        true => Ok(()),
        false => Err(format!("not stored: {answer}").into()),
    }
}
