//! The Durable Objects: a queue's object and an account's directory. Thin: they read the request,
//! run one operation of the pure core in a transaction, and send its answer. What they say to each
//! other is in [`internal`].

#[cfg(target_arch = "wasm32")]
mod alarm;
#[cfg(target_arch = "wasm32")]
mod directory;
pub mod internal;
pub mod line;
#[cfg(target_arch = "wasm32")]
mod platform;
#[cfg(target_arch = "wasm32")]
mod poll;
#[cfg(target_arch = "wasm32")]
mod queue;
pub mod report;
#[cfg(target_arch = "wasm32")]
mod sql;
pub mod turns;
#[cfg(target_arch = "wasm32")]
mod wishes;

#[cfg(target_arch = "wasm32")]
pub use self::{
    directory::DirectoryObject,
    platform::{
        answer_response, failed, fetch_in_time, internal_request, json_bodies, log, now_ms, query,
        random_bytes, read_json, stub, Deadline, DIRECTORY, QUEUE, QUEUE_NAMES,
    },
    queue::QueueObject,
};
pub use internal::queue_object_name;
