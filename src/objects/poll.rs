//! A request that waits for a message (long poll): its answer is a stream that begins at once and
//! carries a space now and then, which JSON allows, until the answer itself is there.
//!
//! The spaces tell who is still there. The runtime notices that a client has gone only when a write
//! fails, and then the stream is simply not read any more: what comes after a space runs only where
//! the space was taken. So a called waiter first sends two spaces and takes its messages after them.
//! An answer that is not taken either gives its messages back.

use super::line::{Waiter, SIGN_OF_LIFE_MS};
use super::platform::now_ms;
use super::queue::Host;
use futures_util::future::{select, Either};
use futures_util::stream::unfold;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use worker::{Delay, Error, Response, ResponseBuilder, Result};

/// Between the two spaces of a called waiter: long enough for a closed connection's refusal of the
/// first one to come back from nearby.
const BETWEEN_SPACES: Duration = Duration::from_millis(2);
/// An answer that nobody has taken for so long is given back.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// What a waiting request asks for.
pub trait Wish {
    /// Takes messages, if there are any now.
    fn attempt(&self, host: &Host) -> Option<Found>;
    /// The answer when none have come.
    fn nothing(&self, host: &Host) -> Vec<u8>;
    /// The answer has been taken.
    fn arrived(&self, host: &Rc<Host>, lease_ids: &[String]);
}

/// Messages that were taken for a waiter.
pub struct Found {
    /// The answer in final form.
    pub body: Vec<u8>,
    /// What is given back when nobody takes the answer.
    pub lease_ids: Vec<String>,
}

enum Stage {
    /// Waiting to be called, with a space now and then.
    Wait,
    /// Called; one space was sent.
    Called,
    /// Two spaces were taken: whoever waits is there.
    Take,
    /// The answer is in the stream.
    Answered,
    Over,
}

struct Poll {
    host: Rc<Host>,
    waiter: Rc<Waiter>,
    wish: Rc<dyn Wish>,
    deadline_ms: u64,
    stage: Stage,
    lease_ids: Rc<Vec<String>>,
    fate: Rc<Cell<Fate>>,
}

/// What became of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Arrived,
    TakenBack,
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.host.line().leave(&self.waiter);
    }
}

/// An answer that waits for messages up to `wait_ms`.
pub fn answer_when_there(host: &Rc<Host>, wish: Rc<dyn Wish>, wait_ms: u64) -> Result<Response> {
    let poll = Poll::new(host, wish, wait_ms);
    host.call_next();
    ResponseBuilder::new()
        .with_header("content-type", "application/json")?
        .from_stream(Box::pin(unfold(poll, next_chunk)))
}

/// An answer whose messages were taken already, and which says when it has arrived.
pub fn answer_with(host: &Rc<Host>, wish: Rc<dyn Wish>, found: Found) -> Result<Response> {
    let mut poll = Poll::new(host, wish, 0);
    let body = poll.hand_over(found);
    let first = futures_util::stream::once(async { Ok::<_, Error>(body) });
    let rest = unfold(poll, next_chunk);
    ResponseBuilder::new()
        .with_header("content-type", "application/json")?
        .from_stream(Box::pin(futures_util::StreamExt::chain(first, rest)))
}

async fn next_chunk(mut poll: Poll) -> Option<(Result<Vec<u8>>, Poll)> {
    let chunk = poll.next().await?;
    Some((chunk, poll))
}

impl Poll {
    /// A poll in line, until it leaves with an answer.
    fn new(host: &Rc<Host>, wish: Rc<dyn Wish>, wait_ms: u64) -> Poll {
        let now_ms = now_ms();
        Poll {
            host: Rc::clone(host),
            waiter: host.line().join(now_ms),
            wish,
            deadline_ms: now_ms.saturating_add(wait_ms),
            stage: Stage::Wait,
            lease_ids: Rc::new(Vec::new()),
            fate: Rc::new(Cell::new(Fate::Open)),
        }
    }

    async fn next(&mut self) -> Option<Result<Vec<u8>>> {
        self.waiter.show(now_ms());
        loop {
            match self.stage {
                Stage::Wait => {
                    let left_ms = self.deadline_ms.saturating_sub(now_ms());
                    if left_ms == 0 {
                        let answer = self.last_answer();
                        self.arm().await;
                        return Some(Ok(answer));
                    }
                    let nap = Delay::from(Duration::from_millis(left_ms.min(SIGN_OF_LIFE_MS)));
                    if let Either::Left(_) = select(pin!(self.waiter.call()), pin!(nap)).await {
                        self.stage = Stage::Called;
                    }
                    return Some(Ok(space()));
                }
                Stage::Called => {
                    Delay::from(BETWEEN_SPACES).await;
                    self.stage = Stage::Take;
                    return Some(Ok(space()));
                }
                Stage::Take => match self.wish.attempt(&self.host) {
                    Some(found) => {
                        self.arm().await;
                        return Some(Ok(self.hand_over(found)));
                    }
                    None => {
                        self.host.line().stay(&self.waiter);
                        self.stage = Stage::Wait;
                    }
                },
                Stage::Answered => {
                    self.stage = Stage::Over;
                    if self.fate.get() == Fate::TakenBack {
                        // The messages may be somebody else's by now: this answer must not count.
                        return Some(Err(Error::from("the answer was not taken in time")));
                    }
                    self.fate.set(Fate::Arrived);
                    self.wish.arrived(&self.host, &self.lease_ids);
                }
                Stage::Over => return None,
            }
        }
    }

    /// A lease's end may be the next thing that happens by itself.
    async fn arm(&self) {
        // An alarm that can't be set now is set by the next request.
        let _ = self.host.arm().await;
    }

    /// The answer at the deadline: what is there at last, or nothing.
    fn last_answer(&mut self) -> Vec<u8> {
        match self.wish.attempt(&self.host) {
            Some(found) => self.hand_over(found),
            None => {
                self.host.line().leave(&self.waiter);
                self.stage = Stage::Over;
                self.wish.nothing(&self.host)
            }
        }
    }

    fn hand_over(&mut self, found: Found) -> Vec<u8> {
        self.host.line().leave(&self.waiter);
        // There may be more than this one took.
        self.host.call_next();
        self.stage = Stage::Answered;
        self.lease_ids = Rc::new(found.lease_ids);
        if !self.lease_ids.is_empty() {
            self.watch();
        }
        found.body
    }

    /// Gives the messages back when nobody takes the answer.
    fn watch(&self) {
        let host = Rc::clone(&self.host);
        let (fate, lease_ids) = (Rc::clone(&self.fate), Rc::clone(&self.lease_ids));
        self.host.later(TAKEN_WITHIN, async move {
            if fate.get() == Fate::Open {
                fate.set(Fate::TakenBack);
                host.take_back(&lease_ids).await;
            }
        });
    }
}

fn space() -> Vec<u8> {
    b" ".to_vec()
}
