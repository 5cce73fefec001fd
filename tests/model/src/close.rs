//! A close: `ClosePacket` in `service/close.rs`, and `Closer`, which settle shares.

use crate::call::{Call, Reply};
use crate::instance::{Instance, Mutant};
use crate::set::Set;

/// The operator, who may close the packet.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
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

/// What is next for the parts of a packet that is closed in the ledger (`close_part`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Closing {
    /// Close the first of these parts.
    Part(Set),
    /// It is not loaded: read its decisions.
    Read(Set),
    /// Load it as closed.
    Load {
        /// The parts that are still to be closed; this one is the first of them.
        parts: Set,
        /// Its decisions at the time of the read.
        decisions: Set,
    },
}

impl Operator {
    /// The calls that may come next.
    pub fn calls(self, instance: &Instance, calls: &mut Vec<Call>) {
        match self {
            Self::Mark => calls.push(Call::MarkClosed),
            Self::Close(closing) => closing.calls(instance, calls),
            Self::Answered | Self::Done => {}
        }
    }

    /// The step after a reply.
    #[must_use]
    pub fn next(self, instance: &Instance, reply: Reply) -> Self {
        match self {
            Self::Mark if matches!(reply, Reply::Packet { settled: true, .. }) => Self::Done,
            Self::Mark => Self::Close(Closing::Part(Set::range(0, instance.parts))),
            Self::Close(closing) => closing.next(instance, reply).map_or(Self::Answered, Self::Close),
            Self::Answered | Self::Done => self,
        }
    }
}

impl Closing {
    /// The calls that may come next.
    pub fn calls(self, instance: &Instance, calls: &mut Vec<Call>) {
        match self {
            Self::Part(parts) => calls.extend(parts.first().map(Call::Close)),
            Self::Read(parts) => {
                calls.extend(parts.first().map(|part| Call::ReadDecisions(instance.slips_of(part))));
            }
            Self::Load { parts, decisions } => {
                calls.extend(parts.first().map(|part| Call::Load { part, decisions, closed: true }));
            }
        }
    }

    /// The step after a reply; `None`: all parts are closed.
    pub fn next(self, instance: &Instance, reply: Reply) -> Option<Self> {
        match (self, reply) {
            (Self::Part(parts), Reply::Closed(false)) if !instance.has(Mutant::CloseSkipsUnloaded) => {
                Some(Self::Read(parts))
            }
            (Self::Read(parts), Reply::Set(decisions)) => Some(Self::Load { parts, decisions }),
            // Somebody may have loaded it first, as open.
            (Self::Load { parts, .. }, Reply::Loaded { expired: false }) => Some(Self::Part(parts)),
            (Self::Part(parts) | Self::Read(parts) | Self::Load { parts, .. }, _) => {
                let rest = parts.without(parts.lowest(1));
                (!rest.is_empty()).then_some(Self::Part(rest))
            }
        }
    }
}
