//! Sending: a batch is taken whole or refused whole (promise 3), as one row where it can be.

use super::engine::{Queue, FIRST_DELAYED};
use super::limits;
use super::record::{MessageId, Record};
use super::sql::{Sql, SqlError, Value};
use super::varint;
use std::collections::BTreeMap;
use thiserror::Error;

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// How `content` is encoded: the protocol faces' own mark.
    pub form: u8,
    /// The message in the form in which it is served.
    pub content: Vec<u8>,
    /// Bytes of its body, as its sender and the backlog count them.
    pub size: u64,
    /// Delay of this message in seconds, up to [`limits::MAX_DELAY_S`]; without one the queue's
    /// own delay counts.
    pub delay_s: Option<u32>,
}

/// Messages to be sent together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendRequest {
    pub messages: Vec<NewMessage>,
    /// A second send with the same key within [`limits::IDEMPOTENCY_WINDOW_MS`] stores nothing and
    /// gets the first one's answer.
    pub idempotency_key: Option<String>,
}

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendReceipt {
    /// The messages' ids, in the order of the request.
    pub ids: Vec<MessageId>,
    /// When they were sent, in milliseconds since the Unix epoch.
    pub sent_ms: u64,
    /// True when the idempotency key was known: the answer is the first send's.
    pub repeated: bool,
}

impl SendReceipt {
    fn repeated(self) -> SendReceipt {
        SendReceipt {
            repeated: true,
            ..self
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// Messages as one block holds them.
#[derive(Default)]
struct Batch {
    payload: Vec<u8>,
    count: u64,
    bytes: u64,
}

impl Queue {
    /// Stores messages. `entropy` is random and new for each call: the messages' ids come from it.
    ///
    /// Rows written: one for messages without a delay; for each other delay one, and one more when
    /// all are delayed; one for an idempotency key, and later one when it is forgotten.
    pub fn send(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        entropy: &MessageId,
        request: SendRequest,
    ) -> Result<SendReceipt, SendError> {
        let mut receipts = self.send_together(sql, wall_ms, vec![(*entropy, request)])?;
        receipts.pop().ok_or(SendError::Storage(SqlError::Corrupt(
            "a send without a receipt",
        )))
    }

    /// Stores the messages of several sends, each with entropy of its own, as if they were one: the
    /// rows are shared. The receipts come in the order of the requests.
    pub fn send_together(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        requests: Vec<(MessageId, SendRequest)>,
    ) -> Result<Vec<SendReceipt>, SendError> {
        let now_ms = self.clock.advance(wall_ms);
        let mut by_delay: BTreeMap<u32, Vec<Batch>> = BTreeMap::new();
        let mut new_keys: BTreeMap<String, SendReceipt> = BTreeMap::new();
        let mut receipts = Vec::with_capacity(requests.len());
        for (entropy, request) in requests {
            if let Some(key) = &request.idempotency_key {
                let earlier = match new_keys.get(key) {
                    Some(receipt) => Some(receipt.clone().repeated()),
                    None => self.earlier_answer(sql, now_ms, key)?,
                };
                if let Some(receipt) = earlier {
                    receipts.push(receipt);
                    continue;
                }
            }
            let ids: Vec<MessageId> = (0..request.messages.len())
                .map(|index| message_id(&entropy, index))
                .collect();
            for (message, id) in request.messages.iter().zip(&ids) {
                let delay_s = message
                    .delay_s
                    .unwrap_or(self.config.settings.delivery_delay_s)
                    .min(limits::MAX_DELAY_S);
                add_record(
                    by_delay.entry(delay_s).or_default(),
                    &Record {
                        id: *id,
                        form: message.form,
                        size: message.size,
                        death: None,
                        content: &message.content,
                    },
                );
            }
            let receipt = SendReceipt {
                ids,
                sent_ms: now_ms,
                repeated: false,
            };
            if let Some(key) = request.idempotency_key {
                new_keys.insert(key, receipt.clone());
            }
            receipts.push(receipt);
        }
        if !by_delay.is_empty() {
            self.store_batches(sql, now_ms, by_delay)?;
        }
        for (key, receipt) in new_keys {
            self.remember_key(sql, now_ms, key, &receipt)?;
        }
        Ok(receipts)
    }

    /// Stores messages that came from another queue, delivered as soon as their turn comes.
    pub(super) fn store_records<'a>(
        &mut self,
        sql: &impl Sql,
        now_ms: u64,
        records: impl Iterator<Item = Record<'a>>,
    ) -> Result<(), SqlError> {
        let mut batches = Vec::new();
        for record in records {
            add_record(&mut batches, &record);
        }
        self.store_batches(sql, now_ms, BTreeMap::from([(0, batches)]))
    }

    fn store_batches(
        &mut self,
        sql: &impl Sql,
        now_ms: u64,
        by_delay: BTreeMap<u32, Vec<Batch>>,
    ) -> Result<(), SqlError> {
        for batch in by_delay.values().flatten() {
            self.ledger.counters.sent = self.ledger.counters.sent.saturating_add(batch.count);
            self.ledger.sent_bytes = self.ledger.sent_bytes.saturating_add(batch.bytes);
        }
        let all_delayed = !by_delay.contains_key(&0);
        // The longest delay first: the newest ledger is looked for in the last block that is not
        // delayed.
        for (delay_s, batches) in by_delay.into_iter().rev() {
            for batch in batches {
                let id = if delay_s == 0 {
                    self.ledger.last_block = self.ledger.last_block.saturating_add(1);
                    self.ledger.last_block
                } else {
                    self.delayed_id(sql, now_ms.saturating_add(u64::from(delay_s) * 1_000))?
                };
                self.write_block(sql, id, now_ms, batch)?;
            }
        }
        if all_delayed {
            self.write_tally(sql)?;
        }
        Ok(())
    }

    fn write_block(
        &mut self,
        sql: &impl Sql,
        id: u64,
        now_ms: u64,
        batch: Batch,
    ) -> Result<(), SqlError> {
        let ledger = self.next_ledger(sql)?;
        sql.execute(
            "INSERT INTO block (id, sent_ms, count, bytes, ledger, payload)
             VALUES (?, ?, ?, ?, ?, ?)",
            vec![
                id.into(),
                now_ms.into(),
                batch.count.into(),
                batch.bytes.into(),
                ledger,
                Value::Blob(batch.payload),
            ],
        )?;
        // A new block is the first of its kind where there is no other, or where it is delayed less.
        if id >= FIRST_DELAYED {
            self.oldest_ms.set(None);
        } else if self.oldest_ms.get() == Some(None) {
            self.oldest_ms.set(Some(Some(now_ms)));
        }
        let ready_ms = self.ready_ms(id);
        if let Some(ready_ms) = ready_ms {
            self.due.maturity_ms = self.due.maturity_ms.min(ready_ms);
        }
        let expiry_ms = self.expiry_ms(ready_ms.unwrap_or(now_ms));
        self.due.expiry_ms = self.due.expiry_ms.min(expiry_ms);
        Ok(())
    }

    /// A free id for a block that is ready at `ready_ms`, behind those that are there; ready a
    /// millisecond later where that one's ids are used up.
    fn delayed_id(&self, sql: &impl Sql, mut ready_ms: u64) -> Result<u64, SqlError> {
        loop {
            let first = self.first_ready_at(ready_ms);
            let end = self.first_ready_at(ready_ms.saturating_add(1));
            let last = sql.first(
                "SELECT id FROM block WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1",
                vec![first.into(), end.into()],
                |row| row.integer(0),
            )?;
            let id = last.map_or(first, |last| last.saturating_add(1));
            if id < end {
                return Ok(id.max(FIRST_DELAYED));
            }
            ready_ms = ready_ms.saturating_add(1);
        }
    }

    fn earlier_answer(
        &self,
        sql: &impl Sql,
        now_ms: u64,
        key: &str,
    ) -> Result<Option<SendReceipt>, SqlError> {
        let answer = sql.first(
            "SELECT answer FROM recent_key WHERE key = ? AND at_ms > ?",
            vec![
                Value::Text(key.to_owned()),
                now_ms.saturating_sub(limits::IDEMPOTENCY_WINDOW_MS).into(),
            ],
            |mut row| row.take_blob(0),
        )?;
        answer.map(|answer| decode_answer(&answer)).transpose()
    }

    fn remember_key(
        &mut self,
        sql: &impl Sql,
        now_ms: u64,
        key: String,
        receipt: &SendReceipt,
    ) -> Result<(), SqlError> {
        sql.execute(
            "INSERT INTO recent_key (key, at_ms, answer) VALUES (?, ?, ?)
             ON CONFLICT (key) DO UPDATE SET at_ms = excluded.at_ms, answer = excluded.answer",
            vec![
                Value::Text(key),
                now_ms.into(),
                Value::Blob(encode_answer(receipt)),
            ],
        )?;
        let forgotten_ms = now_ms.saturating_add(limits::IDEMPOTENCY_WINDOW_MS);
        self.due.keys_ms = self.due.keys_ms.min(forgotten_ms);
        Ok(())
    }
}

/// The id of the message at `index` of a send: the send's random bytes, the last two mixed with it.
fn message_id(entropy: &MessageId, index: usize) -> MessageId {
    let mut id = *entropy;
    let [.., high, low] = &mut id;
    let [index_high, index_low] = (index as u16).to_be_bytes();
    *high ^= index_high;
    *low ^= index_low;
    id
}

fn add_record(batches: &mut Vec<Batch>, record: &Record) {
    let full = |batch: &Batch| {
        batch.count >= limits::MAX_BLOCK_MESSAGES
            || batch.payload.len().saturating_add(record.content.len())
                > limits::MAX_BLOCK_PAYLOAD_BYTES
    };
    if batches.last().is_none_or(full) {
        batches.push(Batch::default());
    }
    if let Some(batch) = batches.last_mut() {
        record.put(&mut batch.payload);
        batch.count = batch.count.saturating_add(1);
        batch.bytes = batch.bytes.saturating_add(record.size);
    }
}

fn encode_answer(receipt: &SendReceipt) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + receipt.ids.len() * 16);
    varint::put(&mut out, receipt.sent_ms);
    for id in &receipt.ids {
        out.extend_from_slice(id);
    }
    out
}

fn decode_answer(mut input: &[u8]) -> Result<SendReceipt, SqlError> {
    const CORRUPT: SqlError = SqlError::Corrupt("an idempotency key's answer");
    let sent_ms = varint::take(&mut input).ok_or(CORRUPT)?;
    let (ids, rest) = input.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(CORRUPT);
    }
    Ok(SendReceipt {
        ids: ids.to_vec(),
        sent_ms,
        repeated: true,
    })
}
