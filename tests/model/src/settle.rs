//! A run of settle: `Settle` in `service/settle/mod.rs`. The engine handles several parts at once; this run handles them
//! one after another. Two concurrent runs cover the difference.

use crate::call::{Call, Reply};
use crate::close::Closing;
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
    /// Read the packet, once it is past its expiry and the grace, or closed (`begin`).
    Packet,
    /// It is closed: close its parts.
    Close(Closing),
    /// Read the decisions of the next part, to find its undecided slips (`refund_part`).
    Free {
        /// The parts still to refund.
        parts: Set,
    },
    /// Refund a chunk (`refund_chunk`).
    Refund {
        /// The chunk's slips.
        chunk: Set,
        /// The slips after this chunk.
        rest: Set,
        /// The slips of the part whose decisions the run has read.
        seen: Set,
        /// The parts still to refund, with this one.
        parts: Set,
    },
    /// Read all decisions: only a read proves that every slip is decided (`end`).
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
    /// The calls that may come next. `is_due`: whether the packet is past its expiry and the grace, or closed.
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
                let Some(part) = parts.first() else { return };
                calls.push(Call::Reconcile { part, decisions, decided: holds });
                // A refund among them shows that the hot store went back to before it: the part receives all decisions.
                if is_due && !decisions.is_empty() {
                    calls.push(Call::ReadDecisions(instance.slips_of(part)));
                }
            }
            Self::IsEmpty(drain) => calls.extend(drain.parts.first().map(Call::ReadOutbox)),
            Self::Packet => calls.extend(is_due.then_some(Call::ReadPacket)),
            Self::Close(closing) => closing.calls(instance, calls),
            Self::Free { parts } => {
                calls.extend(parts.first().map(|part| Call::ReadDecisions(instance.slips_of(part))));
            }
            Self::Reread => calls.push(Call::ReadDecisions(instance.all())),
            Self::Refund { chunk, seen, parts, .. } => {
                let counted = instance.has(Mutant::RefundByCount);
                let sum = if counted { sum(first_of(instance, parts).without(seen)) } else { sum(chunk) };
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
            (Self::Ready, Reply::Set(parts)) => after_outbox(instance, parts, false),
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
            (Self::Reconcile(drain), Reply::Set(read)) => {
                Self::Reconcile(Drain { decisions: drain.decisions.and(read), ..drain })
            }
            (Self::Reconcile(drain), Reply::Done) => {
                // An outbox that was empty is not read again.
                if drain.refunding && !drain.holds.slips().is_empty() {
                    Self::IsEmpty(drain)
                } else {
                    drain.next_part(instance)
                }
            }
            (Self::IsEmpty(drain), Reply::Holds(holds)) => {
                // Without promises the ledger decides each slip.
                if holds.slips().is_empty() || instance.ack == Ack::Ledger {
                    drain.next_part(instance)
                } else {
                    Self::Done
                }
            }
            (Self::Packet, Reply::Packet { settled: false, closed: true }) => {
                let parts = Set::range(0, instance.parts);
                if instance.has(Mutant::RefundBeforeTold) {
                    after_outbox(instance, parts, true)
                } else {
                    Self::Close(Closing::Part(parts))
                }
            }
            // A part can't be closed.
            (Self::Close(_), Reply::Done) => {
                if instance.ack == Ack::Redis {
                    Self::Done
                } else {
                    Self::Free { parts: Set::range(0, instance.parts) }
                }
            }
            (Self::Close(closing), reply) => closing
                .next(instance, reply)
                .map_or_else(|| after_outbox(instance, Set::range(0, instance.parts), true), Self::Close),
            (Self::Packet, Reply::Packet { settled: false, closed: false }) => {
                if instance.ack == Ack::Redis && !instance.has(Mutant::RefundWithoutDraining) {
                    Self::Outbox { parts: Set::range(0, instance.parts), refunding: true }
                } else {
                    Self::Free { parts: Set::range(0, instance.parts) }
                }
            }
            (Self::Free { parts }, Reply::Set(seen)) => {
                let free = first_of(instance, parts).without(seen);
                // A packet of one part is not read again.
                if free.is_empty() && instance.parts == 1 {
                    close(instance, seen)
                } else {
                    refund(instance, free, seen, parts)
                }
            }
            (Self::Refund { chunk, rest, seen, parts }, Reply::Set(in_the_way)) => {
                refunded(instance, chunk, rest, seen, parts, in_the_way)
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

    /// The step after this one, if a closed packet without promises is refunded although the hot store can't be reached.
    pub fn unreached(self, instance: &Instance) -> Option<Self> {
        if instance.ack == Ack::Redis {
            return None;
        }
        match self {
            Self::Close(_) => Some(Self::Free { parts: Set::range(0, instance.parts) }),
            Self::Outbox { parts, refunding: true } => {
                Some(after_outbox(instance, parts.without(parts.lowest(1)), true))
            }
            _ => None,
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
    fn next_part(self, instance: &Instance) -> Settle {
        after_outbox(instance, self.parts.without(self.parts.lowest(1)), self.refunding)
    }
}

/// The slips of the first of these parts.
fn first_of(instance: &Instance, parts: Set) -> Set {
    parts.first().map_or(Set::NONE, |part| instance.slips_of(part))
}

const fn after_outbox(instance: &Instance, parts: Set, refunding: bool) -> Settle {
    match (parts.is_empty(), refunding) {
        (false, _) => Settle::Outbox { parts, refunding },
        (true, false) => Settle::Packet,
        (true, true) => Settle::Free { parts: Set::range(0, instance.parts) },
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

/// The next chunk of a part; after its last one, the next part; after the last part, the packet's end.
fn refund(instance: &Instance, free: Set, seen: Set, parts: Set) -> Settle {
    let chunk = free.lowest(instance.chunk);
    if !chunk.is_empty() {
        return Settle::Refund { chunk, rest: free.without(chunk), seen, parts };
    }
    let parts = parts.without(parts.lowest(1));
    if parts.is_empty() { Settle::Reread } else { Settle::Free { parts } }
}

/// A chunk is refunded. Or some slips had decisions: the run removes these and tries the rest again.
fn refunded(instance: &Instance, chunk: Set, rest: Set, seen: Set, parts: Set, in_the_way: Set) -> Settle {
    if in_the_way.is_empty() {
        if instance.has(Mutant::SettledTooEarly) {
            return Settle::MarkSettled;
        }
        return refund(instance, rest, seen.and(chunk), parts);
    }
    let chunk = chunk.without(in_the_way);
    let counted = if instance.has(Mutant::RefundByCount) { Set::NONE } else { in_the_way };
    let seen = seen.and(counted);
    if chunk.is_empty() { refund(instance, rest, seen, parts) } else { Settle::Refund { chunk, rest, seen, parts } }
}

fn close(instance: &Instance, seen: Set) -> Settle {
    if seen.covers(instance.all()) { Settle::MarkSettled } else { Settle::Done }
}
