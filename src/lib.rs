//! pullq: a pull queue on Cloudflare Workers and Durable Objects.
//!
//! The map:
//! - [`queue`]: the queue itself, pure Rust over SQL
//! - [`rest`]: Cloudflare's Queues REST API on the wire
//! - [`cloudevents`]: KubeMQ's CloudEvents queue endpoints on the wire
//! - [`wire`]: what both of these share
//! - [`access`]: who may do what
//! - [`directory`]: an account's queues, their names and settings
//! - [`overview`]: all queues of an account at a glance, for the console and for Prometheus
//! - [`objects`]: the Durable Objects, one for each queue, one directory for each account
//! - [`entry`]: the Worker's entry: authenticate, route, hand on

// A panic inside a Durable Object leaves its caller without an answer.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unreachable,
        clippy::indexing_slicing
    )
)]

pub mod access;
pub mod cloudevents;
pub mod directory;
#[cfg(target_arch = "wasm32")]
mod entry;
pub mod objects;
pub mod overview;
pub mod queue;
pub mod rest;
pub mod wire;
