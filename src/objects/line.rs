//! Those who wait for a message, first come, first served, in the object's memory.
//!
//! The runtime doesn't say that a client has gone, and then the code that serves it simply stops. So
//! whoever calls a waiter can't know whether it is there: the waiter itself takes its messages, a
//! call that isn't answered in time goes to the next one, and one that hasn't shown itself for long
//! is struck off the line by whoever comes by.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A waiter shows itself at least this often.
pub const SIGN_OF_LIFE_MS: u64 = 15_000;
/// One that has not for this long is gone.
const GONE_AFTER_MS: u64 = 2 * SIGN_OF_LIFE_MS + 1_000;
/// A called waiter takes its messages within this time, or the next ones are called: two, then four,
/// and so on, so that many who have gone hold nobody up for long.
pub const ANSWER_WITHIN_MS: u64 = 100;

/// One who waits.
pub struct Waiter {
    called: Cell<bool>,
    seen_ms: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Waiter {
    /// Shows that the waiter is still there.
    pub fn show(&self, now_ms: u64) {
        self.seen_ms.set(now_ms);
    }

    /// Waits to be called.
    pub fn call(self: &Rc<Self>) -> Called {
        Called(Rc::clone(self))
    }

    fn is_gone(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_ms.get()) > GONE_AFTER_MS
    }
}

/// Ends when the waiter is called.
pub struct Called(Rc<Waiter>);

impl Future for Called {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.called.get() {
            return Poll::Ready(());
        }
        self.0.waker.replace(Some(context.waker().clone()));
        Poll::Pending
    }
}

/// The line.
#[derive(Default)]
pub struct Line {
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

impl Line {
    /// Whether somebody waits who has not been called.
    pub fn has_uncalled(&self, now_ms: u64) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        waiters.retain(|waiter| !waiter.is_gone(now_ms));
        waiters.iter().any(|waiter| !waiter.called.get())
    }

    /// Takes a place at the end.
    pub fn join(&self, now_ms: u64) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter {
            called: Cell::new(false),
            seen_ms: Cell::new(now_ms),
            waker: RefCell::new(None),
        });
        self.waiters.borrow_mut().push_back(Rc::clone(&waiter));
        waiter
    }

    /// Waits on in the old place: the call was in vain.
    pub fn stay(&self, waiter: &Waiter) {
        waiter.called.set(false);
    }

    /// Leaves the line.
    pub fn leave(&self, waiter: &Rc<Waiter>) {
        self.waiters
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, waiter));
    }

    /// Calls the first one who has not been called; false when there is none.
    pub fn call_next(&self, now_ms: u64) -> bool {
        if !self.has_uncalled(now_ms) {
            return false;
        }
        let next = {
            let waiters = self.waiters.borrow();
            waiters.iter().find(|waiter| !waiter.called.get()).cloned()
        };
        match next {
            Some(waiter) => {
                waiter.called.set(true);
                if let Some(waker) = waiter.waker.take() {
                    waker.wake();
                }
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_come_is_called_first() {
        let line = Line::default();
        let (first, second) = (line.join(0), line.join(0));
        assert!(line.call_next(0));
        assert_eq!((first.called.get(), second.called.get()), (true, false));
        line.stay(&first);
        assert!(line.call_next(0));
        assert_eq!((first.called.get(), second.called.get()), (true, false));
        line.leave(&first);
        assert!(line.call_next(0));
        assert!(second.called.get());
        assert!(!line.call_next(0));
    }

    #[test]
    fn one_who_has_gone_is_passed_over() {
        let line = Line::default();
        let (gone, present) = (line.join(0), line.join(0));
        present.show(20_000);
        assert!(line.call_next(32_000));
        assert_eq!((gone.called.get(), present.called.get()), (false, true));
    }
}
