//! One wallet against its user's movements, and each movement against its packet.
//!
//! Movements are only ever added. If two passes count the same number, the movements did not change between the end of
//! the first pass and the start of the second. So a wallet that was read between them must equal their sum. If the
//! passes differ, money moved, and the check says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_dynamo::AttributeValue;
use shared::domain::{PacketId, Timestamp, UserId};
use shared::ledger::keys;
use shared::ports::{Item, Key};

use crate::confirm::Check;
use crate::item::{Fields, Malformed, Name, Own, Refund, Slip, Sum, Withdrawal};
use crate::report::{Figures, Imbalance, Kind};
use crate::run::Run;
use crate::source::{Range, ReadError, key_of, shown};

/// Batches of claims whose decisions are read at once.
const BATCHES_AT_ONCE: usize = 4;
const CLAIMS_PER_BATCH: usize = 100;

/// The sums of a user's items.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Totals {
    /// The expected wallet.
    wallet: Wallet,
    movements: u64,
    deposited: u64,
    withdrawn: u64,
    /// Idempotency keys: their number, and the sum of their packets' ids, which does not depend on the order.
    keys: (u64, u128),
    /// The packets that the user sent, likewise.
    sent: (u64, u128),
    /// What counts towards the limit of each day and towards each limit of wins, by the sort key of its item: as debits and claims say.
    counts: BTreeMap<String, Sum>,
    /// The same as the items say.
    counted: BTreeMap<String, Sum>,
    /// Deposits, refunds and withdrawals: their number, and the sum of the hashes of all that they say.
    untimed: (u64, u128),
    /// Their copies in the timeline, likewise.
    timed: (u64, u128),
}

/// A wallet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Wallet {
    balance: i128,
    pending: i128,
    claims: (u64, i128),
    sent: (u64, i128),
}

impl Wallet {
    fn read(item: &Item) -> Result<Self, Malformed> {
        let fields = Fields(item);
        // A wallet has no number to which nothing was added. A suspended user may have no balance yet.
        let counted =
            |count, amount| Ok((if fields.has(count) { fields.number(count)? } else { 0 }, fields.total(amount)?));
        Ok(Self {
            balance: fields.total("balance")?,
            pending: fields.total("pending")?,
            claims: counted("claim_count", "claim_amount")?,
            sent: counted("sent_count", "sent_amount")?,
        })
    }
}

impl std::fmt::Display for Wallet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { balance, pending, claims, sent } = self;
        write!(
            f,
            "balance {balance}, pending {pending}, claims {} of {}, sent {} of {}",
            claims.0, claims.1, sent.0, sent.1
        )
    }
}

/// A movement of a packet, to be checked against it.
enum Linked {
    Claim(Slip),
    Sent(u64),
    Refund(u32),
    SendKey,
}

impl Run {
    /// Checks a user's wallet and all of its movements.
    pub(crate) async fn check_wallet(&self, user: &UserId) -> Result<Check, ReadError> {
        let mut wrong = Vec::new();
        let before = self.pass(user, Some(&mut wrong)).await?;
        let key = keys::wallet(user);
        let item = self.source.get(key.clone()).await?;
        let figures = |wallet: Wallet| Figures {
            wallets: u64::from(item.is_some()),
            movements: before.movements,
            deposited: before.deposited,
            withdrawn: before.withdrawn,
            in_wallets: u64::try_from(wallet.balance).unwrap_or(0),
            in_pending: u64::try_from(wallet.pending).unwrap_or(0),
            ..Figures::default()
        };
        let wallet = match item.as_ref().map(Wallet::read) {
            None => None,
            Some(Ok(wallet)) => Some(wallet),
            Some(Err(malformed)) => {
                wrong.push(Imbalance::malformed(&key, malformed));
                return Ok(Check { figures: figures(Wallet::default()), imbalances: wrong, moving: false });
            }
        };
        let figures = figures(wallet.unwrap_or_default());
        let against = before.against(user, wallet);
        if against.is_empty() {
            return Ok(Check { figures, imbalances: wrong, moving: false });
        }
        let after = self.pass(user, None).await?;
        if after == before {
            wrong.extend(against);
            return Ok(Check { figures, imbalances: wrong, moving: false });
        }
        // Another check decides, unless the movement explains the difference.
        let moving = !after.against(user, wallet).is_empty();
        Ok(Check { figures, imbalances: wrong, moving })
    }

    /// Sums up a user's items page by page. With `wrong`, also checks each item against its packet.
    async fn pass(&self, user: &UserId, mut wrong: Option<&mut Vec<Imbalance>>) -> Result<Totals, ReadError> {
        let mut totals = Totals::default();
        let mut pages = self.source.pages(Range::Partition { pk: keys::user(user), prefix: String::new() });
        while let Some(items) = pages.try_next().await? {
            let mut linked = Vec::new();
            for item in &items {
                let Some(key) = key_of(item) else { continue };
                // The scan reports a key without a meaning.
                let Some(Name::Of(_, own)) = Name::of(&key) else { continue };
                match (totals.enter(user, own, &key, item), &mut wrong) {
                    (Ok(link), _) => linked.extend(link.map(|(packet, link)| (key, packet, link))),
                    (Err(malformed), Some(wrong)) => wrong.push(Imbalance::malformed(&key, malformed)),
                    (Err(_), None) => {}
                }
            }
            if let Some(wrong) = &mut wrong {
                wrong.extend(self.against_packets(user, linked).await?);
            }
        }
        Ok(totals)
    }

    async fn against_packets(
        &self,
        user: &UserId,
        linked: Vec<(Key, PacketId, Linked)>,
    ) -> Result<Vec<Imbalance>, ReadError> {
        let (mut claims, mut others) = (Vec::new(), Vec::new());
        for (key, packet, link) in linked {
            match link {
                Linked::Claim(claim) => claims.push((key, packet, claim)),
                other => others.push((key, packet, other)),
            }
        }
        let batches: Vec<_> = claims.chunks(CLAIMS_PER_BATCH).map(<[_]>::to_vec).collect();
        let mut wrong: Vec<Imbalance> = stream::iter(batches)
            .map(|claims| self.claims_against_decisions(claims))
            .buffered(BATCHES_AT_ONCE)
            .map_ok(|wrong| stream::iter(wrong).map(Ok))
            .try_flatten()
            .try_collect()
            .await?;
        let terms = self.terms(others.iter().map(|(_, packet, _)| *packet).collect()).await?;
        for (key, packet, link) in others {
            let mut say = |kind, expected: String, found: &str| {
                wrong.push(Imbalance::new(kind, shown(&key), expected, found));
            };
            let Some(terms) = terms.get(&packet) else {
                say(Kind::Orphan, format!("packet {packet}"), "no such packet");
                continue;
            };
            let (kind, holds) = match link {
                Linked::Sent(amount) => (Kind::Debit, terms.total == amount),
                Linked::Refund(lowest) => (Kind::Refunds, lowest < terms.count),
                Linked::SendKey | Linked::Claim(_) => (Kind::SendKeys, true),
            };
            if terms.sender != *user {
                say(kind, format!("an item of {}, the packet's sender", terms.sender), "another's");
            } else if !holds {
                say(kind, format!("a packet of {} in {} slips", terms.total, terms.count), "something else");
            }
        }
        Ok(wrong)
    }

    /// Each claim has an equal decision of its slip.
    async fn claims_against_decisions(&self, claims: Vec<(Key, PacketId, Slip)>) -> Result<Vec<Imbalance>, ReadError> {
        let names = claims.iter().map(|(_, packet, claim)| keys::decision(*packet, claim.index)).collect();
        let decisions = self.source.batch(names).await?;
        let mut wrong = Vec::new();
        for (key, packet, claim) in claims {
            let decision = decisions.get(&keys::decision(packet, claim.index));
            if decision.is_none() && self.terms(vec![packet]).await?.is_empty() {
                wrong.push(Imbalance::new(Kind::Orphan, shown(&key), format!("packet {packet}"), "no such packet"));
                continue;
            }
            let found = decision.map(|item| Slip::decision(item).map(|decision| decision.to_string()));
            wrong.extend(Imbalance::unless_equal(Kind::ClaimWithoutDecision, &key, &claim, found));
        }
        Ok(wrong)
    }
}

impl Totals {
    /// Adds an item. Returns its link to a packet, if it has one.
    fn enter(
        &mut self,
        user: &UserId,
        own: Own,
        key: &Key,
        item: &Item,
    ) -> Result<Option<(PacketId, Linked)>, Malformed> {
        let fields = Fields(item);
        if let Own::Deposit | Own::Refund(..) | Own::Withdrawal = own {
            let at = Timestamp::from_ms(fields.number("at")?);
            add(&mut self.untimed, hash_of(&keys::in_timeline(key, at).sk, fields));
        }
        let amount = || fields.number("amount");
        let wallet = &mut self.wallet;
        let link = match own {
            Own::Wallet | Own::Deed => return Ok(None),
            Own::InTimeline(at) if at.ms() != fields.number("at")? => {
                return Err(Malformed("at: that of its key".to_owned()));
            }
            Own::InTimeline(_) => {
                add(&mut self.timed, hash_of(&key.sk, fields));
                return Ok(None);
            }
            Own::SendKey => {
                let packet = fields.packet()?;
                self.keys = (self.keys.0 + 1, self.keys.1.wrapping_add(number_of(packet)));
                return Ok(Some((packet, Linked::SendKey)));
            }
            Own::Claim(packet) => {
                Fields(item).signer()?;
                let claim = Slip::claim(user.clone(), item)?;
                if let Some(limit) = fields.limit_of_claim()? {
                    let sum = Sum { count: 1, amount: claim.amount };
                    self.counts.entry(format!("{}{limit}", keys::WON)).or_default().add(sum);
                }
                wallet.balance += i128::from(claim.amount);
                wallet.claims = (wallet.claims.0 + 1, wallet.claims.1 + i128::from(claim.amount));
                Some((packet, Linked::Claim(claim)))
            }
            Own::Day | Own::Won => {
                let (count, amount) = if own == Own::Day { ("sent_count", "sent_amount") } else { ("wins", "amount") };
                let sum = Sum { count: fields.number(count)?, amount: fields.number(amount)? };
                self.counted.entry(key.sk.clone()).or_default().add(sum);
                return Ok(None);
            }
            Own::Sent(packet) => {
                let amount = amount()?;
                if fields.has("day") {
                    let sum = Sum { count: 1, amount };
                    self.counts.entry(format!("{}{}", keys::DAY, fields.text("day")?)).or_default().add(sum);
                }
                wallet.balance -= i128::from(amount);
                wallet.sent = (wallet.sent.0 + 1, wallet.sent.1 + i128::from(amount));
                self.sent = (self.sent.0 + 1, self.sent.1.wrapping_add(number_of(packet)));
                Some((packet, Linked::Sent(amount)))
            }
            Own::Refund(packet, lowest) => {
                wallet.balance += i128::from(Refund::read(lowest, item)?.sum.amount);
                Some((packet, Linked::Refund(lowest)))
            }
            Own::Deposit => {
                Fields(item).signer()?;
                let amount = amount()?;
                wallet.balance += i128::from(amount);
                self.deposited = self.deposited.saturating_add(amount);
                None
            }
            Own::Withdrawal => {
                let Withdrawal { posted, pending, returned, ended_at, .. } = Withdrawal::read(item)?;
                wallet.balance -= i128::from(posted) + i128::from(pending);
                wallet.pending += i128::from(pending);
                self.withdrawn = self.withdrawn.saturating_add(posted);
                if let Some(at) = ended_at.filter(|_| returned > 0) {
                    let id = key.sk.strip_prefix(keys::WITHDRAWAL).and_then(|id| id.parse().ok());
                    let id = id.ok_or_else(|| Malformed("an id".to_owned()))?;
                    let copy = keys::in_timeline(&keys::returned(user, &id), Timestamp::from_ms(at));
                    let number = |number: u64| AttributeValue::N(number.to_string());
                    let mut back = Item::from(HashMap::from([
                        ("id".to_owned(), AttributeValue::S(id.to_string())),
                        ("amount".to_owned(), number(returned)),
                        ("at".to_owned(), number(at)),
                    ]));
                    back.extend(item.get("ended_by").map(|by| ("by".to_owned(), by.clone())));
                    add(&mut self.untimed, hash_of(&copy.sk, Fields(&back)));
                }
                None
            }
        };
        self.movements += 1;
        Ok(link)
    }

    /// The imbalances between the wallet, or the keys, and these totals.
    fn against(&self, user: &UserId, wallet: Option<Wallet>) -> Vec<Imbalance> {
        let mut wrong = Vec::new();
        let key = shown(&keys::wallet(user));
        match wallet {
            None if self.movements > 0 => {
                let found = format!("none, but {} movements", self.movements);
                wrong.push(Imbalance::new(Kind::NoWallet, &key, self.wallet.to_string(), found));
            }
            Some(wallet) if wallet != self.wallet || wallet.balance < 0 || wallet.pending < 0 => {
                let never = if wallet.balance < 0 || wallet.pending < 0 { ", and never negative" } else { "" };
                let expected = format!("{}{never}", self.wallet);
                wrong.push(Imbalance::new(Kind::Wallet, &key, expected, wallet.to_string()));
            }
            _ => {}
        }
        for name in self.counts.keys().chain(self.counted.keys()).collect::<BTreeSet<_>>() {
            let say = |sums: &BTreeMap<String, Sum>| {
                let Sum { count, amount } = sums.get(name).copied().unwrap_or_default();
                format!("{amount} in {count} packets")
            };
            let kind = if name.starts_with(keys::DAY) { Kind::Days } else { Kind::Limits };
            let key = Key { pk: keys::user(user), sk: name.clone() };
            wrong.extend(Imbalance::unless_equal(kind, &key, &say(&self.counts), Some(Ok(say(&self.counted)))));
        }
        if self.keys != self.sent {
            let (expected, found) = (format!("those of {} packets", self.sent.0), format!("{} keys", self.keys.0));
            wrong.push(Imbalance::new(Kind::SendKeys, format!("{} / KEY#", keys::user(user)), expected, found));
        }
        if self.timed != self.untimed {
            let expected = format!("copies of {} movements", self.untimed.0);
            let found = match self.timed.0 {
                count if count == self.untimed.0 => "others".to_owned(),
                count => format!("{count} copies"),
            };
            wrong.push(Imbalance::new(Kind::Timeline, format!("{} / AT#", keys::user(user)), expected, found));
        }
        wrong
    }
}

fn add((count, sum): &mut (u64, u128), hash: u64) {
    *count += 1;
    *sum = sum.wrapping_add(hash.into());
}

/// A hash of an item, as it is in a timeline under `sk`. No copy is in the index.
fn hash_of(sk: &str, Fields(item): Fields) -> u64 {
    let left_out = [keys::PK, keys::SK, keys::DUE_SHARD, keys::DUE_AT];
    let attributes = item.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
    let attributes: BTreeMap<&String, String> = attributes.map(|(name, value)| (name, format!("{value:?}"))).collect();
    let mut hasher = DefaultHasher::new();
    (sk, attributes).hash(&mut hasher);
    hasher.finish()
}

/// A packet's id as a number, for sums over many.
fn number_of(packet: PacketId) -> u128 {
    packet.to_string().bytes().fold(0, |number: u128, byte| number.wrapping_mul(257).wrapping_add(byte.into()))
}
