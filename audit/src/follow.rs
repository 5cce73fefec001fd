//! Follows leads: makes the checks that the items of a scan call for.

use shared::domain::{PacketId, Reference, UserId};
use shared::ledger::keys;

use crate::confirm::Check;
use crate::layout::shown;
use crate::reader::ReadError;
use crate::report::{Imbalance, Kind, Report};
use crate::run::{Outline, Run, Subject};
use crate::scan::{Lead, Place};

impl Run {
    /// Checks a packet or a wallet until it is in order or certainly wrong.
    pub(crate) async fn check_until_sure(&self, subject: &Subject) -> Result<Report, ReadError> {
        let key = || subject.key();
        match subject {
            Subject::Packet(id) => self.sure(key, || self.check_packet(*id)).await,
            Subject::Wallet(user) => self.sure(key, || self.check_wallet(user)).await,
        }
    }

    /// Makes the check that a lead calls for.
    pub(crate) async fn follow(&self, lead: &Lead) -> Result<Report, ReadError> {
        match lead {
            Lead::To(subject) => self.check_until_sure(subject).await,
            Lead::Owner(user) => self.owner(user).await,
            Lead::Member(id, place) => self.member(*id, *place).await,
            Lead::Referenced(reference, id) => self.referenced(reference, *id).await,
            Lead::Unknown(key) => {
                let unknown = Imbalance::new(Kind::UnknownItem, shown(key), "a key of this ledger", "another");
                let report = Report::wrong(vec![unknown]);
                report.log();
                Ok(report)
            }
        }
    }

    /// The scan checks a user's wallet when it meets the wallet itself.
    async fn owner(&self, user: &UserId) -> Result<Report, ReadError> {
        if self.wallets.contains_key(user) {
            return Ok(Report::default());
        }
        if self.reader.get(keys::wallet(user)).await?.is_some() {
            self.wallets.insert(user.clone(), ());
            return Ok(Report::default());
        }
        let wallet = Subject::Wallet(user.clone());
        if self.is_first_sight(&wallet) { self.check_until_sure(&wallet).await } else { Ok(Report::default()) }
    }

    async fn referenced(&self, reference: &Reference, id: PacketId) -> Result<Report, ReadError> {
        let check = async || {
            let outlines = self.outlines(vec![id]).await?;
            let imbalances = against_reference(reference, id, outlines.get(&id)).into_iter().collect();
            Ok(Check { imbalances, ..Check::default() })
        };
        self.sure(|| shown(&keys::reference(reference, id)), check).await
    }

    async fn member(&self, id: PacketId, place: Place) -> Result<Report, ReadError> {
        let check = async || {
            let outlines = self.outlines(vec![id]).await?;
            let imbalances = against(place, id, outlines.get(&id)).into_iter().collect();
            Ok(Check { imbalances, ..Check::default() })
        };
        self.sure(|| shown(&place.name(id)), check).await
    }
}

/// The imbalance between a packet and an item that says that it has this reference, if any.
fn against_reference(reference: &Reference, id: PacketId, packet: Option<&Outline>) -> Option<Imbalance> {
    let key = shown(&keys::reference(reference, id));
    match packet.map(|packet| packet.reference.as_ref()) {
        None => Some(Imbalance::new(Kind::Orphan, key, format!("packet {id}"), "no such packet")),
        Some(found) if found == Some(reference) => None,
        Some(found) => {
            let found = found.map_or_else(|| "a packet without one".to_owned(), |found| format!("one of {found}"));
            Some(Imbalance::new(Kind::Reference, key, format!("a packet of {reference}"), found))
        }
    }
}

/// The imbalance between a packet and an item at `place`, if any.
fn against(place: Place, id: PacketId, packet: Option<&Outline>) -> Option<Imbalance> {
    let key = shown(&place.name(id));
    let Some(packet) = packet else {
        return Some(Imbalance::new(Kind::Orphan, key, format!("packet {id}"), "no such packet"));
    };
    let (kind, index, count, what) = match place {
        Place::Slip(slip) => (Kind::Decision, slip, packet.count, "slips"),
        Place::Part(part) => (Kind::Amounts, part, id.part_count(), "parts"),
    };
    (index >= count).then(|| Imbalance::new(kind, key, format!("one of {count} {what}"), format!("number {index}")))
}
