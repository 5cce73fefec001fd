//! A run of settle: `Settle` in `service/settle/mod.rs`. The engine handles several parts at once; this run handles them
//! one after another. Two concurrent runs cover the difference.

use crate::call::{Call, Reply};
use crate::hot::Holds;
use crate::instance::{Ack, Instance, Mutant, USERS, User, sum};
use crate::ledger::ClaimOutcome;
use crate::set::Set;

/// The next step of a run of settle.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Settle {
    /// Read the pending parts (`empty_partition`).
    Ready,
    /// Read the outbox of the next part (`drain`).
    Outbox {
        /// The parts still to drain.
        parts: Set,
        /// Whether this drain precedes a refund (`drain_packet`).
        refunding: bool,
    },
    /// Read the decisions of a part's held slips.
    Decisions(Drain),
    /// Only in [`Mutant::AckBeforeCommit`]: drop the holds before their commit.
    Drop(Drain, Set),
    /// Commit the holds of these slips, which had no decision (`persist`).
    Persist(Drain, Set),
    /// Reconcile the part with the outcomes.
    Reconcile(Drain),
    /// Read the outbox again: a packet is refunded only once it is empty.
    IsEmpty(Drain),
    /// Read the packet, once it is past its expiry and the grace (`settle_packet`).
    Packet,
    /// Read all decisions, to find the undecided slips.
    Free,
    /// Refund a chunk (`refund_chunk`).
    Refund {
        /// The chunk's slips.
        chunk: Set,
        /// The slips after this chunk.
        rest: Set,
        /// The slips whose decisions the run has read.
        seen: Set,
        /// Whether this run has refunded any slip.
        returned: bool,
    },
    /// Read all decisions again: only a read proves that every slip is decided.
    Reread,
    /// Mark the packet as settled.
    MarkSettled,
    /// Reconcile these parts with all decisions (`reconcile`).
    ReconcileParts(Set),
    /// Nothing more to do.
    Done,
}

/// A part while it is drained.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Drain {
    /// The parts to drain; this part is the first of them.
    parts: Set,
    /// Whether the drain precedes a refund.
    refunding: bool,
    /// The part's holds.
    holds: Holds,
    /// The decisions found so far.
    decisions: Set,
}

impl Settle {
    /// The calls that may come next. `is_due`: whether the packet is past its expiry and the grace.
    pub fn calls(self, instance: &Instance, is_due: bool, calls: &mut Vec<Call>) {
        match self {
            Self::Ready => calls.push(Call::ReadPending),
            Self::Outbox { parts, .. } => calls.extend(parts.first().map(Call::ReadOutbox)),
            Self::Decisions(drain) => calls.push(Call::ReadDecisions(drain.holds.slips())),
            Self::Drop(_, open) => calls.push(Call::DropHolds(open)),
            Self::Persist(drain, open) => {
                for (slip, user) in drain.holds.of(open).each() {
                    calls.push(Call::Claim { slip, user });
                    if instance.has(Mutant::PutBackAfterTimeout) {
                        calls.push(Call::PutBack { slip, user });
                    }
                }
            }
            Self::Reconcile(Drain { parts, decisions, holds, .. }) => {
                calls.extend(parts.first().map(|part| Call::Reconcile { part, decisions, decided: holds }));
            }
            Self::IsEmpty(drain) => calls.extend(drain.parts.first().map(Call::ReadOutbox)),
            Self::Packet => calls.extend(is_due.then_some(Call::ReadPacket)),
            Self::Free | Self::Reread => calls.push(Call::ReadDecisions(instance.all())),
            Self::Refund { chunk, seen, .. } => {
                let counted = instance.has(Mutant::RefundByCount);
                let sum = if counted { sum(instance.all().without(seen)) } else { sum(chunk) };
                calls.push(Call::Refund { slips: chunk, sum });
            }
            Self::MarkSettled => calls.push(Call::MarkSettled),
            Self::ReconcileParts(parts) => calls.extend(parts.first().map(|part| Call::Reconcile {
                part,
                decisions: instance.slips_of(part),
                decided: Holds::default(),
            })),
            Self::Done => {}
        }
    }

    /// The step after a reply.
    #[must_use]
    pub fn next(self, instance: &Instance, call: Call, reply: Reply) -> Self {
        match (self, reply) {
            (Self::Ready, Reply::Set(parts)) => after_outbox(parts, false),
            (Self::Outbox { parts, refunding }, Reply::Holds(holds)) => {
                let drain = Drain { parts, refunding, holds, decisions: Set::NONE };
                if holds.slips().is_empty() { Self::Reconcile(drain) } else { Self::Decisions(drain) }
            }
            (Self::Decisions(drain), Reply::Set(decisions)) => {
                let open = drain.holds.slips().without(decisions);
                let drain = Drain { decisions, ..drain };
                if instance.has(Mutant::AckBeforeCommit) { Self::Drop(drain, open) } else { persist(drain, open) }
            }
            (Self::Drop(drain, open), Reply::Done) => persist(drain, open),
            (Self::Persist(drain, open), reply) => persisted(drain, open, call, reply),
            (Self::Reconcile(drain), Reply::Done) => {
                // An outbox that was empty is not read again.
                if drain.refunding && !drain.holds.slips().is_empty() {
                    Self::IsEmpty(drain)
                } else {
                    drain.next_part()
                }
            }
            (Self::IsEmpty(drain), Reply::Holds(holds)) => {
                if holds.slips().is_empty() {
                    drain.next_part()
                } else {
                    Self::Done
                }
            }
            (Self::Packet, Reply::Settled(false)) => {
                if instance.ack == Ack::Redis && !instance.has(Mutant::RefundWithoutDraining) {
                    Self::Outbox { parts: Set::range(0, instance.parts), refunding: true }
                } else {
                    Self::Free
                }
            }
            (Self::Free, Reply::Set(seen)) => refund(instance, instance.all().without(seen), seen, false),
            (Self::Refund { chunk, rest, seen, returned }, Reply::Set(in_the_way)) => {
                refunded(instance, chunk, rest, seen, returned, in_the_way)
            }
            (Self::Reread, Reply::Set(seen)) => close(instance, seen),
            (Self::MarkSettled, Reply::Done) => Self::ReconcileParts(Set::range(0, instance.parts)),
            (Self::ReconcileParts(parts), Reply::Done) => {
                let rest = parts.without(parts.lowest(1));
                if rest.is_empty() { Self::Done } else { Self::ReconcileParts(rest) }
            }
            // The packet is settled. Or the ledger does not have it; then its holds are parked.
            (_, _) => Self::Done,
        }
    }
}

impl Settle {
    /// The outbox that the run is draining, if any.
    pub const fn holds(self) -> Holds {
        match self {
            Self::Decisions(drain)
            | Self::Drop(drain, _)
            | Self::Persist(drain, _)
            | Self::Reconcile(drain)
            | Self::IsEmpty(drain) => drain.holds,
            _ => Holds::NONE,
        }
    }

    /// The same run with renamed users.
    #[must_use]
    pub fn renamed(mut self, to: [User; USERS]) -> Self {
        if let Self::Decisions(drain)
        | Self::Drop(drain, _)
        | Self::Persist(drain, _)
        | Self::Reconcile(drain)
        | Self::IsEmpty(drain) = &mut self
        {
            drain.holds = drain.holds.renamed(to);
        }
        self
    }
}

impl Drain {
    fn next_part(self) -> Settle {
        after_outbox(self.parts.without(self.parts.lowest(1)), self.refunding)
    }
}

const fn after_outbox(parts: Set, refunding: bool) -> Settle {
    match (parts.is_empty(), refunding) {
        (false, _) => Settle::Outbox { parts, refunding },
        (true, false) => Settle::Packet,
        (true, true) => Settle::Free,
    }
}

const fn persist(drain: Drain, open: Set) -> Settle {
    if open.is_empty() { Settle::Reconcile(drain) } else { Settle::Persist(drain, open) }
}

/// One hold's outcome: the decisions that it shows (`ClaimOutcome::decisions`).
fn persisted(drain: Drain, open: Set, call: Call, reply: Reply) -> Settle {
    let (Call::Claim { slip, .. } | Call::PutBack { slip, .. }) = call else { return Settle::Done };
    let met = match reply {
        Reply::Claim(ClaimOutcome::Committed | ClaimOutcome::Taken) => Set::of(slip),
        Reply::Claim(ClaimOutcome::Already { slip: own, foreign: false }) => Set::of(own),
        Reply::Claim(ClaimOutcome::Already { slip: own, foreign: true }) => Set::of(own).and(Set::of(slip)),
        Reply::NoPacket => return Settle::Done,
        _ => Set::NONE,
    };
    persist(Drain { decisions: drain.decisions.and(met), ..drain }, open.without(Set::of(slip)))
}

/// The next chunk; after the last one, the packet's end.
fn refund(instance: &Instance, free: Set, seen: Set, returned: bool) -> Settle {
    let chunk = free.lowest(instance.chunk);
    if !chunk.is_empty() {
        Settle::Refund { chunk, rest: free.without(chunk), seen, returned }
    } else if returned {
        Settle::Reread
    } else {
        close(instance, seen)
    }
}

/// A chunk is refunded. Or some slips had decisions: the run removes these and tries the rest again.
fn refunded(instance: &Instance, chunk: Set, rest: Set, seen: Set, returned: bool, in_the_way: Set) -> Settle {
    if in_the_way.is_empty() {
        if instance.has(Mutant::SettledTooEarly) {
            return Settle::MarkSettled;
        }
        return refund(instance, rest, seen.and(chunk), true);
    }
    let chunk = chunk.without(in_the_way);
    let counted = if instance.has(Mutant::RefundByCount) { Set::NONE } else { in_the_way };
    let seen = seen.and(counted);
    if chunk.is_empty() {
        refund(instance, rest, seen, returned)
    } else {
        Settle::Refund { chunk, rest, seen, returned }
    }
}

fn close(instance: &Instance, seen: Set) -> Settle {
    if seen.covers(instance.all()) { Settle::MarkSettled } else { Settle::Done }
}
