//! Follows the items of a scan: finds out which checks they call for, and makes them.

use std::collections::HashSet;

use shared::domain::{PacketId, UserId};
use shared::ledger::keys;
use shared::ports::{Item, Key};

use crate::confirm::Check;
use crate::item::{Name, Own, Terms};
use crate::report::{Imbalance, Kind, Report};
use crate::run::{Run, Subject};
use crate::source::{ReadError, key_of, shown};

/// A check that an item calls for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Lead {
    /// This packet or wallet must be audited.
    To(Subject),
    /// This user has an item, so they must have a wallet.
    Owner(UserId),
    /// The item with this key exists, so this packet must, and have that slip or part, reference or limit.
    Member(Key, PacketId),
    /// The key has no meaning.
    Unknown(Key),
}

impl Lead {
    /// The key of what is checked, as in reports.
    pub fn key(&self) -> String {
        match self {
            Self::To(subject) => subject.key(),
            Self::Owner(user) => shown(&keys::wallet(user)),
            Self::Member(key, _) | Self::Unknown(key) => shown(key),
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
                Some(
                    Name::Receiver
                    | Name::SoldOut(_)
                    | Name::Sending
                    | Name::OperatorKey
                    | Name::Deed
                    | Name::Request
                    | Name::CloseOrder
                    | Name::Check,
                ) => {}
                Some(Name::Packet(id)) => drop(leads.insert(Lead::To(Subject::Packet(id)))),
                Some(Name::Amounts(part)) => drop(leads.insert(Lead::Member(key, part.packet))),
                Some(Name::Reference(_, id) | Name::Limited(.., id)) => drop(leads.insert(Lead::Member(key, id))),
                Some(Name::Decision(id, _)) => {
                    leads.insert(Lead::Member(key, id));
                    decided.insert(id);
                }
                Some(Name::Of(user, Own::Wallet)) => drop(leads.insert(Lead::To(Subject::Wallet(user)))),
                Some(Name::Of(user, _)) if self.since.is_none() => drop(leads.insert(Lead::Owner(user))),
                Some(Name::Of(user, _)) => leads.extend(self.first_lead(Subject::Wallet(user))),
            }
        }
        if let Some(since) = self.since {
            let terms = self.terms(decided.iter().copied().collect()).await?;
            // The scan picks this packet by its own times, and checks it then.
            let is_picked =
                |packet: &Terms| packet.created_at >= since.written_ms || packet.expires_at >= since.expired_ms;
            let others = decided.into_iter().filter(|id| !terms.get(id).is_some_and(is_picked));
            leads.extend(others.filter_map(|id| self.first_lead(Subject::Packet(id))));
        }
        Ok(leads)
    }

    /// A lead to a packet or wallet, if this run has not checked it before.
    fn first_lead(&self, subject: Subject) -> Option<Lead> {
        self.is_first_sight(&subject).then_some(Lead::To(subject))
    }

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
            Lead::Member(key, id) => {
                let check = async || {
                    let imbalances = against(key, *id, self.terms(vec![*id]).await?.get(id)).into_iter().collect();
                    Ok(Check { imbalances, ..Check::default() })
                };
                self.sure(|| shown(key), check).await
            }
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
        if self.source.get(keys::wallet(user)).await?.is_some() {
            self.wallets.insert(user.clone(), ());
            return Ok(Report::default());
        }
        let wallet = Subject::Wallet(user.clone());
        if self.is_first_sight(&wallet) { self.check_until_sure(&wallet).await } else { Ok(Report::default()) }
    }
}

/// The imbalance between a packet and the item with this key, if any.
fn against(key: &Key, id: PacketId, packet: Option<&Terms>) -> Option<Imbalance> {
    let Some(packet) = packet else {
        return Some(Imbalance::new(Kind::Orphan, shown(key), format!("packet {id}"), "no such packet"));
    };
    let within = |kind, index, count, what| {
        let imbalance =
            || Imbalance::new(kind, shown(key), format!("one of {count} {what}"), format!("number {index}"));
        (index >= count).then(imbalance)
    };
    match Name::of(key)? {
        Name::Decision(_, slip) => within(Kind::Decision, slip, packet.count, "slips"),
        Name::Amounts(part) => within(Kind::Amounts, part.index, id.part_count(), "parts"),
        _ => {
            let lists = packet.lists();
            let found = match lists.iter().map(shown).collect::<Vec<_>>() {
                names if names.is_empty() => "a packet of no list".to_owned(),
                names => format!("one of {}", names.join(", ")),
            };
            let imbalance = || Imbalance::new(Kind::Reference, shown(key), "a packet of this list", found);
            (!lists.contains(key)).then(imbalance)
        }
    }
}
