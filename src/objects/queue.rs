//! A queue's object: one queue in one Durable Object.

use super::alarm::Alarm;
use super::internal::{self, Channel, Configuration, EventSend, Handover, Resolved};
use super::line::{Line, ANSWER_WITHIN_MS};
use super::platform::{
    answer_response, body_cut_off, counts_rows, failed, fetch_in_time, internal_answer,
    internal_request, json_bodies, log, now_ms, queue_names, random_bytes, read_json, ready_again,
    stub, told, Deadline, DIRECTORY, QUEUE,
};
use super::poll::{answer_when_there, answer_with, Found, Wish};
use super::report::Report;
use super::sql::{ObjectSql, Usage};
use super::turns::{OnTheWay, Ready, Turns, LONGEST_WAIT_MS};
use super::wishes::{events_answer, PullWish, TakeWish};
use crate::access::{AccessError, QueueNames};
use crate::cloudevents::receive::{encode_drained, Drain, Take};
use crate::cloudevents::EventsError;
use crate::overview::QueueState;
use crate::queue::{
    MessageId, Metrics, Queue, RedriveError, SendError, SendReceipt, SendRequest, SqlError,
};
use crate::rest::form::JsonBodies;
use crate::rest::messages::peek::PeekForm;
use crate::rest::messages::pull::PullCall;
use crate::rest::{
    self, messages, queues, redrive, AccountRoute, Answer, ApiError, MessageRoute, Plane,
    QueueRoute, Route,
};
use futures_channel::oneshot;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use worker::{durable_object, Delay, DurableObject, Env, Request, Response, State, Storage};

type Result<T, E = worker::Error> = std::result::Result<T, E>;

/// The header with which a send can be repeated safely; pullq's own.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// With the setting `COUNT_ROWS=on`, answers say in these headers how many rows the queue's object
/// has written and read since it woke, alarms included.
const ROWS_WRITTEN: &str = "x-pullq-rows-written";
const ROWS_READ: &str = "x-pullq-rows-read";
/// Moves that one alarm does before it yields to other requests.
const MOVES_PER_ALARM: u32 = 20;
/// A move that failed is tried again after this, twice as long each time.
const FIRST_MOVE_RETRY_MS: u64 = 1_000;
const LAST_MOVE_RETRY_MS: u64 = 60_000;

#[durable_object]
pub struct QueueObject {
    host: Rc<Host>,
}

/// What a queue's object has, shared with requests that wait.
pub struct Host {
    state: State,
    storage: Storage,
    env: Env,
    /// Opened from the tables at the first request; dropped after an operation that failed.
    queue: RefCell<Option<Queue>>,
    alarm: Alarm,
    line: Line,
    turns: Rc<Turns>,
    /// Sends of this turn, not yet stored.
    sends: RefCell<Vec<PendingSend>>,
    usage: Usage,
    json_bodies: JsonBodies,
    /// Moves to another queue that failed in a row.
    failed_moves: Cell<u32>,
    report: Report,
}

impl DurableObject for QueueObject {
    fn new(state: State, env: Env) -> QueueObject {
        QueueObject {
            host: Rc::new(Host {
                usage: Usage {
                    counts: counts_rows(&env),
                    ..Usage::default()
                },
                json_bodies: json_bodies(&env),
                storage: state.storage(),
                state,
                env,
                queue: RefCell::new(None),
                alarm: Alarm::new(),
                line: Line::default(),
                turns: Rc::default(),
                sends: RefCell::default(),
                failed_moves: Cell::new(0),
                report: Report::default(),
            }),
        }
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        match self.host.answer(&mut request).await {
            Ok(response) => Ok(response),
            Err(error) => answer_response(error.into()),
        }
    }

    async fn alarm(&self) -> Result<Response> {
        self.host.alarm().await?;
        Response::empty()
    }
}

impl Host {
    pub fn line(&self) -> &Line {
        &self.line
    }

    async fn alarm(self: &Rc<Self>) -> Result<()> {
        let storage = &self.storage;
        self.alarm.fired(storage).await?;
        let ticked = self.operate(Plane::Control, |queue, sql, now_ms| queue.tick(sql, now_ms));
        let next_ms = match ticked {
            Ok(()) => self.move_messages().await,
            Err(ApiError::QueueNotFound(_)) => None,
            // The fallback stands: the next alarm tries again.
            Err(_) => return Ok(()),
        };
        self.alarm.next(storage, next_ms).await?;
        // What time alone has done, no row says.
        self.report(true);
        self.call_next();
        Ok(())
    }

    async fn answer(self: &Rc<Self>, request: &mut Request) -> Result<Response, ApiError> {
        let on_the_way = self.turns.set_out();
        let path = request.path();
        let method = request.method().to_string();
        let key = request.headers().get(IDEMPOTENCY_KEY).ok().flatten();
        let body = request.bytes().await.map_err(body_cut_off)?;
        self.alarm
            .look_up(&self.storage)
            .await
            .map_err(|error| log(ApiError::Internal, "no alarm", &error))?;
        self.take_turn(on_the_way).await;
        let served = match path.as_str() {
            internal::CONFIGURE => Served::AtOnce(self.configure(&body)?),
            internal::DESTROY => Served::AtOnce(self.destroy().await?),
            internal::RECEIVE => Served::AtOnce(self.receive(&body)?),
            internal::PURGE => Served::AtOnce(self.purge()?),
            internal::SEND => Served::AtOnce(self.send_events(&body).await?),
            internal::TAKE => self.take(&body)?,
            internal::DRAIN => Served::AtOnce(self.drain(&body)?),
            internal::STATE => Served::AtOnce(self.state()?),
            _ => {
                let names = queue_names(request)?;
                self.check_name(&names)?;
                self.serve(&method, &path, &names, key, &body).await?
            }
        };
        self.arm().await?;
        self.report(false);
        self.call_next();
        match served {
            Served::AtOnce(mut answer) => {
                self.tell_usage(&mut answer);
                answer_response(answer)
            }
            Served::With(wish, found) => answer_with(self, wish, found),
            Served::WhenThere(wish, wait_ms) => answer_when_there(self, wish, wait_ms),
        }
        .map_err(failed)
    }

    /// Serves a request of a client.
    async fn serve(
        &self,
        method: &str,
        path: &str,
        names: &QueueNames,
        key: Option<String>,
        body: &[u8],
    ) -> Result<Served, ApiError> {
        let route = rest::route::route(method, path)?;
        let Route::Account {
            to: AccountRoute::Queue { to, .. },
            ..
        } = route
        else {
            return Err(ApiError::UnknownRoute);
        };
        let answer = match to {
            QueueRoute::Messages(MessageRoute::Pull) => {
                return self.pull(messages::pull::parse_pull(body)?)
            }
            QueueRoute::Messages(to) => self.messages(to, key, body).await,
            QueueRoute::Metrics => self.operate(Plane::Control, |queue, sql, now_ms| {
                let states = queue.states(sql, now_ms)?;
                Ok::<_, SqlError>(queues::encode_metrics(&queue.metrics(sql)?, states))
            }),
            QueueRoute::History => self.operate(Plane::Control, |queue, sql, now_ms| {
                let minutes = queue.history(sql, now_ms)?;
                Ok::<_, SqlError>(queues::encode_history(&minutes))
            }),
            QueueRoute::StartRedrive => self.start_redrive(names, body).await,
            QueueRoute::RedriveStatus => self.operate(Plane::Control, |queue, _, _| {
                Ok::<_, SqlError>(redrive::encode_redrive(queue.redrive().as_ref()))
            }),
            QueueRoute::StopRedrive => self.operate(Plane::Control, |queue, sql, now_ms| {
                let status = queue.stop_redrive(sql, now_ms)?;
                Ok::<_, SqlError>(redrive::encode_redrive(status.as_ref()))
            }),
            QueueRoute::PurgeStatus => self.operate(Plane::Control, |queue, _, _| {
                Ok::<_, SqlError>(queues::encode_purge_status(queue.purged_ms()))
            }),
            _ => Err(ApiError::UnknownRoute),
        };
        answer.map(Served::AtOnce)
    }

    /// Pulls at once where it can or must, and otherwise waits in line.
    fn pull(&self, call: PullCall) -> Result<Served, ApiError> {
        let wish = PullWish(call.request);
        if call.wait_ms > 0 && self.line.has_uncalled(now_ms()) {
            return Ok(Served::WhenThere(Rc::new(wish), call.wait_ms));
        }
        let (answer, found) = wish.pull(self)?;
        if found.is_empty() && call.wait_ms > 0 {
            return Ok(Served::WhenThere(Rc::new(wish), call.wait_ms));
        }
        Ok(Served::AtOnce(answer))
    }

    /// Stores what came over the CloudEvents face.
    async fn send_events(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let EventSend { sending, request } = EventSend::decode(body).map_err(failed)?;
        let sent = match self.check_channel(&sending.channel) {
            Ok(()) => self.send(request).await,
            Err(error) => Err(error),
        };
        Ok(match sent {
            Ok((receipt, _)) => sending.answer(&receipt),
            Err(error) => EventsError::from(error).into(),
        })
    }

    /// Serves a receive of the CloudEvents face.
    fn take(&self, body: &[u8]) -> Result<Served, ApiError> {
        let take: Take = serde_json::from_slice(body).map_err(failed)?;
        if let Err(error) = self.check_channel(&take.channel) {
            return Ok(Served::AtOnce(EventsError::from(error).into()));
        }
        let (wait_ms, is_peek) = (take.wait_ms, take.is_peek);
        let wish = Rc::new(TakeWish(take));
        let must_wait = wait_ms > 0 && self.line.has_uncalled(now_ms());
        Ok(match (!must_wait).then(|| wish.attempt(self)).flatten() {
            Some(found) if is_peek => Served::AtOnce(events_answer(found.body)),
            Some(found) => Served::With(wish, found),
            None if wait_ms > 0 => Served::WhenThere(wish, wait_ms),
            None => Served::AtOnce(events_answer(wish.nothing(self))),
        })
    }

    /// Serves an ack_all of the CloudEvents face.
    fn drain(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let drain: Drain = serde_json::from_slice(body).map_err(failed)?;
        let drained = self.check_channel(&drain.channel).and_then(|()| {
            self.operate(Plane::Messages, |queue, sql, now_ms| {
                queue.drain(sql, now_ms)
            })
        });
        Ok(match drained {
            Ok(count) => events_answer(encode_drained(count)),
            Err(error) => EventsError::from(error).into(),
        })
    }

    /// What `judge` says of the queue's name; needs no table where the queue is in memory.
    fn by_name(&self, judge: impl Fn(&str) -> bool) -> Result<bool, ApiError> {
        let judge = |queue: &Queue| judge(&queue.config().queue_name);
        let known = self.queue.borrow().as_ref().map(judge);
        match known {
            Some(judged) => Ok(judged),
            None => self.operate(Plane::Messages, |queue, _, _| {
                Ok::<_, SqlError>(judge(queue))
            }),
        }
    }

    /// Refuses a channel that this queue is not, or is no longer since it was renamed.
    fn check_channel(&self, channel: &str) -> Result<(), ApiError> {
        let is_this = self.by_name(|name| name == channel)?;
        match is_this {
            true => Ok(()),
            false => Err(ApiError::QueueNotFound(Plane::Messages)),
        }
    }

    async fn messages(
        &self,
        to: MessageRoute,
        key: Option<String>,
        body: &[u8],
    ) -> Result<Answer, ApiError> {
        match to {
            MessageRoute::Send => {
                let request = messages::send::parse_send(body, self.json_bodies, key)?;
                self.send(request).await.map(encode_sent)
            }
            MessageRoute::SendBatch => {
                let request = messages::send::parse_batch(body, self.json_bodies, key)?;
                self.send(request).await.map(encode_sent)
            }
            MessageRoute::Pull => Err(ApiError::UnknownRoute),
            MessageRoute::Settle => {
                let call = messages::settle::parse_settle(body)?;
                let settlement = self.operate(Plane::Messages, |queue, sql, now_ms| {
                    queue.settle(sql, now_ms, &call.acks, &call.retries)
                })?;
                Ok(messages::settle::encode_settled(&settlement))
            }
            MessageRoute::Extend => {
                let extensions = messages::settle::parse_extend(body)?;
                let settlement = self.operate(Plane::Messages, |queue, sql, now_ms| {
                    queue.extend(sql, now_ms, &extensions)
                })?;
                Ok(messages::settle::encode_extended(&settlement))
            }
            MessageRoute::Peek => self.peek(body, PeekForm::Peek),
            MessageRoute::Preview => self.peek(body, PeekForm::Preview),
            MessageRoute::PurgeRefs => {
                self.purge_refs(messages::peek::parse_refs(body)?, PeekForm::Peek)
            }
            MessageRoute::PreviewAck => {
                self.purge_refs(messages::peek::parse_preview_ack(body)?, PeekForm::Preview)
            }
        }
    }

    /// Stores messages, together with those of other sends that come in the same turn.
    async fn send(&self, request: SendRequest) -> Result<Sent, ApiError> {
        let (answer, sent) = oneshot::channel();
        self.sends.borrow_mut().push(PendingSend {
            entropy: random_bytes()?,
            request,
            answer,
        });
        // Others that were called to the same turn come first.
        ready_again().await;
        self.store_sends();
        sent.await.map_err(failed)?
    }

    /// Stores what has come so far; the first of a turn stores for all.
    fn store_sends(&self) {
        let pending = self.sends.take();
        if pending.is_empty() {
            return;
        }
        let mut answers = Vec::with_capacity(pending.len());
        let mut requests = Vec::with_capacity(pending.len());
        for send in pending {
            answers.push(send.answer);
            requests.push((send.entropy, send.request));
        }
        let stored = self.operate(Plane::Messages, |queue, sql, now_ms| {
            let receipts = queue.send_together(sql, now_ms, requests)?;
            Ok::<_, SendError>((receipts, queue.metrics(sql)?))
        });
        match stored {
            Ok((receipts, metrics)) => {
                for (answer, receipt) in answers.into_iter().zip(receipts) {
                    // One whose client has gone hears nothing.
                    let _ = answer.send(Ok((receipt, metrics.clone())));
                }
            }
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    fn peek(&self, body: &[u8], form: PeekForm) -> Result<Answer, ApiError> {
        let wanted = messages::peek::parse_peek(body)?;
        let peeked = self.operate(Plane::Messages, |queue, sql, now_ms| {
            queue.peek(sql, now_ms, wanted)
        })?;
        messages::peek::encode_peeked(&peeked, form)
    }

    fn purge_refs(&self, refs: Vec<String>, form: PeekForm) -> Result<Answer, ApiError> {
        let outcome = self.operate(Plane::Messages, |queue, sql, now_ms| {
            queue.purge_refs(sql, now_ms, &refs)
        })?;
        Ok(messages::peek::encode_refs_purged(&outcome, form))
    }

    /// Runs an operation of the queue in a transaction. What failed is undone, in the database and,
    /// by forgetting it, in memory.
    pub fn operate<T, E>(
        &self,
        plane: Plane,
        operation: impl FnOnce(&mut Queue, &ObjectSql<'_>, u64) -> Result<T, E>,
    ) -> Result<T, ApiError>
    where
        E: Into<ApiError> + std::fmt::Debug,
    {
        let now_ms = now_ms();
        // Taken out: after a failure there is nothing to put back.
        let known = self.queue.take();
        let (queue, value) = ObjectSql::transaction(&self.storage, &self.usage, |sql| {
            let opened = match known {
                Some(queue) => Some(queue),
                None => Queue::open(sql, now_ms).map_err(told)?,
            };
            let mut queue = opened.ok_or(ApiError::QueueNotFound(plane))?;
            self.report.woke(queue.writes());
            let value = operation(&mut queue, sql, now_ms).map_err(told)?;
            Ok::<_, ApiError>((queue, value))
        })?;
        self.queue.replace(Some(queue));
        Ok(value)
    }

    /// Waits for others that are on their way, so that one commit serves them all.
    async fn take_turn(&self, request: OnTheWay) {
        let Ready::Wait {
            called,
            turn,
            is_first,
        } = self.turns.ready(request)
        else {
            return;
        };
        if is_first {
            let turns = Rc::clone(&self.turns);
            self.later(Duration::from_millis(LONGEST_WAIT_MS), async move {
                turns.go(turn);
            });
        }
        // A caller that was dropped lets go as well.
        let _ = called.await;
    }

    fn configure(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let Configuration { version, config } = serde_json::from_slice(body).map_err(failed)?;
        let seal_key = random_bytes()?;
        let now_ms = now_ms();
        let known = self.queue.take();
        let queue = ObjectSql::transaction(&self.storage, &self.usage, |sql| {
            let opened = match known {
                Some(queue) => Some(queue),
                None => Queue::open(sql, now_ms)?,
            };
            let mut queue = match opened {
                Some(queue) => queue,
                None => Queue::create(sql, now_ms, config.clone(), &seal_key)?,
            };
            self.report.woke(queue.writes());
            queue.configure_as(sql, version, config)?;
            Ok(queue)
        })
        .map_err(told::<SqlError>)?;
        self.queue.replace(Some(queue));
        Ok(Answer::empty())
    }

    async fn destroy(&self) -> Result<Answer, ApiError> {
        let storage = &self.storage;
        self.alarm.next(storage, None).await.map_err(failed)?;
        // Others run while this waits, and may have opened the queue: before its tables go, and
        // after.
        self.queue.take();
        let deleted = storage.delete_all().await;
        self.queue.take();
        deleted.map_err(failed)?;
        Ok(Answer::empty())
    }

    fn purge(&self) -> Result<Answer, ApiError> {
        self.operate(Plane::Control, |queue, sql, now_ms| {
            queue.purge(sql, now_ms)
        })?;
        Ok(Answer::empty())
    }

    /// Refuses tokens that are for other queues.
    fn check_name(&self, names: &QueueNames) -> Result<(), ApiError> {
        if names.allow_all() {
            return Ok(());
        }
        match self.by_name(|name| names.allow(name)) {
            Ok(true) => Ok(()),
            _ => Err(AccessError::Insufficient.into()),
        }
    }

    fn receive(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let handover = Handover::decode(body).map_err(failed)?;
        self.operate(Plane::Control, |queue, sql, now_ms| {
            queue.receive(
                sql,
                now_ms,
                &handover.source,
                handover.number,
                &handover.messages,
            )
        })?;
        Ok(Answer::empty())
    }

    /// Begins to move messages on. A token must be good for the queue they go to; where each goes to
    /// its own, for all.
    async fn start_redrive(&self, names: &QueueNames, body: &[u8]) -> Result<Answer, ApiError> {
        let request = redrive::parse_redrive(body)?;
        // A queue that isn't there says so first.
        self.operate(Plane::Control, |_, _, _| Ok::<_, SqlError>(()))?;
        let is_allowed = match &request.destination {
            Some(destination) => names.allow(destination),
            None => names.allow_all(),
        };
        if !is_allowed {
            return Err(AccessError::Insufficient.into());
        }
        if let Some(destination) = &request.destination {
            self.find_destination(destination).await?;
        }
        self.operate(Plane::Control, |queue, sql, now_ms| {
            let status = queue.start_redrive(sql, now_ms, request)?;
            Ok::<_, RedriveError>(redrive::encode_redrive(Some(&status)))
        })
    }

    /// Refuses a destination that isn't there.
    async fn find_destination(&self, name: &str) -> Result<(), ApiError> {
        let wanted = Channel {
            name: name.to_owned(),
            make: false,
        };
        let body = serde_json::to_vec(&wanted).map_err(failed)?;
        let answer = self.ask_directory(internal::RESOLVE_CHANNEL, &body).await?;
        match answer.status_code() {
            200 => Ok(()),
            404 => Err(ApiError::DestinationNotFound),
            status => Err(log(ApiError::Unreachable, "the directory refused", &status)),
        }
    }

    /// Says how the queue stands.
    fn state(&self) -> Result<Answer, ApiError> {
        let state = self.operate(Plane::Control, |queue, sql, now_ms| {
            self.report.was_asked(queue.writes());
            let states = queue.states(sql, now_ms)?;
            Ok::<_, SqlError>(QueueState::of(states, &queue.metrics(sql)?))
        })?;
        internal_answer(&state)
    }

    /// Tells the directory, once until it asks, that the queue has done something.
    fn report(self: &Rc<Self>, by_time: bool) {
        let writes = self.queue.borrow().as_ref().map(Queue::writes);
        let Some(writes) = writes.filter(|&writes| self.report.is_due(writes, by_time, now_ms()))
        else {
            return;
        };
        let host = Rc::clone(self);
        self.state.wait_until(async move {
            if host.tell_directory().await.is_ok() {
                host.report.was_told(writes, now_ms());
            }
        });
    }

    async fn tell_directory(&self) -> Result<(), ApiError> {
        let (_, queue_id) = self.ids()?;
        self.ask_directory(internal::CHANGED, queue_id.as_bytes())
            .await?;
        Ok(())
    }

    /// The account and the queue that this object is for.
    fn ids(&self) -> Result<(String, String), ApiError> {
        let name = self.state.id().name().unwrap_or_default();
        let (account_id, queue_id) =
            internal::parse_queue_object_name(&name).ok_or(ApiError::Internal)?;
        Ok((account_id.to_owned(), queue_id.to_owned()))
    }

    async fn ask_directory(&self, path: &str, body: &[u8]) -> Result<Response, ApiError> {
        let (account_id, _) = self.ids()?;
        let directory = stub(&self.env, DIRECTORY, &account_id)?;
        fetch_in_time(&directory, internal_request(path, body)?, Deadline::PROMPT).await
    }

    /// Sees to it that the alarm fires in time for what happens next by itself.
    pub async fn arm(&self) -> Result<(), ApiError> {
        let next_ms = self.next_event_in_ms();
        match next_ms {
            Some(in_ms) => self
                .alarm
                .at_latest_in(&self.storage, in_ms)
                .await
                .map_err(failed),
            None => Ok(()),
        }
    }

    fn next_event_in_ms(&self) -> Option<u64> {
        self.queue
            .borrow()
            .as_ref()
            .and_then(Queue::next_event_in_ms)
    }

    /// Hands over what moves to other queues, and says in how many milliseconds the alarm is needed
    /// again.
    async fn move_messages(&self) -> Option<u64> {
        for _ in 0..MOVES_PER_ALARM {
            match self.move_once().await {
                Ok(true) => self.failed_moves.set(0),
                Ok(false) => break,
                Err(_) => {
                    let failed = self.failed_moves.get();
                    self.failed_moves.set(failed.saturating_add(1));
                    let retry_ms = FIRST_MOVE_RETRY_MS << failed.min(6);
                    return Some(retry_ms.min(LAST_MOVE_RETRY_MS));
                }
            }
        }
        self.next_event_in_ms()
    }

    /// Does the oldest move; false when there is none.
    async fn move_once(&self) -> Result<bool, ApiError> {
        let transfer = self.operate(Plane::Control, |queue, sql, _| queue.next_transfer(sql))?;
        let Some(transfer) = transfer else {
            return Ok(false);
        };
        let mut found = self
            .ask_directory(internal::RESOLVE, transfer.destination.as_bytes())
            .await?;
        let resolved: Resolved = read_json(&mut found).await?;

        let (account_id, queue_id) = self.ids()?;
        let object_name = internal::queue_object_name(&account_id, &resolved.queue_id);
        let destination = stub(&self.env, QUEUE, &object_name)?;
        let number = transfer.number;
        let handover = Handover {
            source: queue_id,
            number,
            messages: transfer.messages,
        };
        let request = internal_request(internal::RECEIVE, &handover.encode().map_err(failed)?)?;
        let taken = fetch_in_time(&destination, request, Deadline::PROMPT).await?;
        if taken.status_code() != 200 {
            return Err(log(
                ApiError::Unreachable,
                "a queue did not take messages",
                &taken.status_code(),
            ));
        }
        self.operate(Plane::Control, |queue, sql, now_ms| {
            queue.transferred(sql, now_ms, number)
        })?;
        Ok(true)
    }

    /// Adds what the object has cost so far, where that is counted.
    fn tell_usage(&self, answer: &mut Answer) {
        if self.usage.counts {
            let written = self.usage.rows_written.get() + self.alarm.times_armed();
            let read = self.usage.rows_read.get();
            answer.headers.push((ROWS_WRITTEN, written.to_string()));
            answer.headers.push((ROWS_READ, read.to_string()));
        }
    }

    /// Calls the first in line when there may be something for it.
    pub fn call_next(self: &Rc<Self>) {
        self.call(1);
    }

    /// Calls the first `count` in line. Calls that nobody answers go to the next ones.
    fn call(self: &Rc<Self>, count: usize) {
        let now_ms = now_ms();
        if !self.line.has_uncalled(now_ms) {
            return;
        }
        let may_deliver = match self.queue.borrow_mut().as_mut() {
            Some(queue) => queue.may_deliver(now_ms),
            None => true,
        };
        if may_deliver {
            let called = (0..count).filter(|_| self.line.call_next(now_ms)).count();
            let host = Rc::clone(self);
            self.later(Duration::from_millis(ANSWER_WITHIN_MS), async move {
                host.call(called.saturating_mul(2));
            });
        }
    }

    /// Does something after a while, whatever becomes of the request that asks for it.
    pub fn later(&self, after: Duration, what: impl Future<Output = ()> + 'static) {
        self.state.wait_until(async move {
            Delay::from(after).await;
            what.await;
        });
    }

    /// Makes messages deliverable again whose delivery never arrived.
    pub async fn take_back(self: &Rc<Self>, lease_ids: &[String]) {
        // What can't be taken back now comes back when its lease ends.
        let _ = self.operate(Plane::Messages, |queue, sql, now_ms| {
            queue.take_back(sql, now_ms, lease_ids)
        });
        self.call_next();
    }
}

/// A send that waits for its turn.
struct PendingSend {
    entropy: MessageId,
    request: SendRequest,
    answer: oneshot::Sender<Result<Sent, ApiError>>,
}

/// What was stored, and the backlog after it.
type Sent = (SendReceipt, Metrics);

fn encode_sent((receipt, metrics): Sent) -> Answer {
    messages::send::encode_sent(&receipt, &metrics)
}

/// How a request is served.
enum Served {
    AtOnce(Answer),
    /// With messages that count as delivered when the answer has arrived.
    With(Rc<dyn Wish>, Found),
    /// As soon as there are messages, after so many milliseconds at the latest.
    WhenThere(Rc<dyn Wish>, u64),
}
