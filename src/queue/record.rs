//! How messages lie in a block's payload: one record after the other, each with its length.

use super::sql::SqlError;
use super::varint;

/// A message's id, random, the same for its whole life and in the dead-letter queue.
pub type MessageId = [u8; 16];

/// How a dead letter died, told to whoever receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Name of the queue in which it could not be delivered.
    pub queue_name: String,
    /// When it was first sent, in milliseconds since the Unix epoch.
    pub first_sent_ms: u64,
    /// How often it had been delivered when it was given up.
    pub attempts: u32,
}

/// One message in a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    pub id: MessageId,
    /// How `content` is encoded: the protocol faces' own mark.
    pub form: u8,
    /// The message's size as its sender and the backlog count it, in bytes.
    pub size: u64,
    pub death: Option<Death>,
    /// The message in the form in which it is served.
    pub content: &'a [u8],
}

const NO_DEATH: u8 = 0;
const WITH_DEATH: u8 = 1;

impl Record<'_> {
    /// Appends the record to a payload.
    pub fn put(&self, payload: &mut Vec<u8>) {
        let mut head = Vec::with_capacity(32);
        head.extend_from_slice(&self.id);
        head.push(self.form);
        varint::put(&mut head, self.size);
        match &self.death {
            None => head.push(NO_DEATH),
            Some(death) => {
                head.push(WITH_DEATH);
                varint::put(&mut head, death.first_sent_ms);
                varint::put(&mut head, u64::from(death.attempts));
                varint::put(&mut head, death.queue_name.len() as u64);
                head.extend_from_slice(death.queue_name.as_bytes());
            }
        }
        varint::put(payload, (head.len() + self.content.len()) as u64);
        payload.extend_from_slice(&head);
        payload.extend_from_slice(self.content);
    }
}

/// The records of a payload, in order, with their slots.
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub fn of(payload: &'a [u8]) -> Records<'a> {
        Records { rest: payload }
    }

    /// The record in `slot`, counted from 0.
    pub fn get(payload: &'a [u8], slot: u32) -> Result<Record<'a>, SqlError> {
        let mut records = Records::of(payload);
        for _ in 0..slot {
            records.skip()?;
        }
        records.next_record()
    }

    /// Passes over one record.
    pub fn skip(&mut self) -> Result<(), SqlError> {
        self.take_bytes().map(|_| ())
    }

    /// Reads one record.
    pub fn next_record(&mut self) -> Result<Record<'a>, SqlError> {
        parse(self.take_bytes()?).ok_or(CORRUPT)
    }

    fn take_bytes(&mut self) -> Result<&'a [u8], SqlError> {
        varint::take(&mut self.rest)
            .and_then(|length| varint::take_bytes(&mut self.rest, usize::try_from(length).ok()?))
            .ok_or(CORRUPT)
    }
}

const CORRUPT: SqlError = SqlError::Corrupt("a block's payload ends early");

fn parse(mut input: &[u8]) -> Option<Record<'_>> {
    let input = &mut input;
    let id = varint::take_bytes(input, 16)?.try_into().ok()?;
    let form = *varint::take_bytes(input, 1)?.first()?;
    let size = varint::take(input)?;
    let death = match *varint::take_bytes(input, 1)?.first()? {
        NO_DEATH => None,
        WITH_DEATH => {
            let first_sent_ms = varint::take(input)?;
            let attempts = u32::try_from(varint::take(input)?).ok()?;
            let length = usize::try_from(varint::take(input)?).ok()?;
            let name = varint::take_bytes(input, length)?;
            Some(Death {
                queue_name: String::from_utf8(name.to_vec()).ok()?,
                first_sent_ms,
                attempts,
            })
        }
        _ => return None,
    };
    Some(Record {
        id,
        form,
        size,
        death,
        content: input,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_put() {
        let first = Record {
            id: [7; 16],
            form: 3,
            size: 300,
            death: None,
            content: b"one",
        };
        let second = Record {
            id: [8; 16],
            form: 0,
            size: 0,
            death: Some(Death {
                queue_name: "källa".into(),
                first_sent_ms: 1_700_000_000_000,
                attempts: 4,
            }),
            content: b"",
        };
        let mut payload = Vec::new();
        first.put(&mut payload);
        second.put(&mut payload);
        assert_eq!(Records::get(&payload, 0), Ok(first));
        assert_eq!(Records::get(&payload, 1), Ok(second));
        assert_eq!(Records::get(&payload, 2), Err(CORRUPT));
    }
}
