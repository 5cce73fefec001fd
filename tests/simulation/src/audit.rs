//! Checks the ledger's items against each other. Shares only the key names with the code that writes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_dynamo::AttributeValue;
use shared::domain::{PacketId, PartId};
use shared::memory::MemoryTable;
use shared::ports::{Item, Key};

use crate::trace::{Kind, Violation};

type Items = BTreeMap<Key, Item>;

/// (slip, amount in minor units, time in ms).
pub type Claimed = (u32, u64, u64);

/// The ledger's content, once it was checked.
#[derive(Debug, Default)]
pub struct Books {
    /// By id.
    pub packets: BTreeMap<String, PacketBooks>,
    /// Balances by user.
    pub balances: BTreeMap<String, u64>,
}

/// One packet's content.
#[derive(Debug, Default)]
pub struct PacketBooks {
    /// The amount of each slip.
    pub amounts: Vec<u64>,
    /// Whether the packet is marked as settled.
    pub settled: bool,
    /// Slip → its decision.
    pub decisions: BTreeMap<u32, Decision>,
    /// User → their claim.
    pub claims: BTreeMap<String, Claimed>,
}

/// A slip decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The owner; `None`: refunded.
    pub user: Option<String>,
    /// The amount of the slip.
    pub amount: u64,
    /// When it was decided, in ms.
    pub at: u64,
}

macro_rules! check {
    ($kind:ident, $holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(Violation { kind: Kind::$kind, what: format!($($words)+) });
        }
    };
}

/// The amounts of a part.
pub fn amounts_of(table: &MemoryTable, part: PartId) -> Vec<u64> {
    let key = Key { pk: format!("PART#{}#{}", part.packet, part.index), sk: "AMOUNTS".to_owned() };
    table.read(&key).map(|item| decode(&item)).unwrap_or_default()
}

/// The claimed slips of a packet, with their amounts.
pub fn claimed(items: &Items, packet: PacketId) -> Vec<(u32, u64)> {
    let prefix = format!("SLIPS#{packet}#");
    let decisions = items.iter().filter(|(key, item)| key.pk.starts_with(&prefix) && item.get("user_id").is_some());
    decisions.map(|(key, item)| (key.sk.parse().unwrap(), number(item, "amount"))).collect()
}

/// Checks all items against each other.
pub fn audit(items: &Items) -> Result<Books, Violation> {
    let mut found = Found::default();
    for (key, item) in items {
        found.enter(key, item)?;
    }
    found.balance()
}

#[derive(Debug)]
struct Refund {
    user: String,
    slips: u64,
    amount: u64,
    at: u64,
}

/// The items by kind, not yet checked against each other.
#[derive(Debug, Default)]
struct Found<'a> {
    metas: BTreeMap<&'a str, &'a Item>,
    parts: BTreeMap<&'a str, BTreeMap<u32, Vec<u64>>>,
    decisions: BTreeMap<&'a str, BTreeMap<u32, Decision>>,
    claims: BTreeMap<&'a str, BTreeMap<&'a str, Claimed>>,
    refunds: BTreeMap<&'a str, Vec<Refund>>,
    sent: BTreeMap<&'a str, Vec<(&'a str, u64)>>,
    /// What the sends of each user and day sum to, as the sends say and as the day says: number and amount.
    sent_on: BTreeMap<(&'a str, String), (u64, u64)>,
    days: BTreeMap<(&'a str, String), (u64, u64)>,
    keys: BTreeMap<String, Vec<&'a str>>,
    references: BTreeMap<&'a str, Vec<&'a str>>,
    /// The packets with limits, under the limit's sender and key.
    limited: BTreeMap<&'a str, Vec<String>>,
    /// What each user has won towards each limit: number and amount.
    won: BTreeMap<(&'a str, String), (u64, u64)>,
    /// What came from outside or left; what is reserved counts as left.
    outside: Vec<(&'a str, i128)>,
    /// What pending withdrawals have reserved.
    reserved: BTreeMap<&'a str, i128>,
    /// What withdrawals gave back, under its key in the timeline.
    returns: Vec<(Key, u64)>,
    wallets: BTreeMap<&'a str, &'a Item>,
    /// Deposits, refunds and withdrawals, which have copies in timelines.
    timed: Vec<(&'a Key, &'a Item)>,
    /// The copies.
    timelines: BTreeMap<&'a Key, &'a Item>,
}

impl<'a> Found<'a> {
    fn enter(&mut self, key: &'a Key, item: &'a Item) -> Result<(), Violation> {
        let words: Vec<&str> = key.pk.split('#').chain(key.sk.split('#')).collect();
        let amount = number(item, "amount");
        if let ["USER", _, "DEPOSIT" | "REFUND" | "WITHDRAW", ..] = words[..] {
            self.timed.push((key, item));
        }
        match words[..] {
            ["USER", _, "AT", ..] => drop(self.timelines.insert(key, item)),
            ["PACKET", id, "META"] => drop(self.metas.insert(id, item)),
            ["PART", id, index, "AMOUNTS"] => {
                self.parts.entry(id).or_default().insert(index.parse().unwrap(), decode(item));
            }
            ["SLIPS", id, group, slip] => {
                let slip: u32 = slip.parse().unwrap();
                let named = group == (slip / 64).to_string() && number(item, "slip") == u64::from(slip);
                check!(Decision, named, "{}/{}: not the decision of its slip", key.pk, key.sk);
                let decision = Decision { user: text(item, "user_id"), amount, at: number(item, "at") };
                self.decisions.entry(id).or_default().insert(slip, decision);
            }
            ["USER", user, "WALLET"] => drop(self.wallets.insert(user, item)),
            ["USER", user, "DEPOSIT", _] => self.outside.push((user, amount.into())),
            ["USER", user, "WITHDRAW", id] => {
                let status = text(item, "status");
                let (posted, is_ended) = (number(item, "posted_amount"), item.get("ended_at").is_some());
                let returned = if is_ended { amount - posted } else { 0 };
                let right = match status.as_deref() {
                    None => posted == 0 && !is_ended,
                    Some("pending") => posted == 0 && !is_ended && number(item, "due_shard") == 16,
                    Some("posted") => posted > 0 && is_ended && item.get("due_shard").is_none(),
                    Some("voided") => posted == 0 && is_ended && item.get("due_shard").is_none(),
                    Some(_) => false,
                };
                check!(Wallet, right, "{}/{}: {item:?}", key.pk, key.sk);
                self.outside.push((user, -i128::from(amount - returned)));
                if status.as_deref() == Some("pending") {
                    *self.reserved.entry(user).or_default() += i128::from(amount);
                }
                if returned > 0 {
                    let sk = format!("AT#RETURN#{:013}#{id}", number(item, "ended_at"));
                    self.returns.push((Key { pk: key.pk.clone(), sk }, returned));
                }
            }
            ["USER", user, "SENT", id] => {
                self.sent.entry(id).or_default().push((user, amount));
                if let Some(day) = text(item, "day") {
                    let (count, sum) = self.sent_on.entry((user, day)).or_default();
                    (*count, *sum) = (*count + 1, *sum + amount);
                }
            }
            ["USER", user, "DAY", day] => {
                let sums = (number(item, "sent_count"), number(item, "sent_amount"));
                self.days.insert((user, day.to_owned()), sums);
            }
            ["USER", user, "KEY", ..] => {
                self.keys.entry(text(item, "packet_id").unwrap_or_default()).or_default().push(user);
            }
            ["USER", user, "CLAIM", id] => {
                let slip = u32::try_from(number(item, "slip")).unwrap();
                self.claims.entry(id).or_default().insert(user, (slip, amount, number(item, "at")));
            }
            ["USER", user, "REFUND", id, _] => {
                let (slips, at) = (number(item, "slip_count"), number(item, "at"));
                self.refunds.entry(id).or_default().push(Refund { user: user.to_owned(), slips, amount, at });
            }
            ["USER", user, "LIMIT", sender, limit] => {
                let won = (number(item, "wins"), amount);
                self.won.insert((user, format!("{sender}#{limit}")), won);
            }
            ["LIMIT", sender, limit, id] => self.limited.entry(id).or_default().push(format!("{sender}#{limit}")),
            ["REF", reference, id] => self.references.entry(id).or_default().push(reference),
            // It says nothing of money.
            ["SOLDOUT", _, "STATE"] => {}
            _ => check!(Wallet, false, "an item of no known kind: {}/{}", key.pk, key.sk),
        }
        Ok(())
    }

    fn balance(mut self) -> Result<Books, Violation> {
        self.timelines()?;
        let named = self.parts.keys().chain(self.decisions.keys()).chain(self.claims.keys()).chain(self.refunds.keys());
        let named: BTreeSet<&str> =
            named.chain(self.sent.keys()).chain(self.references.keys()).chain(self.limited.keys()).copied().collect();
        for id in named.into_iter().chain(self.keys.keys().map(String::as_str)) {
            check!(Conservation, self.metas.contains_key(id), "an item names {id}, which is no packet");
        }
        let mut packets = BTreeMap::new();
        for (id, meta) in &self.metas {
            packets.insert((*id).to_owned(), self.packet(id, meta)?);
        }
        let balances = self.balances(&packets)?;
        self.limits(&packets)?;
        check!(Limit, self.days == self.sent_on, "days {:?}, and sends of {:?}", self.days, self.sent_on);

        let outside: i128 = self.outside.iter().map(|(_, amount)| amount).sum();
        let in_wallets = i128::from(balances.values().sum::<u64>());
        let in_slips: i128 = packets.values().map(|packet| i128::from(packet.undecided_amount())).sum();
        let moved = in_wallets + in_slips;
        check!(Conservation, outside == moved, "{outside} from outside, {in_wallets} in wallets, {in_slips} in slips");
        Ok(Books { packets, balances })
    }

    /// Each deposit, refund and withdrawal has one equal copy under its time, and there are no others.
    fn timelines(&mut self) -> Result<(), Violation> {
        for (key, item) in &self.timed {
            let (kind, name) = key.sk.split_once('#').unwrap();
            let sk = format!("AT#{kind}#{:013}#{name}", number(item, "at"));
            let copy = self.timelines.remove(&Key { pk: key.pk.clone(), sk });
            check!(
                Wallet,
                copy.is_some_and(|copy| same(copy, item)),
                "{}/{}: {copy:?} in the timeline",
                key.pk,
                key.sk
            );
        }
        for (key, amount) in &self.returns {
            let found = self.timelines.remove(key).map(|item| number(item, "amount"));
            check!(Wallet, found == Some(*amount), "{}/{}: {found:?} came back, not {amount}", key.pk, key.sk);
        }
        check!(Wallet, self.timelines.is_empty(), "in timelines only: {:?}", self.timelines);
        Ok(())
    }

    fn packet(&self, id: &str, meta: &Item) -> Result<PacketBooks, Violation> {
        let (sender, total) = (text(meta, "sender_id").unwrap_or_default(), number(meta, "total_amount"));
        let amounts: Vec<u64> = self.parts.get(id).into_iter().flat_map(BTreeMap::values).flatten().copied().collect();
        let whole = amounts.len() as u64 == number(meta, "slip_count") && amounts.iter().sum::<u64>() == total;
        check!(Conservation, whole, "{id}: slips {amounts:?} of {total}");
        check!(Conservation, self.sent.get(id) == Some(&vec![(&*sender, total)]), "{id}: the debit");
        check!(Conservation, self.keys.get(id) == Some(&vec![&*sender]), "{id}: the key");
        let reference = text(meta, "reference");
        let found = self.references.get(id).cloned().unwrap_or_default();
        check!(Answer, found == Vec::from_iter(reference.as_deref()), "{id}: referenced as {found:?}");

        let limit: Vec<String> = limit_of(meta).iter().map(|limit| format!("{sender}#{}", limit.key)).collect();
        let found = self.limited.get(id).cloned().unwrap_or_default();
        check!(Answer, found == limit, "{id}: limited as {found:?}");

        let decisions = self.decisions.get(id).cloned().unwrap_or_default();
        for (slip, decision) in &decisions {
            let amount = amounts.get(*slip as usize);
            check!(Decision, amount == Some(&decision.amount), "{id}: slip {slip} of {amount:?} has {decision:?}");
        }
        let claims = self.claims_of(id, &decisions)?;
        self.refunds_of(id, &sender, &decisions)?;
        let settled = closing(id, meta, &decisions, amounts.len())?;
        Ok(PacketBooks { amounts, settled, decisions, claims })
    }

    /// Each claimed decision has one claim with the same user, amount and time; each claim has such a decision.
    fn claims_of(&self, id: &str, decisions: &BTreeMap<u32, Decision>) -> Result<BTreeMap<String, Claimed>, Violation> {
        let mut claims = BTreeMap::new();
        for (user, (slip, amount, at)) in self.claims.get(id).into_iter().flatten() {
            let own = Decision { user: Some((*user).to_owned()), amount: *amount, at: *at };
            check!(
                Claim,
                decisions.get(slip) == Some(&own),
                "{id}: {user} claims {slip}, decided {:?}",
                decisions.get(slip)
            );
            claims.insert((*user).to_owned(), (*slip, *amount, *at));
        }
        for (slip, decision) in decisions {
            let Some(user) = &decision.user else { continue };
            let claim = claims.get(user);
            let same = claim == Some(&(*slip, decision.amount, decision.at));
            check!(Claim, same, "{id}: slip {slip} is decided for {user}, who claims {claim:?}");
        }
        Ok(claims)
    }

    /// The refunds of one run share their time; together they equal the refunded decisions of that time.
    fn refunds_of(&self, id: &str, sender: &str, decisions: &BTreeMap<u32, Decision>) -> Result<(), Violation> {
        let mut booked: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for refund in self.refunds.get(id).into_iter().flatten() {
            check!(Wallet, refund.user == sender, "{id}: refunded to {}", refund.user);
            let (slips, amount) = booked.entry(refund.at).or_default();
            (*slips, *amount) = (*slips + refund.slips, *amount + refund.amount);
        }
        let mut expected: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for decision in decisions.values().filter(|decision| decision.user.is_none()) {
            let (slips, amount) = expected.entry(decision.at).or_default();
            (*slips, *amount) = (*slips + 1, *amount + decision.amount);
        }
        check!(Conservation, booked == expected, "{id}: refunds {booked:?}, refunded decisions {expected:?}");
        Ok(())
    }

    /// What users have won towards a limit is what their claims say, and no more than it allows. Here all packets with a key have the same one.
    fn limits(&self, packets: &BTreeMap<String, PacketBooks>) -> Result<(), Violation> {
        let mut claimed: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
        for (id, meta) in &self.metas {
            let Some(limit) = limit_of(meta) else { continue };
            let name = format!("{}#{}", text(meta, "sender_id").unwrap_or_default(), limit.key);
            for (user, (_, amount, _)) in &packets[*id].claims {
                let (wins, sum) = claimed.entry((user, name.clone())).or_default();
                (*wins, *sum) = (*wins + 1, *sum + amount);
                let is_within =
                    limit.wins.is_none_or(|most| *wins <= most) && limit.amount.is_none_or(|most| *sum <= most);
                check!(Limit, is_within, "{user} has won {wins} slips of {sum}, beyond {limit:?}");
            }
        }
        check!(Limit, self.won == claimed, "won {:?}, and claims of {claimed:?}", self.won);
        Ok(())
    }

    /// Every wallet is the sum of its movements, and never negative.
    fn balances(&self, packets: &BTreeMap<String, PacketBooks>) -> Result<BTreeMap<String, u64>, Violation> {
        let mut moved: BTreeMap<&str, i128> = BTreeMap::new();
        let sent = self.sent.values().flatten().map(|(user, amount)| (*user, -i128::from(*amount)));
        let refunds = self.refunds.values().flatten().map(|refund| (&*refund.user, i128::from(refund.amount)));
        let claims = packets.values().flat_map(|packet| &packet.claims);
        let claims = claims.map(|(user, (_, amount, _))| (&**user, i128::from(*amount)));
        for (user, amount) in self.outside.iter().copied().chain(sent).chain(refunds).chain(claims) {
            *moved.entry(user).or_default() += amount;
        }
        let mut balances = BTreeMap::new();
        for (user, wallet) in &self.wallets {
            // The operator may suspend a user who has never had money.
            let (balance, sum) = (signed(wallet, "balance"), moved.remove(user).unwrap_or(0));
            check!(Wallet, balance >= 0, "{user} has {balance}");
            check!(Wallet, balance == sum, "{user} has {balance}, and movements of {sum}");
            let (pending, reserved) = (signed(wallet, "pending"), self.reserved.get(user).copied().unwrap_or(0));
            check!(Wallet, pending == reserved, "{user} has {pending} pending, and withdrawals of {reserved}");
            balances.insert((*user).to_owned(), u64::try_from(balance).unwrap());
        }
        check!(Wallet, moved.is_empty(), "movements without a wallet: {moved:?}");
        Ok(balances)
    }
}

impl PacketBooks {
    fn undecided_amount(&self) -> u64 {
        let slips = (0_u32..).zip(&self.amounts);
        slips.filter(|(slip, _)| !self.decisions.contains_key(slip)).map(|(_, amount)| amount).sum()
    }
}

/// Whether a packet is settled. If it is, every slip has a decision and the totals match the decisions.
fn closing(id: &str, meta: &Item, decisions: &BTreeMap<u32, Decision>, slips: usize) -> Result<bool, Violation> {
    let waits = meta.get("due_shard").is_some();
    if text(meta, "status").as_deref() != Some("settled") {
        check!(Liveness, waits, "{id}: open, and not waiting to be settled");
        return Ok(false);
    }
    check!(Liveness, !waits, "{id}: settled, and still waiting for it");
    check!(Decision, decisions.len() == slips, "{id}: settled with {} decisions of {slips}", decisions.len());
    let sums = |claimed: bool| {
        let some = decisions.values().filter(move |decision| decision.user.is_some() == claimed);
        some.fold((0, 0), |(count, amount), decision| (count + 1, amount + decision.amount))
    };
    let said = |kind: &str| (number(meta, &format!("{kind}_count")), number(meta, &format!("{kind}_amount")));
    let right = said("claimed") == sums(true) && said("refunded") == sums(false);
    check!(Decision, right, "{id}: its totals are not those of its decisions");
    Ok(true)
}

/// The limit of a packet.
#[derive(Debug)]
struct Limit {
    key: String,
    wins: Option<u64>,
    amount: Option<u64>,
}

fn limit_of(meta: &Item) -> Option<Limit> {
    let Some(AttributeValue::M(limit)) = meta.get("limit") else { return None };
    let number = |name: &str| match limit.get(name) {
        Some(AttributeValue::N(digits)) => Some(digits.parse().unwrap()),
        _ => None,
    };
    let Some(AttributeValue::S(key)) = limit.get("key") else { return None };
    Some(Limit { key: key.clone(), wins: number("wins"), amount: number("amount") })
}

/// One byte for the width, then each amount in that many bytes, little-endian.
fn decode(item: &Item) -> Vec<u64> {
    let Some(AttributeValue::B(blob)) = item.get("amounts") else { return Vec::new() };
    let (width, rest) = (usize::from(blob[0]), &blob[1..]);
    rest.chunks(width).map(|bytes| bytes.iter().rev().fold(0, |amount, byte| amount << 8 | u64::from(*byte))).collect()
}

/// A number of a wallet, which may be negative if something is wrong.
fn signed(wallet: &Item, name: &str) -> i128 {
    match wallet.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().unwrap(),
        _ => 0,
    }
}

/// Whether two items say the same under their keys. No copy is in the index.
fn same(one: &Item, other: &Item) -> bool {
    let said = |item: &Item| {
        let said = item.inner().iter().filter(|(name, _)| !["PK", "SK", "due_shard", "due_at"].contains(&&***name));
        said.map(|(name, value)| (name.clone(), format!("{value:?}"))).collect::<BTreeMap<_, _>>()
    };
    said(one) == said(other)
}

/// A number of an item.
pub fn number(item: &Item, name: &str) -> u64 {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().unwrap(),
        _ => 0,
    }
}

fn text(item: &Item, name: &str) -> Option<String> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text.clone()),
        _ => None,
    }
}
