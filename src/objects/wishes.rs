//! What requests that can wait ask for: a pull over Cloudflare's API, a receive over the CloudEvents
//! face.

use super::poll::{Found, Wish};
use super::queue::Host;
use crate::cloudevents::answer::{answer, DONE};
use crate::cloudevents::receive::{encode_peeked, encode_received, Take};
use crate::queue::{Delivery, PullRequest, Pulled};
use crate::rest::{messages, Answer, ApiError, Plane};
use std::rc::Rc;

/// For how long messages of a receive are held until the answer has arrived, in milliseconds: then
/// they are acknowledged. What never arrives comes back after this at the latest.
const RECEIVE_LEASE_MS: u64 = 30_000;

/// A pull over Cloudflare's API.
pub struct PullWish(pub PullRequest);

impl PullWish {
    /// The answer, and the lease ids in it.
    pub fn pull(&self, host: &Host) -> Result<(Answer, Vec<String>), ApiError> {
        host.operate(Plane::Messages, |queue, sql, now_ms| {
            let pulled = queue.pull(sql, now_ms, self.0)?;
            let answer = messages::pull::encode_pulled(&pulled, &queue.metrics(sql)?)?;
            let lease_ids = pulled
                .deliveries
                .into_iter()
                .map(|delivery| delivery.lease_id);
            Ok::<_, ApiError>((answer, lease_ids.collect()))
        })
    }
}

impl Wish for PullWish {
    fn attempt(&self, host: &Host) -> Option<Found> {
        // The answer has begun, so an error can't be told any more: the poll waits on.
        let (answer, lease_ids) = self.pull(host).ok()?;
        (!lease_ids.is_empty()).then_some(Found {
            body: answer.body,
            lease_ids,
        })
    }

    fn nothing(&self, host: &Host) -> Vec<u8> {
        // The answer has begun with 200: also a queue that was deleted meanwhile brings nothing.
        let metrics = host.operate(Plane::Messages, |queue, sql, _| queue.metrics(sql));
        let metrics = metrics.unwrap_or_default();
        messages::pull::encode_pulled(&Pulled::default(), &metrics)
            .unwrap_or_else(Answer::from)
            .body
    }

    fn arrived(&self, _host: &Rc<Host>, _lease_ids: &[String]) {}
}

/// A receive over the CloudEvents face. Its messages are acknowledged when the answer has arrived.
pub struct TakeWish(pub Take);

impl Wish for TakeWish {
    fn attempt(&self, host: &Host) -> Option<Found> {
        let Take {
            max_messages,
            is_peek,
            channel,
            ..
        } = &self.0;
        if *is_peek {
            let peeked = host.operate(Plane::Messages, |queue, sql, now_ms| {
                queue.peek(sql, now_ms, *max_messages)
            });
            return peeked
                .ok()
                .filter(|peeked| !peeked.is_empty())
                .map(|peeked| Found {
                    body: encode_peeked(&peeked, channel),
                    lease_ids: Vec::new(),
                });
        }
        let pulled = host.operate(Plane::Messages, |queue, sql, now_ms| {
            queue.take(sql, now_ms, *max_messages, RECEIVE_LEASE_MS)
        });
        let deliveries = pulled.ok()?.deliveries;
        (!deliveries.is_empty()).then(|| Found {
            body: encode_received(&deliveries, channel),
            lease_ids: deliveries.into_iter().map(lease_id).collect(),
        })
    }

    fn nothing(&self, _host: &Host) -> Vec<u8> {
        encode_received(&[], &self.0.channel)
    }

    fn arrived(&self, host: &Rc<Host>, lease_ids: &[String]) {
        // What can't be acknowledged now is delivered again when its lease ends.
        let _ = host.operate(Plane::Messages, |queue, sql, now_ms| {
            queue.settle(sql, now_ms, lease_ids, &[])
        });
    }
}

fn lease_id(delivery: Delivery) -> String {
    delivery.lease_id
}

/// A success of the CloudEvents face.
pub fn events_answer(body: Vec<u8>) -> Answer {
    answer(DONE, body)
}
