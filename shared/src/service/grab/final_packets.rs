use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::Lost;
use crate::batching::{Cache, cache};
use crate::domain::{AckMode, PacketId, Terms, Timestamp};
use crate::lock;

/// How long a process trusts that a packet is final. Every slip stays decided, but after a close losers get another answer, and a
/// process must not keep what nobody asks for.
const TTL: Duration = Duration::from_mins(1);
/// How long a process asks the hot store instead, once the ledger did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The most packets that a process remembers.
const PACKETS_MAX: u64 = 10_000;

/// The final packets that this process knows. Each of their claims is in the ledger, so a user's own claim item tells whether they
/// have a slip.
pub struct FinalPackets {
    known: Cache<PacketId, Known>,
    paused_until: Mutex<Instant>,
}

/// A final packet. Its times are those of the clock, which goes on while a function is frozen.
#[derive(Clone, Copy)]
struct Known {
    since: Timestamp,
    until: Timestamp,
    why: Lost,
}

impl FinalPackets {
    /// Knows no packet yet.
    pub fn new() -> Self {
        Self { known: cache(PACKETS_MAX, 1, |_| 1), paused_until: Mutex::new(Instant::now()) }
    }

    /// Why a user without a claim of this packet has no slip, if it is known to be final.
    pub fn why(&self, id: PacketId, now: Timestamp) -> Option<Lost> {
        let known = self.known.get(&id).filter(|known| known.since <= now && now < known.until)?;
        (!self.is_paused()).then_some(known.why)
    }

    /// Remembers a packet of which every part gave a loser a certain "no".
    ///
    /// Leaves out two kinds. Only the hot store checks a passphrase and recipients. A claim that is acknowledged on the hot store's word
    /// may come to the ledger later.
    pub fn remember(&self, terms: &Terms, why: Lost, now: Timestamp) {
        let is_guarded = terms.guard.passphrase.is_some() || terms.guard.recipients.is_some();
        if terms.ack == AckMode::Redis || is_guarded {
            return;
        }
        let until = now.after(TTL);
        // From the expiry on losers get another answer.
        let until = if why == Lost::SoldOut { until.min(terms.expires_at) } else { until };
        self.known.insert(terms.id, Known { since: now, until, why });
    }

    /// Asks the ledger nothing for a while, because it does not answer.
    pub fn pause(&self) {
        *lock(&self.paused_until) = Instant::now() + PAUSE;
    }

    /// Whether the ledger did not answer a while ago.
    pub fn is_paused(&self) -> bool {
        Instant::now() < *lock(&self.paused_until)
    }
}

#[cfg(test)]
mod tests;
