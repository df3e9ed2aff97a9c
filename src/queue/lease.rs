//! Sealed lease ids and refs: they name a message without a look-up, and only the queue that gave
//! them out can have made them.
//!
//! A token is base64url of a format version, a partition (always 0 today), the numbers below and a
//! tag of 16 bytes: HMAC-SHA256 under the queue's own key, cut short. The key binds it to the queue.

use super::ledger::Slot;
use super::varint;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The key of a queue, from the platform's random source.
pub type SealKey = [u8; 32];

/// What a lease id says: this delivery of this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub slot: Slot,
    /// Which delivery of the message this is, from 1.
    pub attempts: u32,
    /// When it was delivered, in the queue's time.
    pub leased_ms: u64,
}

/// What a ref says: this message, seen by a peek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref {
    pub slot: Slot,
    /// The message's size, so that purging it needs no payload.
    pub size: u64,
}

/// Seals and opens tokens of one queue.
#[derive(Clone)]
pub struct Sealer {
    mac: Hmac<Sha256>,
}

const LEASE_V1: u8 = 1;
const REF_V1: u8 = 2;
const PARTITION: u8 = 0;
const TAG_BYTES: usize = 16;
/// Longer than any token: what is longer isn't decoded at all.
const MAX_TOKEN_CHARS: usize = 128;

impl Sealer {
    pub fn new(key: &SealKey) -> Sealer {
        // HMAC pads a shorter key with zeros to the hash's block.
        let mut block = [0u8; 64];
        for (to, from) in block.iter_mut().zip(key) {
            *to = *from;
        }
        Sealer {
            mac: Hmac::new(&block.into()),
        }
    }

    pub fn seal_lease(&self, lease: &Lease) -> String {
        self.seal(
            LEASE_V1,
            &[
                lease.slot.block,
                u64::from(lease.slot.index),
                u64::from(lease.attempts),
                lease.leased_ms,
            ],
        )
    }

    /// `None` when this queue never gave out `token` as a lease id.
    pub fn open_lease(&self, token: &str) -> Option<Lease> {
        let [block, index, attempts, leased_ms] = self.open(LEASE_V1, token)?;
        Some(Lease {
            slot: slot(block, index)?,
            attempts: u32::try_from(attempts).ok()?,
            leased_ms,
        })
    }

    pub fn seal_ref(&self, reference: &Ref) -> String {
        let slot = reference.slot;
        self.seal(REF_V1, &[slot.block, u64::from(slot.index), reference.size])
    }

    /// `None` when this queue never gave out `token` as a ref.
    pub fn open_ref(&self, token: &str) -> Option<Ref> {
        let [block, index, size] = self.open(REF_V1, token)?;
        Some(Ref {
            slot: slot(block, index)?,
            size,
        })
    }

    fn seal(&self, version: u8, values: &[u64]) -> String {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend_from_slice(&[version, PARTITION]);
        for &value in values {
            varint::put(&mut bytes, value);
        }
        let tag = self
            .mac
            .clone()
            .chain_update(&bytes)
            .finalize()
            .into_bytes();
        bytes.extend(tag.iter().take(TAG_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn open<const N: usize>(&self, version: u8, token: &str) -> Option<[u64; N]> {
        if token.len() > MAX_TOKEN_CHARS {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (body, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
        self.mac
            .clone()
            .chain_update(body)
            .verify_truncated_left(tag)
            .ok()?;
        let mut rest = body.strip_prefix(&[version, PARTITION])?;
        let mut values = [0u64; N];
        for value in &mut values {
            *value = varint::take(&mut rest)?;
        }
        rest.is_empty().then_some(values)
    }
}

fn slot(block: u64, index: u64) -> Option<Slot> {
    Some(Slot {
        block,
        index: u32::try_from(index).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Lease = Lease {
        slot: Slot {
            block: 1 << 52,
            index: 99,
        },
        attempts: 101,
        leased_ms: 1_790_000_000_000,
    };

    #[test]
    fn a_lease_id_is_opened_by_the_queue_that_sealed_it_alone() {
        let queue = Sealer::new(&[1; 32]);
        let token = queue.seal_lease(&LEASE);
        assert_eq!(queue.open_lease(&token), Some(LEASE));
        assert_eq!(Sealer::new(&[2; 32]).open_lease(&token), None);
    }

    #[test]
    fn a_changed_cut_or_made_up_token_is_refused() {
        let queue = Sealer::new(&[1; 32]);
        let token = queue.seal_lease(&LEASE);
        for position in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[position] = if forged[position] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).expect("ASCII");
            assert_eq!(queue.open_lease(&forged), None, "{forged}");
        }
        for made_up in [
            "",
            "A",
            "AAAA",
            &token[1..],
            &"A".repeat(10_000),
            "ü",
            "lease_id1",
        ] {
            assert_eq!(queue.open_lease(made_up), None);
        }
    }

    #[test]
    fn a_ref_is_no_lease_id() {
        let queue = Sealer::new(&[1; 32]);
        let reference = Ref {
            slot: LEASE.slot,
            size: 5,
        };
        let token = queue.seal_ref(&reference);
        assert_eq!(queue.open_ref(&token), Some(reference));
        assert_eq!(queue.open_lease(&token), None);
        assert_eq!(queue.open_ref(&queue.seal_lease(&LEASE)), None);
    }

    /// Tokens are in people's hands while an upgrade runs: their form may not change unnoticed.
    #[test]
    fn the_form_of_a_lease_id_is_pinned() {
        let token = Sealer::new(&[1; 32]).seal_lease(&LEASE);
        assert_eq!(token, PINNED);
    }

    const PINNED: &str = "AQCAgICAgICACGNlgNjBoow0zjHlnU1bmOv1AP7OvhBy9A";
}
