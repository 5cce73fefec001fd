use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::Lost;
use crate::batching::{Cache, cache};
use crate::domain::{AckMode, PacketId, Terms, Timestamp};
use crate::lock;

/// How long a process trusts that a packet is final. Every slip stays decided, but at the expiry losers get another answer, and a
/// process must not keep what nobody asks for.
const TTL: Duration = Duration::from_mins(1);
/// How long a process reads owners instead, once the ledger did not answer.
const PAUSE: Duration = Duration::from_secs(10);
/// The most packets that a process remembers.
const PACKETS_MAX: u64 = 10_000;

/// The final packets of many parts that this process knows. Each of their claims is in the ledger, so a user's own claim item tells
/// whether they have a slip.
///
/// To read the owners of every part instead would take as much of Redis as thousands of grabs. That pays in a process that serves a
/// rush. A function that serves one request at a time answers a few hundred, and a rush has thousands of them.
pub struct FinalPackets {
    known: Cache<PacketId, (Instant, Lost)>,
    /// Owners are read for packets of at most this many parts.
    parts_max: u32,
    paused_until: Mutex<Instant>,
}

impl FinalPackets {
    /// Knows no packet yet, and is of use for those of more than `parts_max` parts.
    pub fn new(parts_max: u32) -> Self {
        Self { known: cache(PACKETS_MAX, 1, |_| 1), parts_max, paused_until: Mutex::new(Instant::now()) }
    }

    /// Whether losers of this packet are answered from their claim items once it is final.
    pub fn is_for(&self, id: PacketId) -> bool {
        id.part_count() > self.parts_max && *lock(&self.paused_until) <= Instant::now()
    }

    /// Why a user without a claim of this packet has no slip, if it is known to be final.
    pub fn why(&self, id: PacketId) -> Option<Lost> {
        if !self.is_for(id) {
            return None;
        }
        self.known.get(&id).filter(|(until, _)| Instant::now() < *until).map(|(_, why)| why)
    }

    /// Leaves the ledger alone for a while, because it does not answer.
    pub fn pause(&self) {
        *lock(&self.paused_until) = Instant::now() + PAUSE;
    }

    /// Remembers a packet of which every part gave a loser a certain "no".
    ///
    /// Returns false for packets that it leaves out: those with a guard, which only the hot store checks, and those acknowledged on the
    /// hot store's word, whose claims may come to the ledger later.
    pub fn remember(&self, terms: &Terms, why: Lost, now: Timestamp) -> bool {
        let is_guarded = terms.guard.passphrase.is_some() || terms.guard.recipients.is_some();
        if terms.ack == AckMode::Redis || is_guarded {
            return false;
        }
        let ttl = if why == Lost::SoldOut { TTL.min(terms.expires_at.since(now)) } else { TTL };
        self.known.insert(terms.id, (Instant::now() + ttl, why));
        true
    }
}

#[cfg(test)]
mod tests;
