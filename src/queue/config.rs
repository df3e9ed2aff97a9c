//! A queue's settings and its consumer's, as the queue acts on them. They act at once: every
//! operation reads them afresh.

use super::limits;
use serde::{Deserialize, Serialize};

/// What a queue needs to know about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The queue's name, told to the dead-letter queue with each message.
    pub queue_name: String,
    pub settings: Settings,
    /// Without a consumer a pull is refused.
    pub consumer: Option<Consumer>,
}

/// Settings of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Delay of messages that are sent without one, in seconds, 0 to 86,400.
    pub delivery_delay_s: u32,
    /// While true nothing is delivered; sends and settling go on.
    pub delivery_paused: bool,
    /// Seconds from when a message can first be delivered until it is dropped, 60 to 1,209,600.
    pub retention_s: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            delivery_delay_s: 0,
            delivery_paused: false,
            retention_s: limits::DEFAULT_RETENTION_S,
        }
    }
}

/// Settings of the queue's pull consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Messages in a pull that doesn't say, 1 to 100.
    pub batch_size: u32,
    /// How long a lease runs when the pull doesn't say, in milliseconds, 1 to 43,200,000.
    pub visibility_timeout_ms: u64,
    /// A message is delivered at most `max_retries + 1` times, 0 to 100.
    pub max_retries: u32,
    /// Delay of a retry that doesn't say, in seconds, 0 to 86,400.
    pub retry_delay_s: u32,
    /// Name of the queue that takes messages whose deliveries are used up; without one they are
    /// dropped and counted.
    pub dead_letter_queue: Option<String>,
}

impl Default for Consumer {
    fn default() -> Self {
        Consumer {
            batch_size: limits::DEFAULT_BATCH_SIZE,
            visibility_timeout_ms: limits::DEFAULT_VISIBILITY_TIMEOUT_MS,
            max_retries: limits::DEFAULT_MAX_RETRIES,
            retry_delay_s: 0,
            dead_letter_queue: None,
        }
    }
}
