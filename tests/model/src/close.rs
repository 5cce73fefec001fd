//! A close: `ClosePacket` in `service/close.rs`, and `Closer`, which settle shares.

use crate::call::{Call, Reply};
use crate::instance::{Instance, Mutant};
use crate::set::Set;

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
    step: Step,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Step {
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
        Self { parts, step: Step::Close }
    }

    /// The call that comes next.
    pub fn call(self, instance: &Instance) -> Option<Call> {
        let part = self.parts.first()?;
        Some(match self.step {
            Step::Close => Call::Close(part),
            Step::Read => Call::ReadDecisions(instance.slips_of(part)),
            Step::Load(decisions) => Call::Load { part, decisions, closed: true },
        })
    }

    /// The step after a reply; `None`: all parts are closed.
    pub fn next(self, instance: &Instance, reply: Reply) -> Option<Self> {
        let step = match (self.step, reply) {
            (Step::Close, Reply::Loaded(false)) if !instance.has(Mutant::CloseSkipsUnloaded) => Step::Read,
            (Step::Read, Reply::Set(decisions)) => Step::Load(decisions),
            // Somebody may have loaded it first, as open.
            (Step::Load(_), Reply::Loaded(true)) => Step::Close,
            (_, _) => {
                let rest = self.parts.rest();
                return (!rest.is_empty()).then_some(Self::new(rest));
            }
        };
        Some(Self { step, ..self })
    }
}
