//! A run of settle: `Settle` in `service/settle/mod.rs`. The engine handles several parts at once; this run handles them
//! one after another. Two concurrent runs cover the difference. And a close: `ClosePacket` in `service/close.rs`, and `Closer`, which
//! settle shares.

use crate::hot::{Holds, NO_HOLDS, each, slips};
use crate::instance::{Ack, Instance, Mutant, Set, Slip};
use crate::ledger::ClaimOutcome;
use crate::protocol::{Call, Reply};

/// The next step of a run of settle.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Settle {
    /// Read the pending parts (`visit`).
    Ready,
    /// Read the outbox of the next part (`persist_part`).
    Outbox {
        /// The parts still to drain.
        parts: Set,
        /// Whether this drain precedes a refund.
        refunding: bool,
    },
    /// Read the decisions of a part's held slips.
    Decisions(Drain),
    /// Commit the holds of these slips, which had no decision (`persist`).
    Persist(Drain, Set),
    /// The claim of this slip's hold is refused: release the hold, before the other slips' holds are committed (`persist`).
    Release(Drain, Set, Slip),
    /// Reconcile the part with the outcomes.
    Reconcile(Drain),
    /// Read the outbox again: a packet is refunded only once it is empty.
    IsEmpty(Drain),
    /// Read the packet, once it is past its expiry and the grace, or closed (`first_step`).
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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
        let decisions = |part| Call::ReadDecisions(instance.slips_of(part));
        match self {
            Self::Ready => calls.push(Call::ReadPending),
            Self::Outbox { parts, .. } | Self::IsEmpty(Drain { parts, .. }) => {
                calls.extend(parts.first().map(Call::ReadOutbox));
            }
            Self::Decisions(drain) => calls.push(Call::ReadDecisions(slips(drain.holds))),
            Self::Persist(drain, open) => {
                let open = each(drain.holds).filter(|(slip, _)| open.has(*slip));
                calls.extend(open.map(|(slip, user)| Call::Claim { slip, user }));
            }
            Self::Release(drain, _, slip) => {
                calls.extend(drain.holds[usize::from(slip)].map(|user| Call::Release { slip, user }));
            }
            Self::Reconcile(drain) => {
                let Some(part) = drain.parts.first() else { return };
                calls.push(Call::Reconcile { part, decisions: drain.decisions, holds: drain.holds });
                // A refund among them shows that the hot store went back to before it: the part receives all decisions.
                if is_due && !drain.decisions.is_empty() {
                    calls.push(decisions(part));
                }
            }
            Self::Packet => calls.extend(is_due.then_some(Call::ReadPacket)),
            Self::Close(closing) => calls.extend(closing.call(instance)),
            Self::Free { parts } => calls.extend(parts.first().map(decisions)),
            Self::Reread => calls.push(Call::ReadDecisions(instance.all())),
            Self::Refund { chunk, .. } => calls.push(Call::Refund(chunk)),
            Self::MarkSettled => calls.push(Call::MarkSettled),
            Self::ReconcileParts(parts) => calls.extend(parts.first().map(|part| {
                let decisions = instance.slips_of(part);
                Call::Reconcile { part, decisions, holds: NO_HOLDS }
            })),
            Self::Done => {}
        }
    }

    /// The step after a reply.
    #[must_use]
    pub fn next(self, instance: &Instance, call: Call, reply: Reply) -> Self {
        let all = instance.all_parts();
        match (self, reply) {
            (Self::Ready, Reply::Set(parts)) => after_outbox(instance, parts, false),
            (Self::Outbox { parts, refunding }, Reply::Holds(holds)) => {
                let drain = Drain { parts, refunding, holds, decisions: Set::NONE };
                if holds == NO_HOLDS { Self::Reconcile(drain) } else { Self::Decisions(drain) }
            }
            (Self::Decisions(drain), Reply::Set(decisions)) => {
                persist(Drain { decisions, ..drain }, slips(drain.holds).without(decisions))
            }
            (Self::Persist(drain, open), reply) => {
                let Call::Claim { slip, .. } = call else { return self };
                let open = open.without(Set::of(slip));
                let met = match reply {
                    Reply::Claim(ClaimOutcome::Refused) if !instance.has(Mutant::SettleKeepsRefused) => {
                        return Self::Release(drain, open, slip);
                    }
                    Reply::Claim(outcome) => outcome.decisions(slip),
                    _ => Set::NONE,
                };
                persist(Drain { decisions: drain.decisions.and(met), ..drain }, open)
            }
            (Self::Release(drain, open, _), Reply::Done) => persist(drain, open),
            (Self::Reconcile(drain), Reply::Set(read)) => {
                Self::Reconcile(Drain { decisions: drain.decisions.and(read), ..drain })
            }
            // An outbox that was empty is not read again.
            (Self::Reconcile(drain), Reply::Done) if drain.refunding && drain.holds != NO_HOLDS => Self::IsEmpty(drain),
            // Promises are persisted first. Without any, the ledger decides each slip.
            (Self::IsEmpty(_), Reply::Holds(holds)) if holds != NO_HOLDS && instance.ack == Ack::Redis => Self::Done,
            (Self::Reconcile(drain), Reply::Done) | (Self::IsEmpty(drain), Reply::Holds(_)) => {
                after_outbox(instance, drain.parts.rest(), drain.refunding)
            }
            (Self::Packet, Reply::Packet { settled: false, closed: true })
                if !instance.has(Mutant::RefundBeforeTold) =>
            {
                Self::Close(Closing::new(all))
            }
            (Self::Packet, Reply::Packet { settled: false, closed }) => {
                let has_promises = instance.ack == Ack::Redis && !instance.has(Mutant::RefundWithoutDraining);
                after_outbox(instance, if closed || has_promises { all } else { Set::NONE }, true)
            }
            // A part can't be closed.
            (Self::Close(_), Reply::Done) if instance.ack == Ack::Redis => Self::Done,
            (Self::Close(_), Reply::Done) => Self::Free { parts: all },
            (Self::Close(closing), reply) => {
                closing.next(instance, reply).map_or_else(|| after_outbox(instance, all, true), Self::Close)
            }
            (Self::Free { parts }, Reply::Set(seen)) => {
                let free = parts.first().map_or(Set::NONE, |part| instance.slips_of(part)).without(seen);
                // A packet of one part is not read again.
                if free.is_empty() && instance.parts == 1 { Self::MarkSettled } else { refund(instance, free, parts) }
            }
            (Self::Refund { .. }, Reply::Set(Set::NONE)) if instance.has(Mutant::SettledTooEarly) => Self::MarkSettled,
            (Self::Refund { rest, parts, .. }, Reply::Set(Set::NONE)) => refund(instance, rest, parts),
            // Some slips had decisions: the run takes them out and tries the others again.
            (Self::Refund { chunk, rest, parts }, Reply::Set(in_the_way)) => {
                let chunk = chunk.without(in_the_way);
                if chunk.is_empty() { refund(instance, rest, parts) } else { Self::Refund { chunk, rest, parts } }
            }
            (Self::Reread, Reply::Set(seen)) if seen == instance.all() => Self::MarkSettled,
            (Self::MarkSettled, Reply::Done) => Self::ReconcileParts(all),
            (Self::ReconcileParts(parts), Reply::Done) if !parts.rest().is_empty() => {
                Self::ReconcileParts(parts.rest())
            }
            // The packet is settled, or not yet. Or the ledger does not have it.
            (_, _) => Self::Done,
        }
    }
}

fn after_outbox(instance: &Instance, parts: Set, refunding: bool) -> Settle {
    match (parts.is_empty(), refunding) {
        (false, _) => Settle::Outbox { parts, refunding },
        (true, false) => Settle::Packet,
        (true, true) => Settle::Free { parts: instance.all_parts() },
    }
}

const fn persist(drain: Drain, open: Set) -> Settle {
    if open.is_empty() { Settle::Reconcile(drain) } else { Settle::Persist(drain, open) }
}

/// The next chunk of a part; after its last one, the next part; after the last part, the packet's end.
fn refund(instance: &Instance, free: Set, parts: Set) -> Settle {
    let chunk: Set = free.each().take(instance.chunk).collect();
    if !chunk.is_empty() {
        return Settle::Refund { chunk, rest: free.without(chunk), parts };
    }
    let parts = parts.rest();
    if parts.is_empty() { Settle::Reread } else { Settle::Free { parts } }
}

/// The operator, who may close the packet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operator {
    /// Mark the packet as closed in the ledger (`ClosePacket::close`).
    Mark,
    /// Close the parts (`close_all`).
    Close(Closing),
    /// The close is answered.
    Answered,
    /// Nothing to do, or dead.
    Done,
}

/// The parts of a packet that is closed in the ledger, while they are closed (`close_part`).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Closing {
    /// The parts that are still to be closed, the first one now.
    parts: Set,
    /// What is next for that part.
    step: CloseStep,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum CloseStep {
    /// Close it.
    Close,
    /// It is not loaded: read its decisions.
    Read,
    /// Load it as closed, with its decisions at the time of the read.
    Load(Set),
}

impl Operator {
    /// The call that comes next.
    pub fn call(self, instance: &Instance) -> Option<Call> {
        match self {
            Self::Mark => Some(Call::MarkClosed),
            Self::Close(closing) => closing.call(instance),
            Self::Answered | Self::Done => None,
        }
    }

    /// The step after a reply.
    #[must_use]
    pub fn next(self, instance: &Instance, reply: Reply) -> Self {
        match self {
            Self::Mark if matches!(reply, Reply::Packet { settled: true, .. }) => Self::Done,
            Self::Mark => Self::Close(Closing::new(instance.all_parts())),
            Self::Close(closing) => closing.next(instance, reply).map_or(Self::Answered, Self::Close),
            Self::Answered | Self::Done => self,
        }
    }
}

impl Closing {
    /// Closes these parts.
    pub const fn new(parts: Set) -> Self {
        Self { parts, step: CloseStep::Close }
    }

    /// The call that comes next.
    pub fn call(self, instance: &Instance) -> Option<Call> {
        let part = self.parts.first()?;
        Some(match self.step {
            CloseStep::Close => Call::Close(part),
            CloseStep::Read => Call::ReadDecisions(instance.slips_of(part)),
            CloseStep::Load(decisions) => Call::Load { part, decisions, closed: true },
        })
    }

    /// The step after a reply; `None`: all parts are closed.
    pub fn next(self, instance: &Instance, reply: Reply) -> Option<Self> {
        let step = match (self.step, reply) {
            (CloseStep::Close, Reply::Loaded(false)) if !instance.has(Mutant::CloseSkipsUnloaded) => CloseStep::Read,
            (CloseStep::Read, Reply::Set(decisions)) => CloseStep::Load(decisions),
            // Somebody may have loaded it first, as open.
            (CloseStep::Load(_), Reply::Loaded(true)) => CloseStep::Close,
            (_, _) => {
                let rest = self.parts.rest();
                return (!rest.is_empty()).then_some(Self::new(rest));
            }
        };
        Some(Self { step, ..self })
    }
}
