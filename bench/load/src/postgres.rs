//! pgmq's functions over PostgreSQL's own protocol: prepared statements, a transaction for each call.

use crate::client::{Client, Connection, Result};
use crate::options::Options;

/// How long a read message is leased for.
const VISIBILITY_S: u32 = 30;
/// How often pgmq itself looks again while a reader waits: its default.
const POLL_INTERVAL_MS: u32 = 100;

pub struct Pgmq {
    connection: Connection,
    queue: String,
    send: Vec<u8>,
    batch: usize,
    message_ids: Vec<String>,
    rows: Vec<String>,
    out: Vec<u8>,
}

impl Pgmq {
    pub fn connect(options: &Options, body: &str, batch: usize) -> Result<Pgmq> {
        let message = format!(r#"{{"body":"{body}"}}"#);
        // An array's text form: its elements quoted, quotes in them escaped.
        let escaped = message.replace('"', "\\\"");
        let elements = vec![format!("\"{escaped}\""); batch].join(",");
        let mut client = Pgmq {
            connection: Connection::open(&options.address)?,
            queue: options.queue.clone(),
            send: Vec::new(),
            batch,
            message_ids: Vec::new(),
            rows: Vec::new(),
            out: Vec::new(),
        };
        client.start_up()?;
        for (name, sql) in [
            ("send", "SELECT pgmq.send($1::text, $2::jsonb)".to_string()),
            ("send_batch", "SELECT pgmq.send_batch($1::text, $2::jsonb[])".to_string()),
            ("read", format!("SELECT msg_id, message FROM pgmq.read($1::text, {VISIBILITY_S}, $2::int)")),
            (
                "read_waiting",
                format!(
                    "SELECT msg_id, message FROM \
                     pgmq.read_with_poll($1::text, {VISIBILITY_S}, $2::int, $3::int, {POLL_INTERVAL_MS})"
                ),
            ),
            ("delete", "SELECT pgmq.delete($1::text, $2::bigint[])".to_string()),
            ("delete_one", "SELECT pgmq.delete($1::text, $2::bigint)".to_string()),
            ("create", "SELECT pgmq.create($1::text)".to_string()),
            ("drop", "SELECT pgmq.drop_queue($1::text)".to_string()),
        ] {
            client.prepare(name, &sql)?;
        }
        client.send = match batch {
            1 => client.call("send", &[&options.queue, &message]),
            _ => client.call("send_batch", &[&options.queue, &format!("{{{elements}}}")]),
        };
        Ok(client)
    }

    fn start_up(&mut self) -> Result<()> {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for word in ["user", "postgres", "database", "postgres", ""] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        let mut message = (body.len() as u32 + 4).to_be_bytes().to_vec();
        message.extend(body);
        self.connection.write(&message)?;
        self.until_ready()
    }

    fn prepare(&mut self, name: &str, sql: &str) -> Result<()> {
        let mut parse = Vec::new();
        text(&mut parse, name);
        text(&mut parse, sql);
        parse.extend(0_u16.to_be_bytes());
        self.out.clear();
        message(&mut self.out, b'P', &parse);
        message(&mut self.out, b'S', &[]);
        self.connection.write(&self.out)?;
        self.until_ready()
    }

    /// Bind, Execute and Sync of a prepared statement with parameters in their text form.
    fn call(&self, name: &str, parameters: &[&str]) -> Vec<u8> {
        let mut bind = Vec::new();
        text(&mut bind, "");
        text(&mut bind, name);
        bind.extend(0_u16.to_be_bytes());
        bind.extend((parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            bind.extend((parameter.len() as u32).to_be_bytes());
            bind.extend(parameter.as_bytes());
        }
        bind.extend(0_u16.to_be_bytes());
        let mut execute = Vec::new();
        text(&mut execute, "");
        execute.extend(0_u32.to_be_bytes());
        let mut out = Vec::new();
        message(&mut out, b'B', &bind);
        message(&mut out, b'E', &execute);
        message(&mut out, b'S', &[]);
        out
    }

    fn run(&mut self, name: &str, parameters: &[&str]) -> Result<()> {
        let call = self.call(name, parameters);
        self.connection.write(&call)?;
        self.until_ready()
    }

    /// Reads messages until the server is ready for the next call; the rows' first columns are kept.
    fn until_ready(&mut self) -> Result<()> {
        self.rows.clear();
        let mut failure = None;
        loop {
            let head = self.connection.bytes(5)?;
            let kind = head[0];
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let body = self.connection.bytes(length - 4)?;
            match kind {
                b'D' => {
                    let size = i32::from_be_bytes([body[2], body[3], body[4], body[5]]);
                    let end = 6 + usize::try_from(size).unwrap_or(0);
                    self.rows
                        .push(String::from_utf8_lossy(&body[6..end]).into_owned());
                }
                b'E' => failure = Some(String::from_utf8_lossy(body).replace('\0', " ")),
                b'R' if body[..4] != [0, 0, 0, 0] => return Err("a password is wanted".into()),
                b'Z' => break,
                _ => {}
            }
        }
        match failure {
            Some(why) => Err(why.into()),
            None => Ok(()),
        }
    }
}

impl Client for Pgmq {
    fn create(&mut self) -> Result<()> {
        let queue = self.queue.clone();
        self.run("create", &[&queue])
    }

    fn send(&mut self) -> Result<()> {
        self.connection.write(&self.send)?;
        self.until_ready()
    }

    fn pull(&mut self, wait_ms: u64) -> Result<usize> {
        let queue = self.queue.clone();
        let batch = self.batch.to_string();
        match wait_ms {
            0 => self.run("read", &[&queue, &batch])?,
            _ => self.run(
                "read_waiting",
                &[&queue, &batch, &(wait_ms / 1_000).to_string()],
            )?,
        }
        self.message_ids = std::mem::take(&mut self.rows);
        Ok(self.message_ids.len())
    }

    fn ack(&mut self) -> Result<()> {
        let queue = self.queue.clone();
        let ids = self.message_ids.join(",");
        match self.message_ids.len() {
            1 => self.run("delete_one", &[&queue, &ids])?,
            _ => self.run("delete", &[&queue, &format!("{{{ids}}}")])?,
        }
        Ok(())
    }

    fn destroy(&mut self) -> Result<()> {
        let queue = self.queue.clone();
        self.run("drop", &[&queue])
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.as_bytes());
    out.push(0);
}

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}
