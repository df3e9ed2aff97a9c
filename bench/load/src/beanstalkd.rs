//! beanstalkd's protocol. A batch is so many commands written at once: it has no command for several
//! jobs.

use crate::client::{Client, Connection, Result};
use crate::options::Options;

/// How long a reserved job is leased for.
const TIME_TO_RUN_S: u32 = 30;

pub struct Tube {
    connection: Connection,
    send: Vec<u8>,
    batch: usize,
    job_ids: Vec<u64>,
}

impl Tube {
    pub fn connect(options: &Options, body: &str, batch: usize) -> Result<Tube> {
        let mut connection = Connection::open(&options.address)?;
        let tube = &options.queue;
        connection.write(format!("use {tube}\r\nwatch {tube}\r\nignore default\r\n").as_bytes())?;
        for _ in 0..3 {
            connection.line()?;
        }
        let put = format!("put 0 0 {TIME_TO_RUN_S} {}\r\n{body}\r\n", body.len());
        Ok(Tube {
            connection,
            send: put.repeat(batch).into_bytes(),
            batch,
            job_ids: Vec::new(),
        })
    }

    fn answers(&mut self, count: usize, wanted: &str) -> Result<()> {
        for _ in 0..count {
            let line = self.connection.line()?;
            if !line.starts_with(wanted) {
                return Err(format!("{wanted} wanted: {line}").into());
            }
        }
        Ok(())
    }
}

impl Client for Tube {
    fn send(&mut self) -> Result<()> {
        self.connection.write(&self.send)?;
        self.answers(self.batch, "INSERTED")
    }

    fn pull(&mut self, wait_ms: u64) -> Result<usize> {
        let reserve = format!("reserve-with-timeout {}\r\n", wait_ms / 1_000);
        self.connection
            .write(reserve.repeat(self.batch).as_bytes())?;
        self.job_ids.clear();
        for _ in 0..self.batch {
            let line = self.connection.line()?;
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("RESERVED"), Some(id), Some(bytes)) => {
                    let bytes: usize = bytes.parse()?;
                    self.job_ids.push(id.parse()?);
                    self.connection.bytes(bytes + 2)?;
                }
                (Some("TIMED_OUT"), ..) => {}
                _ => return Err(format!("not reserved: {line}").into()),
            }
        }
        Ok(self.job_ids.len())
    }

    fn ack(&mut self) -> Result<()> {
        let deletes: String = self
            .job_ids
            .iter()
            .map(|id| format!("delete {id}\r\n"))
            .collect();
        self.connection.write(deletes.as_bytes())?;
        self.answers(self.job_ids.len(), "DELETED")
    }
}
