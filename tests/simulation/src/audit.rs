//! The audit of the simulation's ledger: the one that is deployed, over items in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use audit::books::Books;
use audit::{Auditor, Figures, Page, Progress, Range, ReadError, Rereads, Source};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_dynamo::AttributeValue;
use shared::domain::{Terms, WinLimit};
use shared::ports::{Item, Key};
use tokio::time::Instant;

use crate::trace::{Kind, Violation};
use crate::world::Known;

/// A ledger at one moment.
#[derive(Debug)]
struct Items(BTreeMap<Key, Item>);

impl Source for Items {
    fn scan<'a>(&'a self, range: &'a Range, _: Option<&'a Key>) -> BoxFuture<'a, Result<Page, ReadError>> {
        let items: Vec<Item> = match range {
            Range::Keys(keys) => keys.iter().filter_map(|key| self.0.get(key).cloned()).collect(),
            Range::Partition { pk, prefix } => {
                let first = Key { pk: pk.clone(), sk: prefix.clone() };
                let is_in = |key: &Key| key.pk == *pk && key.sk.starts_with(prefix);
                self.0.range(first..).take_while(|(key, _)| is_in(key)).map(|(_, item)| item.clone()).collect()
            }
            Range::Segment { .. } => self.0.values().cloned().collect(),
        };
        std::future::ready(Ok(Page { items, next: None })).boxed()
    }
}

/// Audits a ledger, and reads what it says.
///
/// # Panics
/// If its memory does not answer.
pub async fn audit(mut items: BTreeMap<Key, Item>, packets: &[Known]) -> Result<Books, Violation> {
    let broken = |kind, what| Err(Violation { kind, what });
    let (mut books, mut malformed) = (Books::default(), None);
    for (key, item) in &mut items {
        if let Err(why) = books.enter(key, item) {
            malformed = Some(format!("{key:?}: {why:?}"));
        }
        for (name, text) in [("PK", &key.pk), ("SK", &key.sk)] {
            item.insert(name.to_owned(), AttributeValue::S(text.clone()));
        }
    }
    // What does not move needs no second look.
    let rereads = Rereads { pauses: Vec::new(), confirmations: 0 };
    let auditor = Auditor::over(Arc::new(Items(items))).with_rereads(rereads);
    let everything = Progress::full(1).expect("one segment is enough");
    let done = auditor.run(everything, Instant::now()).await.expect("memory answers");
    let report = done.report();
    // The same in each run of a seed.
    if let Some(first) = report.imbalances.iter().min_by_key(|found| (found.kind, &found.key)) {
        return broken(promise(first.kind), format!("{first:?}"));
    }
    if let Some(what) = malformed {
        return broken(Kind::Decision, what);
    }
    let Figures { deposited, withdrawn, in_wallets, in_pending, in_slips, .. } = report.figures;
    if !report.is_balanced() || deposited != withdrawn + in_wallets + in_pending + in_slips {
        return broken(Kind::Conservation, format!("{report:?}"));
    }
    for Known { terms, .. } in packets {
        let Some(WinLimit { key, wins, amount }) = &terms.limit else { continue };
        // Here all packets with a key have the same limit.
        let is_of_it =
            |other: &Terms| other.sender == terms.sender && other.limit.as_ref().is_some_and(|it| it.key == *key);
        let same = packets.iter().filter(|other| is_of_it(&other.terms));
        let mut won = BTreeMap::<&str, (u32, u64)>::new();
        let claims =
            same.filter_map(|other| books.packets.get(&other.terms.id.to_string())).flat_map(|books| &books.claims);
        for (user, (_, amount, _)) in claims {
            let (wins, sum) = won.entry(user).or_default();
            (*wins, *sum) = (*wins + 1, *sum + amount);
        }
        let is_beyond = |(won, sum): &&(u32, u64)| {
            wins.is_some_and(|most| *won > most) || amount.is_some_and(|most| *sum > most.minor_units())
        };
        if let Some(won) = won.values().find(is_beyond) {
            return broken(Kind::Limit, format!("a user has won {won:?}, beyond {:?}", terms.limit));
        }
    }
    Ok(books)
}

/// The promise that an imbalance breaks.
const fn promise(kind: audit::Kind) -> Kind {
    use audit::Kind as Found;
    match kind {
        Found::Decision | Found::Malformed | Found::Closing => Kind::Decision,
        Found::DecisionWithoutClaim | Found::ClaimWithoutDecision => Kind::Claim,
        Found::Orphan | Found::Amounts | Found::Debit | Found::Refunds | Found::Conservation | Found::SendKeys => {
            Kind::Conservation
        }
        Found::Index => Kind::Liveness,
        Found::UnknownItem | Found::NoWallet | Found::Wallet | Found::Timeline => Kind::Wallet,
        Found::Days | Found::Limits => Kind::Limit,
        Found::Reference => Kind::Answer,
    }
}
