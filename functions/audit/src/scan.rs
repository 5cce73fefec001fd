//! From the items of a scan to what needs a look.

use std::collections::HashSet;

use shared::domain::{PacketId, UserId};
use shared::ledger::keys;
use shared::ports::Key;

use crate::auditor::{Outline, Run, Subject};
use crate::confirm::Look;
use crate::item::{Name, Own};
use crate::packet::{part_count, shown};
use crate::reader::{Item, ReadError, key_of};
use crate::report::{Imbalance, Kind, Report};

/// Why an item needs a look.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Lead {
    /// It, or what it belongs to, is to be audited.
    To(Subject),
    /// This user has an item, so he has a wallet.
    Owner(UserId),
    /// There is such an item, so there is such a packet, with that slip or part.
    Member(PacketId, Place),
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
    /// The key of what it leads to, as reports show it.
    pub fn key(&self) -> String {
        match self {
            Self::To(subject) => subject.key(),
            Self::Owner(user) => shown(&keys::wallet(user)),
            Self::Member(id, place) => shown(&place.name(*id)),
            Self::Unknown(key) => shown(key),
        }
    }
}

impl Place {
    fn name(self, packet: PacketId) -> Key {
        match self {
            Self::Slip(slip) => keys::decision(packet, slip),
            Self::Part(index) => keys::amounts(shared::domain::PartId { packet, index }),
        }
    }

    /// What a packet has against an item at this place.
    fn against(self, id: PacketId, packet: Option<&Outline>) -> Option<Imbalance> {
        let key = shown(&self.name(id));
        let Some(packet) = packet else {
            return Some(Imbalance::new(Kind::Orphan, key, format!("packet {id}"), "no such packet"));
        };
        let (kind, index, count, what) = match self {
            Self::Slip(slip) => (Kind::Decision, slip, packet.count, "slips"),
            Self::Part(part) => (Kind::Amounts, part, part_count(packet.count), "parts"),
        };
        (index >= count).then(|| Imbalance::new(kind, key, format!("one of {count} {what}"), format!("number {index}")))
    }
}

impl Run {
    /// The leads of a page, each once.
    ///
    /// Where everything is audited, each packet and wallet is looked at once, where the scan meets it; any other item only
    /// raises the question whether it belongs to one. Where only what changed is audited, an item leads to the packet or
    /// wallet that it belongs to, for these have no time of change themselves.
    pub(crate) async fn leads(&self, items: &[Item]) -> Result<HashSet<Lead>, ReadError> {
        let mut leads = HashSet::new();
        let mut decided = HashSet::new();
        for key in items.iter().filter_map(key_of) {
            match Name::of(&key) {
                None => drop(leads.insert(Lead::Unknown(key))),
                Some(Name::Packet(id)) => drop(leads.insert(Lead::To(Subject::Packet(id)))),
                Some(Name::Amounts(part)) => drop(leads.insert(Lead::Member(part.packet, Place::Part(part.index)))),
                Some(Name::Decision(id, slip)) => {
                    leads.insert(Lead::Member(id, Place::Slip(slip)));
                    decided.insert(id);
                }
                Some(Name::Of(user, Own::Wallet)) => drop(leads.insert(Lead::To(Subject::Wallet(user)))),
                Some(Name::Of(user, _)) if self.since.is_none() => drop(leads.insert(Lead::Owner(user))),
                Some(Name::Of(user, _)) => leads.extend(self.first_sight(Subject::Wallet(user))),
            }
        }
        if let Some(since) = self.since {
            let outlines = self.outlines(decided.iter().copied().collect()).await?;
            // One that the scan picks by its own times is looked at there.
            let is_picked =
                |packet: &Outline| packet.created_at >= since.written_ms || packet.expires_at >= since.expired_ms;
            let others = decided.into_iter().filter(|id| !outlines.get(id).is_some_and(is_picked));
            leads.extend(others.filter_map(|id| self.first_sight(Subject::Packet(id))));
        }
        Ok(leads)
    }

    /// A lead to a subject that this run has not had before, as far as it remembers.
    fn first_sight(&self, subject: Subject) -> Option<Lead> {
        let is_new = !self.seen.contains_key(&subject);
        is_new.then(|| {
            self.seen.insert(subject.clone(), ());
            Lead::To(subject)
        })
    }

    /// Follows a lead to its end.
    pub(crate) async fn follow(&self, lead: &Lead) -> Result<Report, ReadError> {
        match lead {
            Lead::To(subject) => self.look_until_sure(subject).await,
            Lead::Owner(user) => self.owner(user).await,
            Lead::Member(id, place) => self.member(*id, *place).await,
            Lead::Unknown(key) => {
                let unknown = Imbalance::new(Kind::UnknownItem, shown(key), "a key of this ledger", "another");
                let report = Report::wrong(vec![unknown]);
                report.log();
                Ok(report)
            }
        }
    }

    /// A user with a wallet is looked at where the scan meets it.
    async fn owner(&self, user: &UserId) -> Result<Report, ReadError> {
        if self.wallets.contains_key(user) {
            return Ok(Report::default());
        }
        if self.reader.get(keys::wallet(user)).await?.is_some() {
            self.wallets.insert(user.clone(), ());
            return Ok(Report::default());
        }
        match self.first_sight(Subject::Wallet(user.clone())) {
            Some(_) => self.look_until_sure(&Subject::Wallet(user.clone())).await,
            None => Ok(Report::default()),
        }
    }

    async fn member(&self, id: PacketId, place: Place) -> Result<Report, ReadError> {
        let look = async || {
            let outlines = self.outlines(vec![id]).await?;
            let imbalances = place.against(id, outlines.get(&id)).into_iter().collect();
            Ok(Look { imbalances, ..Look::default() })
        };
        self.sure(|| shown(&place.name(id)), look).await
    }
}
