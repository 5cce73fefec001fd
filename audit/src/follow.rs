//! Follows leads: makes the checks that the items of a scan call for.

use shared::domain::{PacketId, UserId};
use shared::ledger::keys;
use shared::ports::Key;

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
            Lead::Listed(key, id) => self.listed_as(key, *id).await,
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

    async fn listed_as(&self, key: &Key, id: PacketId) -> Result<Report, ReadError> {
        let check = async || {
            let outlines = self.outlines(vec![id]).await?;
            let imbalances = against_list(key, id, outlines.get(&id)).into_iter().collect();
            Ok(Check { imbalances, ..Check::default() })
        };
        self.sure(|| shown(key), check).await
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

/// The imbalance between a packet and the item of a list that it should be in, if any.
fn against_list(key: &Key, id: PacketId, packet: Option<&Outline>) -> Option<Imbalance> {
    let Some(packet) = packet else {
        return Some(Imbalance::new(Kind::Orphan, shown(key), format!("packet {id}"), "no such packet"));
    };
    let lists = packet.lists(id);
    if lists.contains(key) {
        return None;
    }
    let found = match lists.iter().map(shown).collect::<Vec<_>>() {
        lists if lists.is_empty() => "a packet of no list".to_owned(),
        lists => format!("one of {}", lists.join(", ")),
    };
    Some(Imbalance::new(Kind::Reference, shown(key), "a packet of this list", found))
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
