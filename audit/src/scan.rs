//! Finds out what to check because of the items of a scan: the leads.

use std::collections::HashSet;

use shared::domain::{PacketId, UserId};
use shared::ledger::keys;
use shared::ports::Key;

use crate::item::{Name, Own};
use crate::layout::shown;
use crate::reader::{Item, ReadError, key_of};
use crate::run::{Outline, Run, Subject};

/// A check that an item calls for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Lead {
    /// This packet or wallet must be audited.
    To(Subject),
    /// This user has an item, so they must have a wallet.
    Owner(UserId),
    /// An item exists, so its packet must exist, with that slip or part.
    Member(PacketId, Place),
    /// The item with this key says that this packet has a reference, or a limit with a key, so it must have it.
    Listed(Key, PacketId),
    /// The key has no meaning.
    Unknown(Key),
}

/// A place in a packet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Place {
    Slip(u32),
    Part(u32),
}

impl Lead {
    /// The key of what is checked, as in reports.
    pub fn key(&self) -> String {
        match self {
            Self::To(subject) => subject.key(),
            Self::Owner(user) => shown(&keys::wallet(user)),
            Self::Member(id, place) => shown(&place.name(*id)),
            Self::Listed(key, _) | Self::Unknown(key) => shown(key),
        }
    }
}

impl Place {
    /// The key of the item at this place.
    pub fn name(self, packet: PacketId) -> Key {
        match self {
            Self::Slip(slip) => keys::decision(packet, slip),
            Self::Part(index) => keys::amounts(shared::domain::PartId { packet, index }),
        }
    }
}

impl Run {
    /// The leads of a page, each once.
    ///
    /// A full audit checks each packet and wallet once, when the scan meets it. Any other item only raises the question
    /// whether its packet or wallet exists. An audit of changes follows an item to its packet or wallet, since these
    /// have no time of change themselves.
    pub(crate) async fn leads(&self, items: &[Item]) -> Result<HashSet<Lead>, ReadError> {
        let mut leads = HashSet::new();
        let mut decided = HashSet::new();
        for key in items.iter().filter_map(key_of) {
            match Name::of(&key) {
                None => drop(leads.insert(Lead::Unknown(key))),
                Some(Name::Receiver | Name::SoldOut(_) | Name::Sending | Name::CloseOrder) => {}
                Some(Name::Packet(id)) => drop(leads.insert(Lead::To(Subject::Packet(id)))),
                Some(Name::Amounts(part)) => drop(leads.insert(Lead::Member(part.packet, Place::Part(part.index)))),
                Some(Name::Decision(id, slip)) => {
                    leads.insert(Lead::Member(id, Place::Slip(slip)));
                    decided.insert(id);
                }
                Some(Name::Reference(_, id) | Name::Limited(.., id)) => drop(leads.insert(Lead::Listed(key, id))),
                Some(Name::Of(user, Own::Wallet)) => drop(leads.insert(Lead::To(Subject::Wallet(user)))),
                Some(Name::Of(user, _)) if self.since.is_none() => drop(leads.insert(Lead::Owner(user))),
                Some(Name::Of(user, _)) => leads.extend(self.first_lead(Subject::Wallet(user))),
            }
        }
        if let Some(since) = self.since {
            let outlines = self.outlines(decided.iter().copied().collect()).await?;
            // The scan picks this packet by its own times, and checks it then.
            let is_picked =
                |packet: &Outline| packet.created_at >= since.written_ms || packet.expires_at >= since.expired_ms;
            let others = decided.into_iter().filter(|id| !outlines.get(id).is_some_and(is_picked));
            leads.extend(others.filter_map(|id| self.first_lead(Subject::Packet(id))));
        }
        Ok(leads)
    }

    /// A lead to a packet or wallet, if this run has not checked it before.
    fn first_lead(&self, subject: Subject) -> Option<Lead> {
        self.is_first_sight(&subject).then_some(Lead::To(subject))
    }
}
