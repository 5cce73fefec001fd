use std::time::Duration;

use super::NoSlip;
use crate::batching::{Cache, cache};
use crate::domain::{AckMode, PacketId, Terms, Timestamp};

/// How long a process trusts that a packet is final. Every slip stays decided, but after a close users get another answer, and a
/// process must not keep what nobody asks for.
const TTL: Duration = Duration::from_mins(1);
/// The most packets that a process remembers.
const PACKETS_MAX: u64 = 10_000;

/// The final packets of several parts that this process knows. Each of their claims is in the ledger, so one read of a user's claim item
/// tells as much as a probe of each part.
pub struct FinalPackets(Cache<PacketId, Known>);

/// A final packet. Its times are those of the clock, which goes on while a function is frozen.
#[derive(Clone, Copy)]
struct Known {
    since: Timestamp,
    until: Timestamp,
    why: NoSlip,
}

impl FinalPackets {
    /// Knows no packet yet.
    pub fn new() -> Self {
        Self(cache(PACKETS_MAX, 1, |_| 1))
    }

    /// Why a user without a claim of this packet has no slip, if it is known to be final.
    pub fn why(&self, id: PacketId, now: Timestamp) -> Option<NoSlip> {
        self.0.get(&id).filter(|known| known.since <= now && now < known.until).map(|known| known.why)
    }

    /// Remembers a packet of which every part had a certain "no" for a user.
    ///
    /// Leaves out two kinds. Only the hot store checks a passphrase and recipients. A claim that is acknowledged on the hot store's word
    /// may come to the ledger later.
    pub fn remember(&self, terms: &Terms, why: NoSlip, now: Timestamp) {
        let is_guarded = terms.guard.passphrase.is_some() || terms.guard.recipients.is_some();
        if terms.ack == AckMode::Redis || is_guarded {
            return;
        }
        let until = now.after(TTL);
        // From the expiry on users get another answer.
        let until = if why == NoSlip::SoldOut { until.min(terms.expires_at) } else { until };
        self.0.insert(terms.id, Known { since: now, until, why });
    }
}
