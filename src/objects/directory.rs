//! An account's directory: one Durable Object that knows the account's queues.

use super::alarm::Alarm;
use super::internal::{self, Channel, Configuration, Resolved};
use super::platform::{
    answer_response, body_cut_off, failed, fetch_in_time, internal_answer, internal_request, log,
    now_ms, query, queue_names, random_bytes, read_json, stub, told, Deadline, QUEUE,
};
use super::sql::{ObjectSql, Usage};
use crate::access::{AccessError, QueueNames};
use crate::cloudevents::EventsError;
use crate::directory::{Directory, Entry, List, Pending, Task, MAX_QUEUES, SCHEMA};
use crate::overview::{encode_overview, prometheus, Known, QueueState};
use crate::queue::{Config, Consumer, Settings, Sql, SqlError};
use crate::rest::page::{parse_list, parse_since, ListQuery};
use crate::rest::{
    self, consumers, queues, AccountRoute, Answer, ApiError, Id, Plane, QueueRoute, Route,
};
use futures_util::future::join_all;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use worker::{durable_object, DurableObject, Env, Request, Response, Result, State};

/// Changes that one alarm hands on.
const PENDING_PER_ALARM: u64 = 50;
/// What could not be handed to a queue's object is tried again after this.
const RETRY_MS: u64 = 5_000;

/// Queues that are asked for one look at all: a request of the free plan may make 50 itself
/// (Workers). Others are asked at the next look, and shown as they stood before.
const ASKED_AT_ONCE: u64 = 45;

#[durable_object]
pub struct DirectoryObject {
    state: State,
    env: Env,
    alarm: Alarm,
    usage: Usage,
    has_tables: Cell<bool>,
    /// Names of queues that a request is creating right now: others can't have them.
    creating: RefCell<BTreeSet<String>>,
}

impl DurableObject for DirectoryObject {
    fn new(state: State, env: Env) -> DirectoryObject {
        DirectoryObject {
            state,
            env,
            alarm: Alarm::new(),
            usage: Usage::default(),
            has_tables: Cell::new(false),
            creating: RefCell::new(BTreeSet::new()),
        }
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let answer = match self.answer(&mut request).await {
            Ok(answer) => answer,
            Err(error) => error.into(),
        };
        answer_response(answer)
    }

    /// Hands on what a crash or an unreachable object left pending.
    async fn alarm(&self) -> Result<Response> {
        let storage = self.state.storage();
        self.alarm.fired(&storage).await?;
        let next_ms = match self.hand_on_pending().await {
            Ok(false) => None,
            Ok(true) | Err(_) => Some(RETRY_MS),
        };
        self.alarm.next(&storage, next_ms).await?;
        Response::empty()
    }
}

/// What a control request is about, read once.
struct Call<'a> {
    names: QueueNames,
    query: &'a str,
    body: &'a [u8],
}

impl DirectoryObject {
    async fn answer(&self, request: &mut Request) -> Result<Answer, ApiError> {
        let (path, query) = (request.path(), query(request));
        let method = request.method().to_string();
        let names = queue_names(request)?;
        let body = request.bytes().await.map_err(body_cut_off)?;
        self.alarm
            .look_up(&self.state.storage())
            .await
            .map_err(failed)?;
        match path.as_str() {
            internal::RESOLVE => return self.resolve(&body).await,
            internal::RESOLVE_CHANNEL => {
                return Ok(match self.resolve_channel(&body).await {
                    Ok(answer) => answer,
                    Err(error) => EventsError::from(error).into(),
                });
            }
            internal::CHANGED => {
                let queue_id = String::from_utf8(body).map_err(failed)?;
                self.operate(|directory| directory.mark_changed(&queue_id))?;
                return Ok(Answer::empty());
            }
            internal::METRICS => {
                let known = self.known(&names).await?;
                let account_id = self.state.id().name().unwrap_or_default();
                return Ok(prometheus::answer(&account_id, &known, now_ms()));
            }
            _ => {}
        }
        let call = Call {
            names,
            query: &query,
            body: &body,
        };
        match rest::route::route(&method, &path)? {
            Route::Account { to, .. } => self.serve(to, call).await,
            _ => Err(ApiError::UnknownRoute),
        }
    }

    async fn serve(&self, to: AccountRoute, call: Call<'_>) -> Result<Answer, ApiError> {
        match to {
            AccountRoute::CreateQueue => {
                let create = queues::parse_create(call.body)?;
                call.allow(&create.name)?;
                let entry = self.create(&create.name, create.settings).await?;
                Ok(queues::encode_queue(&entry))
            }
            AccountRoute::ListQueues => {
                let query = parse_list(call.query)?;
                let list = self.list(&query, &call.names)?;
                Ok(queues::encode_list(&list, query.page))
            }
            AccountRoute::Overview => {
                let since_ms = parse_since(call.query)?;
                let known = self.known(&call.names).await?;
                Ok(encode_overview(&known, since_ms, now_ms()))
            }
            AccountRoute::Queue { queue, to } => self.serve_queue(&queue, to, call).await,
            _ => Err(ApiError::UnknownRoute),
        }
    }

    async fn serve_queue(
        &self,
        queue: &Id,
        to: QueueRoute,
        call: Call<'_>,
    ) -> Result<Answer, ApiError> {
        let queue_id = queue.as_str();
        let entry = self
            .operate(|directory| directory.get(queue_id))?
            .filter(|entry| call.names.allow(&entry.name));
        let entry = entry.ok_or_else(|| call.not_found())?;
        let now_ms = now_ms();
        match to {
            QueueRoute::Get => Ok(queues::encode_queue(&entry)),
            QueueRoute::Replace | QueueRoute::Patch => {
                let update = queues::parse_update(call.body)?;
                let name = update.name.clone().unwrap_or_else(|| entry.name.clone());
                call.allow(&name)?;
                let settings = match to {
                    QueueRoute::Replace => update.replace(),
                    _ => update.patch(&entry.settings),
                };
                let entry = self
                    .change(|directory| directory.update(queue_id, &name, settings, now_ms))
                    .await?;
                Ok(queues::encode_queue(&entry))
            }
            QueueRoute::Delete => {
                self.operate(|directory| directory.begin_delete(queue_id, now_ms))?;
                self.destroy(queue_id).await?;
                Ok(Answer::empty())
            }
            QueueRoute::StartPurge => {
                queues::parse_purge(call.body)?;
                self.tell(queue_id, internal::PURGE, &[]).await?;
                Ok(queues::encode_queue(&entry))
            }
            QueueRoute::ListConsumers => Ok(consumers::encode_consumers(&entry)),
            QueueRoute::GetConsumer(id) => consumers::encode_consumer(&entry, id.as_str()),
            QueueRoute::CreateConsumer => {
                let consumer = consumers::parse_consumer(call.body, &entry.name)?;
                call.allow_dead_letter_queue(&consumer)?;
                let id = Id::from(random_bytes()?);
                let entry = self
                    .change(|directory| {
                        directory.add_consumer(queue_id, id.as_str(), consumer, now_ms)
                    })
                    .await?;
                consumers::encode_only_consumer(&entry)
            }
            QueueRoute::PutConsumer(id) => {
                let consumer = consumers::parse_consumer(call.body, &entry.name)?;
                call.allow_dead_letter_queue(&consumer)?;
                let entry = self
                    .change(|directory| {
                        directory.put_consumer(queue_id, id.as_str(), consumer, now_ms)
                    })
                    .await?;
                consumers::encode_consumer(&entry, id.as_str())
            }
            QueueRoute::DeleteConsumer(id) => {
                self.change(|directory| directory.remove_consumer(queue_id, id.as_str(), now_ms))
                    .await?;
                Ok(Answer::empty())
            }
            QueueRoute::Metrics
            | QueueRoute::History
            | QueueRoute::StartRedrive
            | QueueRoute::RedriveStatus
            | QueueRoute::StopRedrive
            | QueueRoute::PurgeStatus
            | QueueRoute::Messages(_) => Err(ApiError::UnknownRoute),
        }
    }

    /// A page of the queues that the token is good for.
    fn list(&self, query: &ListQuery, allowed: &QueueNames) -> Result<List, ApiError> {
        let (offset, limit) = (query.page.offset(), u64::from(query.page.per_page));
        if allowed.allow_all() {
            return self.operate(|directory| directory.list(offset, limit, &query.names));
        }
        let all = self.operate(|directory| directory.list(0, MAX_QUEUES, &query.names))?;
        let (skip, take) = (offset as usize, limit as usize);
        let mut entries = all.entries;
        entries.retain(|entry| allowed.allow(&entry.name));
        Ok(List {
            total_count: entries.len() as u64,
            entries: entries.into_iter().skip(skip).take(take).collect(),
        })
    }

    /// The queues that the token is good for, with how they stand. Those that did something since
    /// they were asked are asked now, so that idle ones sleep on.
    async fn known(&self, allowed: &QueueNames) -> Result<Vec<Known>, ApiError> {
        let changed = self.operate(|directory| directory.take_changed(ASKED_AT_ONCE))?;
        if !changed.is_empty() {
            let asked = join_all(changed.into_iter().map(|queue_id| async {
                let state = self.ask(&queue_id).await;
                (queue_id, state)
            }));
            let (mut answers, mut silent) = (Vec::new(), Vec::new());
            for (queue_id, state) in asked.await {
                match state {
                    Ok(state) => answers.push((queue_id, state)),
                    Err(_) => silent.push(queue_id),
                }
            }
            self.operate(|directory| {
                directory.remember(&answers, now_ms())?;
                for queue_id in &silent {
                    directory.mark_changed(queue_id)?;
                }
                Ok::<_, SqlError>(())
            })?;
        }
        let mut known = self.operate(|directory| directory.known())?;
        known.retain(|known| allowed.allow(&known.entry.name));
        Ok(known)
    }

    /// How a queue stands.
    async fn ask(&self, queue_id: &str) -> Result<QueueState, ApiError> {
        let mut answer = self.send(queue_id, internal::STATE, &[]).await?;
        read_json(&mut answer).await
    }

    /// Makes a queue, in the directory and as an object.
    async fn create(&self, name: &str, settings: Settings) -> Result<Entry, ApiError> {
        let id = Id::from(random_bytes()?);
        let now_ms = now_ms();
        if !self.creating.borrow_mut().insert(name.to_owned()) {
            return Err(ApiError::QueueExists);
        }
        let created = self
            .change(|directory| directory.create(name, settings, id.as_str(), now_ms))
            .await;
        self.creating.borrow_mut().remove(name);
        created
    }

    /// The id of the queue of this name, made where there is none.
    async fn resolve(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let name = String::from_utf8(body.to_vec()).map_err(failed)?;
        let found = self.operate(|directory| directory.find(&name))?;
        let entry = match found {
            Some(entry) => entry,
            None => self.create(&name, Settings::default()).await?,
        };
        resolved(entry)
    }

    /// The id of the queue that is this channel.
    async fn resolve_channel(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let channel: Channel = serde_json::from_slice(body).map_err(failed)?;
        let found = self.operate(|directory| directory.find(&channel.name))?;
        let entry = match found {
            Some(entry) => entry,
            None if !channel.make => return Err(ApiError::QueueNotFound(Plane::Control)),
            None => {
                let (id, consumer_id) = (Id::from(random_bytes()?), Id::from(random_bytes()?));
                let now_ms = now_ms();
                self.change(|directory| {
                    directory.create_channel(
                        &channel.name,
                        id.as_str(),
                        consumer_id.as_str(),
                        now_ms,
                    )
                })
                .await?
            }
        };
        resolved(entry)
    }

    /// Changes the directory and hands the change on to the queue's object. What can't be handed on
    /// now stays pending, and the alarm tries again.
    async fn change<E>(
        &self,
        change: impl FnOnce(&Directory<'_, ObjectSql<'_>>) -> Result<Entry, E>,
    ) -> Result<Entry, ApiError>
    where
        E: From<SqlError> + Into<ApiError> + std::fmt::Debug,
    {
        let entry = self.operate(change)?;
        self.alarm
            .at_latest_in(&self.state.storage(), RETRY_MS)
            .await
            .map_err(failed)?;
        self.configure(&entry.queue_id, entry.version, entry.config())
            .await?;
        Ok(entry)
    }

    async fn configure(
        &self,
        queue_id: &str,
        version: u64,
        config: Config,
    ) -> Result<(), ApiError> {
        let body = serde_json::to_vec(&Configuration { version, config }).map_err(failed)?;
        self.tell(queue_id, internal::CONFIGURE, &body).await?;
        self.operate(|directory| directory.pushed(queue_id, version))
    }

    async fn destroy(&self, queue_id: &str) -> Result<(), ApiError> {
        self.alarm
            .at_latest_in(&self.state.storage(), RETRY_MS)
            .await
            .map_err(failed)?;
        self.tell(queue_id, internal::DESTROY, &[]).await?;
        self.operate(|directory| directory.finish_delete(queue_id))
    }

    /// Hands on what is pending; true when there may be more.
    async fn hand_on_pending(&self) -> Result<bool, ApiError> {
        let pending = self.operate(|directory| directory.pending(PENDING_PER_ALARM))?;
        let mut more = pending.len() as u64 == PENDING_PER_ALARM;
        for Pending {
            queue_id,
            version,
            task,
        } in pending
        {
            let handed_on = match task {
                Task::Configure(config) => self.configure(&queue_id, version, config).await,
                Task::Delete => self.destroy(&queue_id).await,
            };
            // One queue that can't be reached keeps no other waiting.
            more |= handed_on.is_err();
        }
        Ok(more)
    }

    /// Says something to a queue's object.
    async fn tell(&self, queue_id: &str, path: &str, body: &[u8]) -> Result<(), ApiError> {
        let answer = self.send(queue_id, path, body).await?;
        match answer.status_code() {
            200 => Ok(()),
            status => Err(log(ApiError::Unreachable, "a queue refused", &status)),
        }
    }

    async fn send(&self, queue_id: &str, path: &str, body: &[u8]) -> Result<Response, ApiError> {
        let account_id = self.state.id().name().unwrap_or_default();
        let name = internal::queue_object_name(&account_id, queue_id);
        let object = stub(&self.env, QUEUE, &name)?;
        fetch_in_time(&object, internal_request(path, body)?, Deadline::PROMPT).await
    }

    /// Runs an operation of the directory in a transaction.
    fn operate<T, E>(
        &self,
        operation: impl FnOnce(&Directory<'_, ObjectSql<'_>>) -> Result<T, E>,
    ) -> Result<T, ApiError>
    where
        E: From<SqlError> + Into<ApiError> + std::fmt::Debug,
    {
        let value = ObjectSql::transaction(&self.state.storage(), &self.usage, |sql| {
            if !self.has_tables.get() {
                for table in SCHEMA {
                    sql.execute(table, Vec::new())?;
                }
            }
            operation(&Directory::new(sql))
        })
        .map_err(told)?;
        self.has_tables.set(true);
        Ok(value)
    }
}

fn resolved(entry: Entry) -> Result<Answer, ApiError> {
    internal_answer(&Resolved {
        queue_id: entry.queue_id,
    })
}

impl Call<'_> {
    fn allow(&self, name: &str) -> Result<(), ApiError> {
        match self.names.allow(name) {
            true => Ok(()),
            false => Err(AccessError::Insufficient.into()),
        }
    }

    /// A dead-letter queue is written to and made where it is missing, so it must be one of the
    /// token's queues as well.
    fn allow_dead_letter_queue(&self, consumer: &Consumer) -> Result<(), ApiError> {
        match &consumer.dead_letter_queue {
            Some(name) => self.allow(name),
            None => Ok(()),
        }
    }

    /// To a token for some queues only, a queue that isn't there is one that isn't its.
    fn not_found(&self) -> ApiError {
        match self.names.allow_all() {
            true => ApiError::QueueNotFound(Plane::Control),
            false => AccessError::Insufficient.into(),
        }
    }
}
