//! The audit: every item of the table against every other.
//!
//! It shares nothing with the code that writes the items, save that both know the same names: a raw scan, keys as text.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::domain::PacketId;

use crate::world::World;

type Attributes = HashMap<String, AttributeValue>;

/// Slip, amount, time.
pub type Claimed = (u32, u64, u64);

/// What the ledger says, once it has been found to be in order.
#[derive(Debug, Default)]
pub struct Books {
    /// By id.
    pub packets: BTreeMap<String, PacketBooks>,
    /// Balances by user.
    pub balances: BTreeMap<String, u64>,
}

/// A packet.
#[derive(Debug)]
pub struct PacketBooks {
    /// Who paid.
    pub sender: String,
    /// What is in each slip.
    pub amounts: Vec<u64>,
    /// Whether it is marked as settled.
    pub settled: bool,
    /// Slip → its fence.
    pub fences: BTreeMap<u32, FenceBooks>,
    /// User → his claim.
    pub claims: BTreeMap<String, Claimed>,
}

/// A fence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FenceBooks {
    /// Who has it; `None`: refunded.
    pub user: Option<String>,
    /// What was in it.
    pub amount: u64,
    /// When.
    pub at: u64,
}

impl Books {
    /// A packet that exists.
    pub fn packet(&self, id: PacketId) -> &PacketBooks {
        self.packets.get(&id.to_string()).unwrap_or_else(|| panic!("the ledger has no packet {id}"))
    }

    /// What a user has.
    pub fn balance(&self, user: &str) -> u64 {
        self.balances.get(user).copied().unwrap_or(0)
    }
}

impl PacketBooks {
    /// Slips that were claimed.
    pub fn claimed(&self) -> usize {
        self.claims.len()
    }

    /// Slips that went back.
    pub fn refunded(&self) -> usize {
        self.fences.len() - self.claims.len()
    }

    /// Slips of which nothing is decided.
    pub fn unfenced(&self) -> usize {
        self.amounts.len() - self.fences.len()
    }

    fn unfenced_amount(&self) -> u64 {
        let slips = (0_u32..).zip(&self.amounts);
        slips.filter(|(slip, _)| !self.fences.contains_key(slip)).map(|(_, amount)| amount).sum()
    }
}

/// Reads the whole table and holds every item against every other.
///
/// # Panics
/// At the first imbalance.
pub async fn audit(world: &World) -> Books {
    audit_table(&world.dynamodb, world.table()).await
}

/// [`audit`] of a table by name.
///
/// # Panics
/// At the first imbalance.
pub async fn audit_table(client: &Client, table: &str) -> Books {
    let mut items = Items::default();
    let mut start = None;
    loop {
        let request = client.scan().table_name(table).consistent_read(true);
        let page = request.set_exclusive_start_key(start).send().await.unwrap();
        for item in page.items.unwrap_or_default() {
            items.enter(item);
        }
        start = page.last_evaluated_key;
        if start.is_none() {
            return items.balance();
        }
    }
}

struct Refund {
    user: String,
    lowest: u32,
    slips: u64,
    amount: u64,
    at: u64,
}

/// The items by kind, before anything is known of how they fit.
#[derive(Default)]
struct Items {
    metas: BTreeMap<String, Attributes>,
    parts: BTreeMap<String, BTreeMap<u32, Vec<u64>>>,
    fences: BTreeMap<String, BTreeMap<u32, FenceBooks>>,
    claims: BTreeMap<String, BTreeMap<String, (Claimed, Attributes)>>,
    refunds: BTreeMap<String, Vec<Refund>>,
    /// Packet → who paid how much, and when.
    sent: BTreeMap<String, Vec<(String, u64, u64)>>,
    /// Packet → whose key it has.
    keys: BTreeMap<String, Vec<String>>,
    deposits: BTreeMap<String, u64>,
    withdrawals: BTreeMap<String, u64>,
    wallets: BTreeMap<String, Attributes>,
}

impl Items {
    fn enter(&mut self, item: Attributes) {
        let (pk, sk) = (text(&item, "PK"), text(&item, "SK"));
        let key: Vec<&str> = pk.split('#').chain(sk.split('#')).collect();
        let named = |name: &str, value: &str| assert_eq!(text(&item, name), value, "{pk} / {sk}");
        match key[..] {
            ["PACKET", id, "META"] => {
                named("packet_id", id);
                self.metas.insert(id.to_owned(), item);
            }
            ["PART", id, index, "AMOUNTS"] => {
                let amounts = decode(item["amounts"].as_b().unwrap().as_ref());
                self.parts.entry(id.to_owned()).or_default().insert(index.parse().unwrap(), amounts);
            }
            ["SLIPS", id, group, slip] => {
                let slip = slip_of(slip);
                assert_eq!(group, (slip / 64).to_string(), "{pk} / {sk}: the wrong group");
                assert_eq!(number(&item, "slip"), u64::from(slip), "{pk} / {sk}");
                let user = item.contains_key("user_id").then(|| text(&item, "user_id"));
                let fence = FenceBooks { user, amount: number(&item, "amount"), at: number(&item, "at") };
                self.fences.entry(id.to_owned()).or_default().insert(slip, fence);
            }
            ["USER", user, "WALLET"] => {
                self.wallets.insert(user.to_owned(), item);
            }
            ["USER", user, "DEPOSIT", id] => {
                named("id", id);
                *self.deposits.entry(user.to_owned()).or_default() += number(&item, "amount");
            }
            ["USER", user, "WITHDRAW", id] => {
                named("id", id);
                *self.withdrawals.entry(user.to_owned()).or_default() += number(&item, "amount");
            }
            ["USER", user, "SENT", id] => {
                named("packet_id", id);
                let sent = (user.to_owned(), number(&item, "amount"), number(&item, "at"));
                self.sent.entry(id.to_owned()).or_default().push(sent);
            }
            ["USER", user, "KEY", _] => {
                assert_eq!(text(&item, "body_hash").len(), 64, "{pk} / {sk}");
                self.keys.entry(text(&item, "packet_id")).or_default().push(user.to_owned());
            }
            ["USER", user, "CLAIM", id] => {
                named("packet_id", id);
                let slip = u32::try_from(number(&item, "slip")).unwrap();
                let claim = (slip, number(&item, "amount"), number(&item, "at"));
                self.claims.entry(id.to_owned()).or_default().insert(user.to_owned(), (claim, item));
            }
            ["USER", user, "REFUND", id, lowest] => {
                named("packet_id", id);
                self.refunds.entry(id.to_owned()).or_default().push(Refund {
                    user: user.to_owned(),
                    lowest: slip_of(lowest),
                    slips: number(&item, "slip_count"),
                    amount: number(&item, "amount"),
                    at: number(&item, "at"),
                });
            }
            _ => panic!("an item that nobody knows: {pk} / {sk}"),
        }
    }

    fn balance(self) -> Books {
        self.nothing_without_a_packet();
        let packets: BTreeMap<String, PacketBooks> =
            self.metas.iter().map(|(id, meta)| (id.clone(), self.packet(id, meta))).collect();
        let balances = self.balances(&packets);

        let outside =
            i128::from(self.deposits.values().sum::<u64>()) - i128::from(self.withdrawals.values().sum::<u64>());
        let in_wallets = i128::from(balances.values().sum::<u64>());
        let in_packets = i128::from(packets.values().map(PacketBooks::unfenced_amount).sum::<u64>());
        assert_eq!(outside, in_wallets + in_packets, "conservation: {in_wallets} in wallets, {in_packets} in slips");
        Books { packets, balances }
    }

    fn nothing_without_a_packet(&self) {
        let named = [
            ("amounts", self.parts.keys().collect::<Vec<_>>()),
            ("fences", self.fences.keys().collect()),
            ("claims", self.claims.keys().collect()),
            ("refunds", self.refunds.keys().collect()),
            ("a debit", self.sent.keys().collect()),
            ("a key", self.keys.keys().collect()),
        ];
        for (what, ids) in named {
            for id in ids {
                assert!(self.metas.contains_key(id), "{what} of {id}, which is no packet");
            }
        }
    }

    fn packet(&self, id: &str, meta: &Attributes) -> PacketBooks {
        let (sender, total) = (text(meta, "sender_id"), number(meta, "total_amount"));
        let parts = self.parts.get(id).unwrap_or_else(|| panic!("{id}: no amounts"));
        assert!(parts.keys().copied().eq(0..u32::try_from(parts.len()).unwrap()), "{id}: parts {:?}", parts.keys());
        let amounts: Vec<u64> = parts.values().flatten().copied().collect();
        assert_eq!(amounts.len() as u64, number(meta, "slip_count"), "{id}: the number of amounts");
        assert_eq!(amounts.iter().sum::<u64>(), total, "{id}: the sum of the amounts");
        let cap = number(meta, "slip_cap");
        assert!(amounts.iter().all(|amount| (1..=cap).contains(amount)), "{id}: an amount outside 1 to {cap}");

        let debit = vec![(sender.clone(), total, number(meta, "created_at"))];
        assert_eq!(self.sent.get(id), Some(&debit), "{id}: the debit");
        assert_eq!(self.keys.get(id), Some(&vec![sender.clone()]), "{id}: the key");

        let fences = self.fences.get(id).cloned().unwrap_or_default();
        for (slip, fence) in &fences {
            assert_eq!(amounts.get(*slip as usize), Some(&fence.amount), "{id}: the fence of slip {slip}: {fence:?}");
        }
        let claims = self.claims_of(id, meta, &fences);
        self.refunds_of(id, &sender, &fences);
        let settled = closing(id, meta, &fences, amounts.len());
        PacketBooks { sender, amounts, settled, fences, claims }
    }

    /// Each claimed fence has exactly one claim, of that user with the same words, and each claim its fence.
    fn claims_of(&self, id: &str, meta: &Attributes, fences: &BTreeMap<u32, FenceBooks>) -> BTreeMap<String, Claimed> {
        let mut claims = BTreeMap::new();
        for (user, (claim, item)) in self.claims.get(id).into_iter().flatten() {
            let (slip, amount, at) = *claim;
            let fence = FenceBooks { user: Some(user.clone()), amount, at };
            assert_eq!(fences.get(&slip), Some(&fence), "{id}: the fence of {user}'s claim of slip {slip}");
            for name in ["sender_id", "greeting"] {
                assert_eq!(text(item, name), text(meta, name), "{id}: {user}'s claim");
            }
            claims.insert(user.clone(), *claim);
        }
        for (slip, fence) in fences {
            if let Some(user) = &fence.user {
                let claim = (*slip, fence.amount, fence.at);
                assert_eq!(claims.get(user), Some(&claim), "{id}: the claim of slip {slip}'s fence {fence:?}");
            }
        }
        claims
    }

    /// The refunds of one run, which share their time, are exactly the refunded fences of that time.
    fn refunds_of(&self, id: &str, sender: &str, fences: &BTreeMap<u32, FenceBooks>) {
        let mut booked: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for refund in self.refunds.get(id).into_iter().flatten() {
            assert_eq!(refund.user, sender, "{id}: a refund");
            let lowest = fences.get(&refund.lowest);
            let own = lowest.is_some_and(|fence| fence.user.is_none() && fence.at == refund.at);
            assert!(own, "{id}: a refund from slip {}, the fence of which is {lowest:?}", refund.lowest);
            let (slips, amount) = booked.entry(refund.at).or_default();
            (*slips, *amount) = (*slips + refund.slips, *amount + refund.amount);
        }
        let mut expected: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for fence in fences.values().filter(|fence| fence.user.is_none()) {
            let (slips, amount) = expected.entry(fence.at).or_default();
            (*slips, *amount) = (*slips + 1, *amount + fence.amount);
        }
        assert_eq!(booked, expected, "{id}: the refunds and the refunded fences: time → (slips, amount)");
    }

    /// Every balance is the sum of its movements, every total what the items add up to.
    fn balances(&self, packets: &BTreeMap<String, PacketBooks>) -> BTreeMap<String, u64> {
        let mut expected: BTreeMap<&str, Totals> = BTreeMap::new();
        for (user, amount) in &self.deposits {
            expected.entry(user).or_default().balance += i128::from(*amount);
        }
        for (user, amount) in &self.withdrawals {
            expected.entry(user).or_default().balance -= i128::from(*amount);
        }
        for (user, amount, _) in self.sent.values().flatten() {
            let totals = expected.entry(user).or_default();
            totals.balance -= i128::from(*amount);
            totals.sent = (totals.sent.0 + 1, totals.sent.1 + amount);
        }
        for refund in self.refunds.values().flatten() {
            expected.entry(&refund.user).or_default().balance += i128::from(refund.amount);
        }
        for (user, (_, amount, _)) in packets.values().flat_map(|packet| &packet.claims) {
            let totals = expected.entry(user).or_default();
            totals.balance += i128::from(*amount);
            totals.claims = (totals.claims.0 + 1, totals.claims.1 + amount);
        }

        for user in expected.keys() {
            assert!(self.wallets.contains_key(*user), "{user} has movements but no wallet");
        }
        let mut balances = BTreeMap::new();
        for (user, wallet) in &self.wallets {
            let balance = number(wallet, "balance");
            let found = Totals {
                balance: balance.into(),
                sent: (number_or_0(wallet, "sent_count"), number_or_0(wallet, "sent_amount")),
                claims: (number_or_0(wallet, "claim_count"), number_or_0(wallet, "claim_amount")),
            };
            let movements = expected.get(&**user).cloned().unwrap_or_default();
            assert_eq!(found, movements, "{user}: the wallet, and what the movements add up to");
            balances.insert(user.clone(), balance);
        }
        balances
    }
}

/// (count, amount) of what was sent and claimed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Totals {
    balance: i128,
    sent: (u64, u64),
    claims: (u64, u64),
}

/// An open packet waits in the index; a settled one does not, and its totals are those of its fences.
fn closing(id: &str, meta: &Attributes, fences: &BTreeMap<u32, FenceBooks>, slips: usize) -> bool {
    let status = text(meta, "status");
    if status == "open" {
        assert!(number(meta, "due_shard") < 16, "{id}: open in shard {}", number(meta, "due_shard"));
        assert!(!meta.contains_key("claimed_count"), "{id}: open, with totals");
        return false;
    }
    assert_eq!(status, "settled", "{id}");
    assert!(!meta.contains_key("due_shard"), "{id}: settled, and still waiting for it");
    assert_eq!(fences.len(), slips, "{id}: settled, but not every slip has a fence");
    let sums = |claimed: bool| {
        let some = fences.values().filter(move |fence| fence.user.is_some() == claimed);
        some.fold((0, 0), |(count, amount), fence| (count + 1, amount + fence.amount))
    };
    assert_eq!((number(meta, "claimed_count"), number(meta, "claimed_amount")), sums(true), "{id}: claimed");
    assert_eq!((number(meta, "refunded_count"), number(meta, "refunded_amount")), sums(false), "{id}: refunded");
    let most = fences.values().filter(|fence| fence.user.is_some()).map(|fence| fence.amount).max();
    let best = meta.contains_key("best_amount").then(|| number(meta, "best_amount"));
    assert_eq!(best, most, "{id}: the best luck");
    if best.is_some() {
        let fence = &fences[&u32::try_from(number(meta, "best_slip")).unwrap()];
        assert_eq!((Some(text(meta, "best_user")), best), (fence.user.clone(), Some(fence.amount)), "{id}: the best");
    }
    true
}

fn text(item: &Attributes, name: &str) -> String {
    item.get(name).and_then(|value| value.as_s().ok()).unwrap_or_else(|| panic!("no text {name} in {item:?}")).clone()
}

/// A number that is not negative.
fn number(item: &Attributes, name: &str) -> u64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number >= 0 {name} in {item:?}"))
}

fn number_or_0(item: &Attributes, name: &str) -> u64 {
    if item.contains_key(name) { number(item, name) } else { 0 }
}

/// A slip in a key has six digits, so that slips sort.
fn slip_of(digits: &str) -> u32 {
    assert_eq!(digits.len(), 6, "a slip is written {digits}");
    digits.parse().unwrap_or_else(|_| panic!("a slip is written {digits}"))
}

/// One byte for the width, then each amount in that many bytes, little end first.
fn decode(blob: &[u8]) -> Vec<u64> {
    let (width, rest) = (usize::from(blob[0]), &blob[1..]);
    assert!(width >= 1 && rest.len() % width == 0, "amounts: {} bytes, {width} each", rest.len());
    rest.chunks(width)
        .map(|bytes| bytes.iter().rev().fold(0, |amount, byte| (amount << 8) | u64::from(*byte)))
        .collect()
}
