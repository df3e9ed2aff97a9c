//! Requests that share a commit. While a commit runs, requests wait; when it is done they run all at
//! once, in one turn of the event loop, and the platform commits a turn as one: one sync to disk,
//! and for sends one row, however many they are. A request that finds nobody at work waits for
//! nothing.

use futures_channel::oneshot;
use futures_util::future::select;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use worker::Delay;

/// Nobody waits longer for a commit; its end may have gone unheard.
const LONGEST_COMMIT: Duration = Duration::from_secs(5);

/// Lets everything run that is ready to, and then goes on.
pub async fn ready_again() {
    let mut was_polled = false;
    poll_fn(|context| {
        if was_polled {
            return Poll::Ready(());
        }
        was_polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whose turn it is.
#[derive(Default)]
pub struct Turns {
    commit_runs: Cell<bool>,
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
}

impl Turns {
    /// Waits for the end of a running commit, not forever.
    pub async fn come(&self) {
        if self.commit_runs.get() {
            let (sender, turn) = oneshot::channel();
            self.waiting.borrow_mut().push(sender);
            let too_long = Delay::from(LONGEST_COMMIT);
            select(pin!(turn), pin!(too_long)).await;
        }
    }

    /// Says that something was written; true when nobody had said so since the last commit, and its
    /// end is the caller's to tell.
    pub fn wrote(&self) -> bool {
        !self.commit_runs.replace(true)
    }

    /// The commit is done: who waits comes now, all at once.
    pub fn committed(&self) {
        self.commit_runs.set(false);
        for sender in self.waiting.take() {
            // One whose client has gone doesn't come.
            let _ = sender.send(());
        }
    }
}
