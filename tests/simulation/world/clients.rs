//! Producers and consumers, honest and dishonest: what they ask for, and what they may be answered.

use super::{Checked, World};
use crate::broken::{ensure, Broken};
use crate::history::{digest, list};
use crate::host::{Host, Lease, Ref};
use crate::model::{CopyNo, Draft, Groups, Leased, Presented};
use crate::queue::{
    limits, Extension, MessageId, NewMessage, PullError, PullRequest, Retry, SendRequest,
};
use crate::rng::content;

/// Bytes of a fat message: three fit into a block, and a pull can't bring thirty.
const FAT: u32 = 300_000;
/// Operations of a history among which are fat messages.
const FAT_OPERATIONS: u64 = 1_500;
const LEASES_KEPT: usize = 400;
const STALE_KEPT: usize = 128;

/// Through which of the two protocols messages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    Pull,
    /// Asks no consumer's settings, and needs none.
    Receive,
}

struct Send {
    drafts: Vec<Draft>,
    key: Option<String>,
}

impl Send {
    fn request(&self) -> SendRequest {
        let message = |draft: &Draft| NewMessage {
            form: draft.form,
            content: content(draft.content_seed, draft.length),
            size: draft.size,
            delay_s: draft.delay_s,
        };
        SendRequest {
            messages: self.drafts.iter().map(message).collect(),
            idempotency_key: self.key.clone(),
        }
    }
}

impl World {
    // ---- producers

    fn some_draft(&mut self, fat: bool) -> Draft {
        let rng = &mut self.rng;
        let length = match rng.below(20) {
            _ if fat => FAT,
            0 => 0,
            1 => rng.within(1, 3_000) as u32,
            _ => rng.within(1, 60) as u32,
        };
        let delay_s = match rng.below(1_000) < self.habits.delayed {
            false if rng.chance(100) => Some(0),
            false => None,
            true => Some(match rng.below(20) {
                0 => rng.within(1, u64::from(limits::MAX_DELAY_S)) as u32,
                1..=5 => rng.within(1, 120) as u32,
                _ => rng.within(1, 5) as u32,
            }),
        };
        Draft {
            content_seed: rng.next(),
            length,
            form: rng.below(5) as u8,
            size: match rng.below(10) {
                0 => rng.within(0, limits::MAX_MESSAGE_BYTES as u64),
                _ => u64::from(length.min(100_000)),
            },
            delay_s,
        }
    }

    /// Several sends share their rows when they come at the same time.
    pub(super) fn send_together(&mut self, host: usize) -> Checked {
        let mut sends = Vec::new();
        for _ in 0..self.rng.within(2, 5) {
            let count = self.rng.mostly_small(self.habits.batch);
            sends.push(self.some_send(host, count));
        }
        self.send_all(host, sends)
    }

    pub(super) fn send(&mut self, host: usize, count: u64) -> Checked {
        let send = self.some_send(host, count);
        self.send_all(host, vec![send])
    }

    fn some_send(&mut self, host: usize, count: u64) -> Send {
        let fat = self.figures.operations < FAT_OPERATIONS && self.rng.chance(self.habits.fat);
        let count = if fat { self.rng.within(1, 30) } else { count };
        let mut drafts: Vec<Draft> = (0..count).map(|_| self.some_draft(fat)).collect();
        if self.rng.chance(400) {
            // One delay for all is the usual case.
            let delay_s = drafts.first().and_then(|draft| draft.delay_s);
            for draft in &mut drafts {
                draft.delay_s = delay_s;
            }
        }
        let with_key = self.rng.chance(self.habits.keys);
        Send {
            drafts,
            key: with_key.then(|| self.some_key(host)),
        }
    }

    fn send_all(&mut self, host: usize, sends: Vec<Send>) -> Checked {
        let mut requests: Vec<(MessageId, SendRequest)> = Vec::new();
        for send in &sends {
            let delays: Vec<Option<u32>> = send.drafts.iter().take(4).map(|d| d.delay_s).collect();
            self.line.push_str(&format!(
                " {} delays {delays:?} key {:?}",
                send.drafts.len(),
                send.key
            ));
            requests.push((self.rng.bytes16(), send.request()));
        }
        let done = self.operate(host, |queue, sql, wall_ms| match requests.as_slice() {
            [(entropy, request)] => queue
                .send(sql, wall_ms, entropy, request.clone())
                .map(|receipt| vec![receipt]),
            _ => queue.send_together(sql, wall_ms, requests),
        })?;
        let Some((result, _)) = done else {
            return Ok(());
        };
        let receipts = result.map_err(|error| {
            let promise = "2: an operation that can be done is done";
            Broken::new(promise, error.to_string())
        })?;
        ensure!(
            receipts.len() == sends.len(),
            "3: each send gets its answer",
            "{} answers for {} sends",
            receipts.len(),
            sends.len()
        );
        let host = &mut self.hosts[host];
        let mut groups = Groups::new();
        for (send, receipt) in sends.into_iter().zip(&receipts) {
            let first = host.model.messages.len();
            let now_ms = host.now_ms;
            match host
                .model
                .sent(now_ms, &send.drafts, send.key, receipt, &mut groups)?
            {
                true => self.line.push_str(&format!(" -> #{first}..")),
                false => self.line.push_str(" -> repeated"),
            }
        }
        if !groups.is_empty() {
            host.wrote();
        }
        Ok(())
    }

    fn some_key(&mut self, host: usize) -> String {
        let keys = &mut self.hosts[host].keys;
        if !keys.is_empty() && self.rng.chance(500) {
            return keys[self.rng.index(keys.len())].clone();
        }
        let key = format!("key{}", self.rng.below(1_000_000));
        if keys.len() < 16 {
            keys.push(key.clone());
        } else {
            let place = self.rng.index(keys.len());
            keys[place] = key.clone();
        }
        key
    }

    // ---- consumers

    pub(super) fn pull(&mut self, host: usize) -> Checked {
        let most = self.habits.batch;
        let batch_size = match self.rng.below(10) {
            0 | 1 => None,
            2 | 3 => Some(most as u32),
            _ => Some(self.rng.mostly_small(most) as u32),
        };
        let timeouts_ms = &self.habits.timeouts_ms;
        let request = PullRequest {
            batch_size,
            visibility_timeout_ms: self.rng.chance(700).then(|| self.rng.pick(timeouts_ms)),
        };
        let face = match self.rng.chance(100) {
            true => Face::Receive,
            false => Face::Pull,
        };
        self.pull_as(host, request, face).map(|_| ())
    }

    /// Returns how many messages the consumer got.
    pub(super) fn pull_as(
        &mut self,
        host: usize,
        request: PullRequest,
        face: Face,
    ) -> Result<usize, Broken> {
        let config = &self.hosts[host].model.config;
        let consumer = config.consumer.clone().unwrap_or_default();
        let wanted = request.batch_size.unwrap_or(consumer.batch_size);
        let timeout_ms = request
            .visibility_timeout_ms
            .unwrap_or(consumer.visibility_timeout_ms);
        self.line
            .push_str(&format!(" {wanted} for {timeout_ms} ms"));
        let done = self.operate(host, |queue, sql, wall_ms| match face {
            Face::Pull => queue.pull(sql, wall_ms, request),
            Face::Receive => queue.take(sql, wall_ms, wanted, timeout_ms),
        })?;
        let Some((result, answered)) = done else {
            return Ok(0);
        };
        let host = &mut self.hosts[host];
        let paused = host.model.config.settings.delivery_paused;
        let refusal = match &host.model.config.consumer {
            None if face == Face::Pull => Some(PullError::NoConsumer),
            _ if paused => Some(PullError::Paused),
            _ => None,
        };
        let pulled = match result {
            Ok(pulled) => pulled,
            Err(error) => {
                ensure!(
                    refusal.as_ref() == Some(&error),
                    "11: a pull is refused for a reason",
                    "{error} instead of {refusal:?}"
                );
                self.line.push_str(&format!(" -> {error}"));
                return Ok(0);
            }
        };
        ensure!(
            refusal.is_none(),
            "11: nothing is delivered while paused or without a consumer",
            "{} messages were",
            pulled.deliveries.len()
        );
        let swept = host.model.sweep(host.now_ms);
        let leases =
            host.model
                .pulled(host.now_ms, wanted as usize, timeout_ms, &pulled.deliveries)?;
        let copies: Vec<u32> = leases.iter().map(|leased| leased.copy).collect();
        self.line.push_str(&format!(" -> {}", list(&copies)));
        if self.history.is_whole() {
            let hash = digest(pulled.deliveries.iter().map(|d| d.lease_id.as_str()));
            self.line.push_str(&format!(" leases {hash:016x}"));
        }
        if swept || !copies.is_empty() {
            host.wrote();
        }
        if copies.is_empty() {
            host.model.counters.empty_pulls += 1;
        }
        if !answered {
            return Ok(0);
        }
        for (delivery, leased) in pulled.deliveries.into_iter().zip(leases) {
            host.held.push(Lease {
                home: host.id.clone(),
                text: delivery.lease_id,
                leased,
            });
        }
        // Some consumers die.
        while host.held.len() > LEASES_KEPT {
            let place = self.rng.index(host.held.len());
            host.held.swap_remove(place);
        }
        Ok(copies.len())
    }

    pub(super) fn settle(&mut self, host: usize) -> Checked {
        let count = self.rng.mostly_small(self.habits.batch.max(4));
        let mut acks = Vec::new();
        let mut retries = Vec::new();
        for _ in 0..count {
            let Some(presented) = self.some_lease(host) else {
                break;
            };
            let again = self.rng.chance(self.habits.dishonest / 8);
            if again || self.rng.chance(self.habits.retried) {
                let delay_s = match self.rng.below(6) {
                    0 => Some(self.rng.within(1, 5) as u32),
                    1 => Some(self.rng.within(1, 600) as u32),
                    2 | 3 => Some(0),
                    _ => None,
                };
                retries.push((copy_of(&presented), delay_s));
            }
            if again
                || retries
                    .last()
                    .is_none_or(|(last, _)| last.text != presented.text)
            {
                acks.push(presented);
            }
        }
        if acks.is_empty() && retries.is_empty() && !self.rng.chance(50) {
            self.line.push_str(" nothing, Pull");
            return self.pull(host);
        }
        let ack_texts: Vec<String> = acks.iter().map(|ack| ack.text.clone()).collect();
        let retry_texts: Vec<Retry> = retries
            .iter()
            .map(|(retry, delay_s)| Retry {
                lease_id: retry.text.clone(),
                delay_s: *delay_s,
            })
            .collect();
        self.line.push_str(&format!(
            " acks {} retries {} {:?}",
            shown(acks.iter()),
            shown(retries.iter().map(|(retry, _)| retry)),
            retries
                .iter()
                .take(4)
                .map(|(_, delay_s)| *delay_s)
                .collect::<Vec<_>>()
        ));
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.settle(sql, wall_ms, &ack_texts, &retry_texts)
        })?;
        if let Some((settlement, _)) = done {
            let host = &mut self.hosts[host];
            if host
                .model
                .settled(host.now_ms, &acks, &retries, &settlement)?
            {
                host.wrote();
            }
            self.line.push_str(&format!(
                " -> {} {} warned {}",
                settlement.acknowledged,
                settlement.retried,
                settlement.warnings.len()
            ));
        }
        Ok(())
    }

    pub(super) fn extend(&mut self, host: usize) -> Checked {
        let count = self.rng.mostly_small(self.habits.batch.max(4));
        let mut extensions = Vec::new();
        for _ in 0..count {
            // The lease stays in the consumer's hands.
            let held = &self.hosts[host].held;
            let presented = if held.is_empty() || self.rng.chance(self.habits.dishonest) {
                self.some_lease(host)
            } else {
                let lease = held[self.rng.index(held.len())].clone();
                Some(self.present(host, &lease))
            };
            let Some(presented) = presented else { break };
            let timeout_ms = match self.rng.below(8) {
                0 => limits::MAX_VISIBILITY_TIMEOUT_MS,
                _ => self.rng.pick(&self.habits.timeouts_ms),
            };
            extensions.push((presented, timeout_ms));
        }
        if extensions.is_empty() && !self.rng.chance(50) {
            self.line.push_str(" nothing, Pull");
            return self.pull(host);
        }
        let texts: Vec<Extension> = extensions
            .iter()
            .map(|(lease, timeout_ms)| Extension {
                lease_id: lease.text.clone(),
                visibility_timeout_ms: *timeout_ms,
            })
            .collect();
        self.line.push_str(&format!(
            " {} by {:?} ms",
            shown(extensions.iter().map(|(lease, _)| lease)),
            extensions
                .iter()
                .take(4)
                .map(|(_, ms)| *ms)
                .collect::<Vec<_>>()
        ));
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.extend(sql, wall_ms, &texts)
        })?;
        if let Some((settlement, _)) = done {
            let host = &mut self.hosts[host];
            if host.model.extended(host.now_ms, &extensions, &settlement)? {
                host.wrote();
            }
            self.line.push_str(&format!(
                " -> {} warned {}",
                settlement.extended,
                settlement.warnings.len()
            ));
        }
        Ok(())
    }

    pub(super) fn drain_queue(&mut self, host: usize) -> Checked {
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| queue.drain(sql, wall_ms))?;
        if let Some((drained, _)) = done {
            let host = &mut self.hosts[host];
            host.model.drained(host.now_ms, drained)?;
            host.wrote();
            self.line.push_str(&format!(" -> {drained}"));
        }
        Ok(())
    }

    /// The consumer went away before it got what it had pulled.
    pub(super) fn take_back(&mut self, host: usize) -> Checked {
        let mut leases = Vec::new();
        for _ in 0..self.rng.mostly_small(self.habits.batch.max(4)) {
            leases.extend(self.some_lease(host));
        }
        let texts: Vec<String> = leases.iter().map(|lease| lease.text.clone()).collect();
        self.line.push_str(&format!(" {}", shown(leases.iter())));
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.take_back(sql, wall_ms, &texts)
        })?;
        // Nobody ever saw these lease ids.
        let Host { held, stale, .. } = &mut self.hosts[host];
        held.retain(|lease| !texts.contains(&lease.text));
        stale.retain(|lease| !texts.contains(&lease.text));
        if done.is_some() {
            let host = &mut self.hosts[host];
            if host.model.taken_back(host.now_ms, &leases) {
                host.wrote();
            }
        }
        Ok(())
    }

    /// A lease id as a consumer might present it: mostly one of its own, else a used one, another
    /// queue's, or a forged one.
    fn some_lease(&mut self, host: usize) -> Option<Presented<Leased>> {
        if !self.rng.chance(self.habits.dishonest) {
            let held = &mut self.hosts[host].held;
            if held.is_empty() {
                return None;
            }
            let lease = held.swap_remove(self.rng.index(held.len()));
            let presented = self.present(host, &lease);
            self.keep_stale(host, lease);
            return Some(presented);
        }
        let from = match self.rng.below(3) {
            0 => self.rng.index(self.hosts.len()),
            _ => host,
        };
        let pool = match self.rng.below(3) {
            0 => &self.hosts[from].held,
            _ => &self.hosts[from].stale,
        };
        if pool.is_empty() {
            return None;
        }
        let lease = pool[self.rng.index(pool.len())].clone();
        if self.rng.chance(200) {
            return Some(Presented {
                text: self.forge(host, &lease.text),
                says: None,
            });
        }
        Some(self.present(host, &lease))
    }

    pub(super) fn present(&self, host: usize, lease: &Lease) -> Presented<Leased> {
        Presented {
            text: lease.text.clone(),
            says: (lease.home == self.hosts[host].id).then_some(lease.leased),
        }
    }

    fn keep_stale(&mut self, host: usize, lease: Lease) {
        let stale = &mut self.hosts[host].stale;
        if stale.len() < STALE_KEPT {
            stale.push(lease);
        } else {
            let place = self.rng.index(stale.len());
            stale[place] = lease;
        }
    }

    fn forge(&mut self, host: usize, token: &str) -> String {
        let mut bytes = token.as_bytes().to_vec();
        let place = self.rng.index(bytes.len());
        match self.rng.below(6) {
            0 => {
                bytes.truncate(place);
            }
            1 => {
                bytes.push(b'A');
            }
            2 => return "lease_id1".to_owned(),
            3 => {
                let refs = &self.hosts[host].refs;
                if let Some(reference) = refs.last() {
                    return reference.text.clone();
                }
                return "ü".to_owned();
            }
            _ => {
                bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    // ---- looking and purging

    pub(super) fn peek(&mut self, host: usize) -> Checked {
        let wanted = self.rng.mostly_small(100) as u32;
        let done =
            self.operate_unrefused(host, |queue, sql, wall_ms| queue.peek(sql, wall_ms, wanted))?;
        let Some((peeked, answered)) = done else {
            return Ok(());
        };
        let host = &mut self.hosts[host];
        let copies = host.model.peeked(host.now_ms, wanted as usize, &peeked)?;
        self.line
            .push_str(&format!(" {wanted} -> {}", list(&copies)));
        if answered {
            if host.refs.len() > 100 {
                host.refs.drain(..50);
            }
            let refs = peeked.into_iter().zip(copies).map(|(peeked, copy)| Ref {
                home: host.id.clone(),
                text: peeked.reference,
                copy,
            });
            host.refs.extend(refs);
        }
        Ok(())
    }

    /// Refs as clients present them: of this queue, of others, and forged ones.
    pub(super) fn some_refs(&mut self, host: usize) -> Vec<Presented<CopyNo>> {
        let mut presented = Vec::new();
        for _ in 0..self.rng.mostly_small(10) {
            let from = match self.rng.chance(self.habits.dishonest) {
                true => self.rng.index(self.hosts.len()),
                false => host,
            };
            let refs = &self.hosts[from].refs;
            if refs.is_empty() {
                continue;
            }
            let reference = refs[self.rng.index(refs.len())].clone();
            if self.rng.chance(self.habits.dishonest / 4) {
                let text = match self.hosts[host].stale.last() {
                    Some(lease) if self.rng.chance(300) => lease.text.clone(),
                    _ => self.forge_ref(&reference.text),
                };
                presented.push(Presented { text, says: None });
                continue;
            }
            let home = reference.home == self.hosts[host].id;
            presented.push(Presented {
                text: reference.text,
                says: home.then_some(reference.copy),
            });
        }
        presented
    }

    pub(super) fn purge_refs(&mut self, host: usize) -> Checked {
        let presented = self.some_refs(host);
        let texts: Vec<String> = presented.iter().map(|one| one.text.clone()).collect();
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| {
            queue.purge_refs(sql, wall_ms, &texts)
        })?;
        if let Some((outcome, _)) = done {
            let host = &mut self.hosts[host];
            if host
                .model
                .refs_purged(&presented, outcome.purged, &outcome.warnings)?
            {
                host.wrote();
            }
            self.line
                .push_str(&format!(" {} -> {}", texts.len(), outcome.purged));
        }
        Ok(())
    }

    fn forge_ref(&mut self, token: &str) -> String {
        let mut bytes = token.as_bytes().to_vec();
        let place = self.rng.index(bytes.len());
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn purge(&mut self, host: usize) -> Checked {
        let done = self.operate_unrefused(host, |queue, sql, wall_ms| queue.purge(sql, wall_ms))?;
        if let Some((purged, _)) = done {
            let host = &mut self.hosts[host];
            host.model.purged(host.now_ms, purged)?;
            host.wrote();
            self.line.push_str(&format!(" -> {purged}"));
        }
        Ok(())
    }
}

fn copy_of(presented: &Presented<Leased>) -> Presented<Leased> {
    Presented {
        text: presented.text.clone(),
        says: presented.says,
    }
}

fn shown<'a>(presented: impl Iterator<Item = &'a Presented<Leased>>) -> String {
    let mut text = String::from("[");
    for (place, one) in presented.enumerate() {
        if place == 6 {
            text.push('…');
            break;
        }
        match one.says {
            Some(leased) => text.push_str(&format!("#{}/{} ", leased.copy, leased.attempts)),
            None => text.push_str("? "),
        }
    }
    text.push(']');
    text
}
