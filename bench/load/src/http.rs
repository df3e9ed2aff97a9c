//! Pullq's API over HTTP/1.1, and the bare objects of the floor.

use crate::client::{find, Client, Connection, Result};
use crate::options::Options;

/// A queue behind pullq's API.
pub struct Queue {
    connection: Connection,
    send: Vec<u8>,
    pull: Vec<u8>,
    pull_wait_ms: u64,
    head: Head,
    batch: usize,
    lease_ids: Vec<String>,
    answer: Vec<u8>,
}

/// What the head of a request is made of.
struct Head {
    address: String,
    path: String,
    token: String,
}

impl Head {
    fn new(options: &Options) -> Head {
        Head {
            address: options.address.clone(),
            path: options.queue.clone(),
            token: options.token.clone(),
        }
    }

    fn request(&self, call: &str, body: &str) -> Vec<u8> {
        let Head {
            address,
            path,
            token,
        } = self;
        format!(
            "POST {path}{call} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json\r\nUser-Agent: load\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

impl Queue {
    pub fn connect(options: &Options, body: &str, batch: usize) -> Result<Queue> {
        let head = Head::new(options);
        let (call, message) = send_call(body, batch);
        let send = head.request(call, &message);
        Ok(Queue {
            connection: Connection::open(&options.address)?,
            send,
            pull: Vec::new(),
            pull_wait_ms: u64::MAX,
            head,
            batch,
            lease_ids: Vec::new(),
            answer: Vec::new(),
        })
    }
}

impl Client for Queue {
    fn send(&mut self) -> Result<()> {
        self.connection.write(&self.send)?;
        read_answer(&mut self.connection, &mut self.answer)
    }

    fn pull(&mut self, wait_ms: u64) -> Result<usize> {
        if self.pull_wait_ms != wait_ms {
            let wait = match wait_ms {
                0 => String::new(),
                _ => format!(r#","wait_ms":{wait_ms}"#),
            };
            let body = format!(r#"{{"batch_size":{}{wait}}}"#, self.batch);
            self.pull = self.head.request("/messages/pull", &body);
            self.pull_wait_ms = wait_ms;
        }
        self.connection.write(&self.pull)?;
        read_answer(&mut self.connection, &mut self.answer)?;
        self.lease_ids.clear();
        const KEY: &[u8] = br#""lease_id":""#;
        let mut rest = self.answer.as_slice();
        while let Some(at) = find(rest, KEY) {
            rest = &rest[at + KEY.len()..];
            let end = find(rest, b"\"").ok_or("a lease id without an end")?;
            self.lease_ids
                .push(String::from_utf8(rest[..end].to_vec())?);
            rest = &rest[end..];
        }
        Ok(self.lease_ids.len())
    }

    fn ack(&mut self) -> Result<()> {
        let acks: Vec<String> = self
            .lease_ids
            .iter()
            .map(|id| format!(r#"{{"lease_id":"{id}"}}"#))
            .collect();
        let body = format!(r#"{{"acks":[{}]}}"#, acks.join(","));
        self.connection
            .write(&self.head.request("/messages/ack", &body))?;
        read_answer(&mut self.connection, &mut self.answer)?;
        let counted = format!(r#""ackCount":{}"#, acks.len());
        match find(&self.answer, counted.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(format!(
                "not all acknowledged: {}",
                String::from_utf8_lossy(&self.answer)
            )
            .into()),
        }
    }
}

/// An object that takes one POST: what a send would have as its body.
pub struct Bare {
    connection: Connection,
    send: Vec<u8>,
    answer: Vec<u8>,
}

impl Bare {
    pub fn connect(options: &Options, body: &str, batch: usize) -> Result<Bare> {
        let (_, message) = send_call(body, batch);
        Ok(Bare {
            connection: Connection::open(&options.address)?,
            send: Head::new(options).request("", &message),
            answer: Vec::new(),
        })
    }
}

impl Client for Bare {
    fn send(&mut self) -> Result<()> {
        self.connection.write(&self.send)?;
        read_answer(&mut self.connection, &mut self.answer)
    }

    fn pull(&mut self, _wait_ms: u64) -> Result<usize> {
        Err("a bare object has nothing to pull".into())
    }

    fn ack(&mut self) -> Result<()> {
        Err("a bare object has nothing to acknowledge".into())
    }
}

/// The call that sends so many messages, below the queue's path, and its body.
fn send_call(body: &str, batch: usize) -> (&'static str, String) {
    let message = format!(r#"{{"body":"{body}","content_type":"text"}}"#);
    match batch {
        1 => ("/messages", message),
        _ => {
            let messages = vec![message; batch].join(",");
            ("/messages/batch", format!(r#"{{"messages":[{messages}]}}"#))
        }
    }
}

/// Reads a whole answer, its body into `answer`; anything but 200 is an error.
fn read_answer(connection: &mut Connection, answer: &mut Vec<u8>) -> Result<()> {
    let status: u32 = connection.line()?.get(9..12).unwrap_or_default().parse()?;
    let mut length = None;
    let mut chunked = false;
    loop {
        let line = connection.line()?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or("a header without a colon")?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    answer.clear();
    if chunked {
        loop {
            let size = usize::from_str_radix(connection.line()?, 16)?;
            answer.extend_from_slice(connection.bytes(size)?);
            connection.line()?;
            if size == 0 {
                break;
            }
        }
    } else {
        answer.extend_from_slice(connection.bytes(length.unwrap_or(0))?);
    }
    match status {
        200 => Ok(()),
        _ => Err(format!("{status}: {}", String::from_utf8_lossy(answer)).into()),
    }
}
