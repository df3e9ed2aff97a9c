//! Requests that share a turn. Those that are on their way at the same time wait for each other, for
//! a moment, and then run all at once in one turn of the event loop. The platform commits a turn as
//! one: one sync to disk, and for sends one row, however many they are. A request that is alone
//! waits for nobody.

use futures_channel::oneshot;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How long requests wait for others that are on their way; a body may come slowly.
pub const LONGEST_WAIT_MS: u64 = 2;

/// Who is on the way, and who is ready.
#[derive(Default)]
pub struct Turns {
    on_the_way: Cell<usize>,
    ready: RefCell<Vec<oneshot::Sender<()>>>,
    /// Counts turns, so that a wait that is over isn't ended twice.
    turn: Cell<u64>,
}

/// A request on its way; it has left when this is dropped, also where its client has gone.
pub struct OnTheWay(Rc<Turns>);

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let turns = &self.0;
        turns
            .on_the_way
            .set(turns.on_the_way.get().saturating_sub(1));
        turns.go_if_all_are_ready();
    }
}

/// What a request that is ready does.
pub enum Ready {
    /// Goes at once, and so do those that waited for it.
    Go,
    /// Waits for the others; the first of them looks after the longest wait.
    Wait {
        called: oneshot::Receiver<()>,
        turn: u64,
        is_first: bool,
    },
}

impl Turns {
    /// A request has come.
    pub fn set_out(self: &Rc<Self>) -> OnTheWay {
        self.on_the_way.set(self.on_the_way.get().saturating_add(1));
        OnTheWay(Rc::clone(self))
    }

    /// A request is ready to run: it is no longer on the way.
    pub fn ready(&self, request: OnTheWay) -> Ready {
        let (sender, called) = oneshot::channel();
        let is_first = {
            let mut ready = self.ready.borrow_mut();
            ready.push(sender);
            ready.len() == 1
        };
        let turn = self.turn.get();
        drop(request);
        match self.turn.get() == turn {
            true => Ready::Wait {
                called,
                turn,
                is_first,
            },
            false => Ready::Go,
        }
    }

    /// Ends the wait of `turn`, if that hasn't ended.
    pub fn go(&self, turn: u64) {
        if self.turn.get() == turn {
            self.go_now();
        }
    }

    fn go_if_all_are_ready(&self) {
        if self.on_the_way.get() == 0 && !self.ready.borrow().is_empty() {
            self.go_now();
        }
    }

    fn go_now(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
        for sender in self.ready.take() {
            // One whose client has gone doesn't come.
            let _ = sender.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(ready: Ready) -> (oneshot::Receiver<()>, u64, bool) {
        match ready {
            Ready::Wait {
                called,
                turn,
                is_first,
            } => (called, turn, is_first),
            Ready::Go => panic!("went at once"),
        }
    }

    fn is_called(called: &mut oneshot::Receiver<()>) -> bool {
        called.try_recv() == Ok(Some(()))
    }

    #[test]
    fn a_request_that_is_alone_goes_at_once() {
        let turns = Rc::new(Turns::default());
        let alone = turns.set_out();
        assert!(matches!(turns.ready(alone), Ready::Go));
    }

    #[test]
    fn requests_on_the_way_at_the_same_time_go_together() {
        let turns = Rc::new(Turns::default());
        let (first, second, third) = (turns.set_out(), turns.set_out(), turns.set_out());
        let (mut first, _, is_first) = waits(turns.ready(first));
        let (mut second, _, is_second_first) = waits(turns.ready(second));
        assert_eq!((is_first, is_second_first), (true, false));
        assert!(!is_called(&mut first));
        assert!(matches!(turns.ready(third), Ready::Go));
        assert!(is_called(&mut first) && is_called(&mut second));
    }

    #[test]
    fn one_whose_client_has_gone_holds_up_nobody() {
        let turns = Rc::new(Turns::default());
        let (gone, present) = (turns.set_out(), turns.set_out());
        let (mut present, _, _) = waits(turns.ready(present));
        drop(gone);
        assert!(is_called(&mut present));
    }

    #[test]
    fn a_wait_ends_when_it_has_been_long_enough() {
        let turns = Rc::new(Turns::default());
        let (_slow, quick) = (turns.set_out(), turns.set_out());
        let (mut quick, turn, _) = waits(turns.ready(quick));
        turns.go(turn.wrapping_sub(1));
        assert!(!is_called(&mut quick));
        turns.go(turn);
        assert!(is_called(&mut quick));
    }
}
