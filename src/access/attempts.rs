//! Slows down whoever guesses tokens: after a number of wrong ones within a minute, what comes from
//! the same address is refused without being looked at until that minute is over.
//!
//! Who has shown a right token from that address before goes on with it all the while, so that a
//! neighbour's mistake stops nobody who is at work. Any other right token waits for the minute's end:
//! what is refused here is not counted, so only new guesses, made before it, begin another such minute.
//! Requests without a token guess nothing and don't count.
//!
//! Kept in the memory of one isolate and bounded: a bound on guessing at this door, not a ban.

use super::AccessError;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// Wrong tokens in a minute from one address when the deployment doesn't say. pullq's own.
pub const DEFAULT_MAX_WRONG: u32 = 10;
/// How long they are counted together.
pub const WINDOW_MS: u64 = 60_000;
/// Addresses that are remembered at once; the one heard of least lately makes way. pullq's own.
pub const MAX_ADDRESSES: usize = 1_000;
/// Right tokens that are remembered of an address. pullq's own.
pub const MAX_KNOWN_TOKENS: usize = 16;

/// Where a request comes from. Addresses of IPv6 count by their network of 64 bits, which is what
/// one subscriber gets; whoever's address isn't known shares one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(Option<IpAddr>);

impl Address {
    /// Takes the value of the header `CF-Connecting-IP`, which Cloudflare sets on every request,
    /// whatever the client sent.
    pub fn parse(header: Option<&str>) -> Address {
        let address = header.and_then(|text| text.trim().parse::<IpAddr>().ok());
        Address(address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(network))
            }
            address => address,
        }))
    }
}

/// What is remembered of an address.
#[derive(Debug, Default)]
struct Record {
    /// Wrong tokens since `since_ms`.
    wrong: u32,
    since_ms: u64,
    /// When it was last heard of.
    last_ms: u64,
    /// Marks of right tokens, the oldest first.
    known: VecDeque<Mark>,
}

/// Some of a token's hash: enough to know it again.
type Mark = u64;

/// The addresses that tokens came from.
#[derive(Debug, Default)]
pub struct Attempts {
    by_address: BTreeMap<Address, Record>,
}

impl Attempts {
    pub const fn new() -> Attempts {
        Attempts {
            by_address: BTreeMap::new(),
        }
    }

    /// Lets `check` look at a token that comes from `address`, unless too many wrong ones came from
    /// there; then the error says when to come again. `max_wrong` of 0 lets everything pass.
    pub fn watch<T>(
        &mut self,
        max_wrong: u32,
        address: Address,
        token: Option<&str>,
        now_ms: u64,
        check: impl FnOnce() -> Result<T, AccessError>,
    ) -> Result<T, AccessError> {
        let Some(token) = token.filter(|_| max_wrong > 0) else {
            return check();
        };
        let mark = mark(token);
        if let Some(retry_after_s) = self.slowed_s(max_wrong, address, mark, now_ms) {
            return Err(AccessError::TooManyWrong { retry_after_s });
        }
        let outcome = check();
        match outcome {
            Err(AccessError::Wrong) => self.count_wrong(address, now_ms),
            Ok(_) | Err(AccessError::Insufficient) => self.remember(address, mark, now_ms),
            Err(_) => {}
        }
        outcome
    }

    /// For how many seconds more nothing from `address` is looked at, if so.
    fn slowed_s(&self, max_wrong: u32, address: Address, mark: Mark, now_ms: u64) -> Option<u32> {
        let record = self.by_address.get(&address)?;
        let over_ms = record.since_ms.saturating_add(WINDOW_MS);
        let left_ms = over_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0)?;
        if record.wrong < max_wrong || record.known.contains(&mark) {
            return None;
        }
        u32::try_from(left_ms.div_ceil(1_000)).ok()
    }

    fn count_wrong(&mut self, address: Address, now_ms: u64) {
        let record = self.record(address, now_ms);
        if now_ms.saturating_sub(record.since_ms) >= WINDOW_MS {
            record.wrong = 0;
            record.since_ms = now_ms;
        }
        record.wrong = record.wrong.saturating_add(1);
    }

    fn remember(&mut self, address: Address, mark: Mark, now_ms: u64) {
        let record = self.record(address, now_ms);
        if record.known.contains(&mark) {
            return;
        }
        if record.known.len() >= MAX_KNOWN_TOKENS {
            record.known.pop_front();
        }
        record.known.push_back(mark);
    }

    /// The record of `address`, made where there is none.
    fn record(&mut self, address: Address, now_ms: u64) -> &mut Record {
        if self.by_address.len() >= MAX_ADDRESSES && !self.by_address.contains_key(&address) {
            let oldest = self
                .by_address
                .iter()
                .min_by_key(|(_, record)| record.last_ms)
                .map(|(address, _)| *address);
            if let Some(oldest) = oldest {
                self.by_address.remove(&oldest);
            }
        }
        let record = self.by_address.entry(address).or_default();
        record.last_ms = now_ms;
        record
    }
}

fn mark(token: &str) -> Mark {
    Sha256::digest(token.as_bytes())
        .iter()
        .take(8)
        .fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "192.0.2.1";
    const T: u64 = 1_796_035_200_000;

    /// A door that knows the tokens "right" and "other", and lets 3 wrong ones pass in a minute.
    struct Door(Attempts);

    impl Door {
        fn new() -> Door {
            Door(Attempts::new())
        }

        fn show(&mut self, address: &str, token: &str, now_ms: u64) -> Result<(), AccessError> {
            let address = Address::parse(Some(address));
            self.0
                .watch(3, address, Some(token), now_ms, || match token {
                    "right" | "other" => Ok(()),
                    "poor" => Err(AccessError::Insufficient),
                    _ => Err(AccessError::Wrong),
                })
        }

        fn guess(&mut self, address: &str, times: u32, now_ms: u64) {
            for number in 0..times {
                let guess = self.show(address, &format!("guess-{number}"), now_ms);
                assert_eq!(guess, Err(AccessError::Wrong), "{address} {number}");
            }
        }
    }

    fn slowed(retry_after_s: u32) -> Result<(), AccessError> {
        Err(AccessError::TooManyWrong { retry_after_s })
    }

    #[test]
    fn after_too_many_wrong_tokens_nothing_is_looked_at_until_the_minute_is_over() {
        let mut door = Door::new();
        door.guess(HERE, 1, T);
        door.guess(HERE, 2, T + 20_000);
        assert_eq!(door.show(HERE, "guess", T + 20_001), slowed(40));
        assert_eq!(door.show(HERE, "right", T + 59_999), slowed(1));
        // What was refused so doesn't count, however often it was tried.
        assert_eq!(door.show(HERE, "right", T + 60_000), Ok(()));
        door.guess(HERE, 3, T + 60_000);
        assert_eq!(door.show(HERE, "guess", T + 60_000), slowed(60));
    }

    #[test]
    fn a_token_that_was_right_here_before_goes_on() {
        let mut door = Door::new();
        assert_eq!(door.show(HERE, "right", T), Ok(()));
        assert_eq!(door.show(HERE, "poor", T), Err(AccessError::Insufficient));
        door.guess(HERE, 3, T);
        assert_eq!(door.show(HERE, "right", T), Ok(()));
        assert_eq!(door.show(HERE, "poor", T), Err(AccessError::Insufficient));
        assert_eq!(door.show(HERE, "other", T), slowed(60));
        assert_eq!(door.show(HERE, "guess", T), slowed(60));
    }

    #[test]
    fn fewer_wrong_tokens_than_that_slow_nothing_down() {
        let mut door = Door::new();
        for minute in 0..5 {
            door.guess(HERE, 2, T + minute * 60_000);
            assert_eq!(
                door.show(HERE, "other", T + minute * 60_000 + 59_999),
                Ok(())
            );
        }
    }

    #[test]
    fn one_address_slows_down_no_other() {
        let mut door = Door::new();
        door.guess(HERE, 3, T);
        for elsewhere in ["192.0.2.2", "2001:db8::1", "not an address"] {
            assert_eq!(door.show(elsewhere, "right", T), Ok(()), "{elsewhere}");
        }
    }

    #[test]
    fn a_subscribers_whole_network_is_one_address() {
        let same = [
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff"),
            ("192.0.2.1", "::ffff:192.0.2.1"),
            ("", "somewhere"),
        ];
        for (one, other) in same {
            assert_eq!(Address::parse(Some(one)), Address::parse(Some(other)));
        }
        assert_eq!(Address::parse(None), Address::parse(Some("?")));
        assert_ne!(
            Address::parse(Some("2001:db8:0:1::1")),
            Address::parse(Some("2001:db8:0:2::1"))
        );
    }

    #[test]
    fn requests_without_a_token_guess_nothing() {
        let mut attempts = Attempts::new();
        let address = Address::parse(Some(HERE));
        for _ in 0..10 {
            let missing =
                attempts.watch(3, address, None, T, || Err::<(), _>(AccessError::Missing));
            assert_eq!(missing, Err(AccessError::Missing));
        }
        let right = attempts.watch(3, address, Some("right"), T, || Ok(()));
        assert_eq!(right, Ok(()));
    }

    #[test]
    fn a_limit_of_none_slows_nobody_down() {
        let mut attempts = Attempts::new();
        let address = Address::parse(Some(HERE));
        for _ in 0..100 {
            let wrong = attempts.watch(0, address, Some("guess"), T, || {
                Err::<(), _>(AccessError::Wrong)
            });
            assert_eq!(wrong, Err(AccessError::Wrong));
        }
    }

    #[test]
    fn memory_is_bounded_and_the_address_heard_of_least_lately_makes_way() {
        let mut door = Door::new();
        door.guess(HERE, 3, T);
        for number in 0..1_000u64 {
            let (high, low) = (number / 250, number % 250);
            let address = format!("198.51.{high}.{low}");
            door.guess(&address, 1, T + 1 + number);
        }
        assert_eq!(door.0.by_address.len(), MAX_ADDRESSES);
        assert_eq!(door.show(HERE, "right", T + 2_000), Ok(()));
        for number in 0..100 {
            door.0
                .watch(
                    3,
                    Address(None),
                    Some(&format!("right-{number}")),
                    T,
                    || Ok(()),
                )
                .expect("right");
        }
        let known = door
            .0
            .by_address
            .get(&Address(None))
            .map(|record| record.known.len());
        assert_eq!(known, Some(MAX_KNOWN_TOKENS));
    }
}
