//! One packet against its amounts, decisions, claims, debit, reference and refunds.
//!
//! The order of the reads matters (see [`confirm`](crate::confirm)). The packet comes before its decisions, since a
//! settled packet has them all. A decision comes before its claim. Refunds come before the decisions, and again after
//! them if the two differ.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::stream::{self, StreamExt, TryStreamExt};
use shared::domain::{PacketId, PartId, UserId};
use shared::ledger::keys;
use shared::ports::{Item, Key};

use crate::confirm::Check;
use crate::item::{Amounts, Best, Fields, Malformed, Name, Own, Packet, Refund, Slip, Sum};
use crate::report::{Figures, Imbalance, Kind};
use crate::run::Run;
use crate::source::{Range, ReadError, key_of, shown};

/// Groups of a packet's decisions that are read at once.
const GROUPS_AT_ONCE: usize = 8;

/// The sums of a packet's decisions, or of a group of them.
#[derive(Debug, Default)]
struct Sums {
    claimed: Sum,
    refunded: Sum,
    /// The decided slips' sum by the part's amounts, whatever their decisions say.
    decided: Sum,
    /// The sums by refund time: the refunds of one run of settle share their time.
    refunded_at: BTreeMap<u64, Sum>,
    /// Lowest slips of refunds whose decision is a refund of the same time.
    lowest_seen: BTreeSet<u32>,
    best: Option<(Best, u64)>,
    imbalances: Vec<Imbalance>,
}

/// The sums of a packet's refunds.
#[derive(Debug, Default, Eq, PartialEq)]
struct Refunds {
    at: BTreeMap<u64, Sum>,
    /// The refund time of each chunk, by its first slip.
    lowest: HashMap<u32, u64>,
    imbalances: Vec<Imbalance>,
}

impl Run {
    /// Checks a packet. A missing packet means that its items are orphans.
    pub(crate) async fn check_packet(&self, id: PacketId) -> Result<Check, ReadError> {
        let key = keys::packet(id);
        let wrong = |imbalance| Check { imbalances: vec![imbalance], ..Check::default() };
        let Some(item) = self.source.get(key.clone()).await? else {
            return Ok(wrong(Imbalance::new(Kind::Orphan, shown(&key), "a packet", "none, but items of it")));
        };
        let packet = match Packet::read(id, &item) {
            Ok(packet) => packet,
            Err(malformed) => return Ok(wrong(Imbalance::malformed(&key, malformed))),
        };
        let mut wrong: Vec<Imbalance> = index(&packet).into_iter().collect();
        wrong.extend(self.debit_and_lists(&packet).await?);
        let (amounts, of_amounts) = self.amounts(&packet).await?;
        wrong.extend(of_amounts);
        let refunds = self.refunds(&packet).await?;
        let mut sums = self.decisions(&packet, &amounts, &refunds).await?;
        wrong.append(&mut sums.imbalances);
        wrong.extend(self.refunds_against_decisions(&packet, &refunds, &sums).await?);
        if !amounts.is_empty() {
            wrong.extend(conservation(&packet, &sums));
        }
        wrong.extend(closing(&packet, &sums));
        let figures = Figures {
            packets: 1,
            slips: packet.terms.count.into(),
            in_slips: packet.terms.total.saturating_sub(sums.decided.amount),
            ..Figures::default()
        };
        Ok(Check { figures, imbalances: wrong, moving: false })
    }

    /// The sender has a debit of the packet. A packet with a reference is found under it, and one with a limit under the limit's key.
    async fn debit_and_lists(&self, packet: &Packet) -> Result<Vec<Imbalance>, ReadError> {
        let terms = &packet.terms;
        let (total, id, at) = (terms.total, terms.id, terms.created_at);
        let debit = (Kind::Debit, keys::sent(&terms.sender, id), format!("{total} at {at}"));
        let list = |key| (Kind::Reference, key, format!("packet {id} at {at}"));
        let all: Vec<_> = std::iter::once(debit).chain(terms.lists().into_iter().map(list)).collect();
        let items = self.source.batch(all.iter().map(|(_, key, _)| key.clone()).collect()).await?;
        let against = |(kind, key, expected): &(Kind, Key, String)| {
            let read = |item| {
                let (fields, debit) = (Fields(item), *kind == Kind::Debit);
                let what =
                    if debit { fields.number("amount")?.to_string() } else { format!("packet {}", fields.packet()?) };
                Ok(format!("{what} at {}", fields.number("at")?))
            };
            Imbalance::unless_equal(*kind, key, expected, items.get(key).map(|item| read(item)))
        };
        Ok(all.iter().filter_map(against).collect())
    }

    /// The amounts of all slips, or an imbalance; then nothing else is checked.
    async fn amounts(&self, packet: &Packet) -> Result<(Vec<u64>, Vec<Imbalance>), ReadError> {
        let (id, parts, count) = (packet.terms.id, packet.terms.id.part_count(), packet.terms.count);
        let mut wrong = Vec::new();
        let names: Vec<Key> = (0..parts).map(|index| keys::amounts(PartId { packet: id, index })).collect();
        let items = self.source.batch(names.clone()).await?;
        let mut all = Vec::with_capacity(count as usize);
        for (index, name) in (0..parts).zip(names) {
            let (start, end) = (part_start(index, parts, count), part_start(index + 1, parts, count));
            let expected = format!("the amounts of {} slips, from {start} on", end - start);
            let mut say = |found: String| wrong.push(Imbalance::new(Kind::Amounts, shown(&name), &*expected, found));
            match items.get(&name).map(Amounts::read) {
                None => say("no amounts".to_owned()),
                Some(Err(Malformed(expected))) => say(format!("not {expected}")),
                Some(Ok(amounts)) if amounts.iter().len() as u64 != end - start => {
                    say(format!("{} amounts", amounts.iter().len()));
                }
                Some(Ok(amounts)) if amounts.iter().any(|amount| !(1..=packet.cap).contains(&amount)) => {
                    say(format!("an amount outside 1 to {}", packet.cap));
                }
                Some(Ok(amounts)) => all.extend(amounts.iter()),
            }
        }
        let sum = all.iter().fold(0_u64, |sum, amount| sum.saturating_add(*amount));
        if wrong.is_empty() && sum != packet.terms.total {
            let (key, total) = (shown(&keys::packet(id)), packet.terms.total.to_string());
            wrong.push(Imbalance::new(Kind::Amounts, key, total, format!("amounts of {sum}")));
        }
        if !wrong.is_empty() {
            all.clear();
        }
        Ok((all, wrong))
    }

    /// Reads all decisions, group by group, each with its claims.
    async fn decisions(&self, packet: &Packet, amounts: &[u64], refunds: &Refunds) -> Result<Sums, ReadError> {
        let groups = packet.terms.count.div_ceil(keys::SLIPS_PER_KEY);
        stream::iter(0..groups)
            .map(|group| self.decision_group(packet, group, amounts, refunds))
            .buffered(GROUPS_AT_ONCE)
            .try_fold(Sums::default(), |mut sums, group| async move {
                sums.add(group);
                Ok(sums)
            })
            .await
    }

    async fn decision_group(
        &self,
        packet: &Packet,
        group: u32,
        amounts: &[u64],
        refunds: &Refunds,
    ) -> Result<Sums, ReadError> {
        let range = Range::Partition { pk: keys::decisions(packet.terms.id, group), prefix: String::new() };
        let mut pages = self.source.pages(range);
        let mut sums = Sums::default();
        while let Some(items) = pages.try_next().await? {
            let mut claimed = Vec::new();
            for item in &items {
                // The scan reports a key that is not a decision's.
                let Some(key) = key_of(item) else { continue };
                let Some(Name::Decision(_, slip)) = Name::of(&key) else { continue };
                claimed.extend(sums.enter(packet, &key, slip, item, amounts, refunds));
            }
            sums.imbalances.extend(self.claims(packet, claimed).await?);
        }
        Ok(sums)
    }

    /// Each claimed decision has that user's claim, with the same attributes.
    async fn claims(&self, packet: &Packet, claimed: Vec<(UserId, Slip)>) -> Result<Vec<Imbalance>, ReadError> {
        let names = claimed.iter().map(|(user, _)| keys::claim(user, packet.terms.id)).collect();
        let items = self.source.batch(names).await?;
        let against = |(user, decision): (UserId, Slip)| {
            let name = keys::claim(&user, packet.terms.id);
            let found = items.get(&name).map(|item| claim_of(packet, user, item).map(|claim| claim.to_string()));
            Imbalance::unless_equal(Kind::DecisionWithoutClaim, &name, &decision, found)
        };
        Ok(claimed.into_iter().filter_map(against).collect())
    }

    /// All refunds of a packet in its sender's items.
    async fn refunds(&self, packet: &Packet) -> Result<Refunds, ReadError> {
        let prefix = format!("{}{}#", keys::REFUND, packet.terms.id);
        let mut pages = self.source.pages(Range::Partition { pk: keys::user(&packet.terms.sender), prefix });
        let mut refunds = Refunds::default();
        while let Some(items) = pages.try_next().await? {
            for item in &items {
                let Some(key) = key_of(item) else { continue };
                let Some(Name::Of(_, Own::Refund(_, lowest))) = Name::of(&key) else { continue };
                match Refund::read(lowest, item) {
                    Ok(refund) => {
                        refunds.at.entry(refund.at).or_default().add(refund.sum);
                        refunds.lowest.insert(lowest, refund.at);
                    }
                    Err(malformed) => refunds.imbalances.push(Imbalance::malformed(&key, malformed)),
                }
            }
            // Each refund has at least one slip, so more refunds than slips are wrong in any case.
            if refunds.lowest.len() > packet.terms.count as usize {
                break;
            }
        }
        Ok(refunds)
    }

    /// For each time, the refunds must match the refunded decisions. The decisions' sum is at least that of the refunds
    /// before the read, and at most that of the refunds after it.
    async fn refunds_against_decisions(
        &self,
        packet: &Packet,
        before: &Refunds,
        sums: &Sums,
    ) -> Result<Vec<Imbalance>, ReadError> {
        let mut wrong = before.imbalances.clone();
        for (lowest, at) in &before.lowest {
            if !sums.lowest_seen.contains(lowest) {
                let key = shown(&keys::refund(&packet.terms.sender, packet.terms.id, *lowest));
                let expected = format!("slip {lowest} refunded at {at}");
                wrong.push(Imbalance::new(Kind::Refunds, key, expected, "no such decision"));
            }
        }
        wrong.sort_by(|one, other| one.key.cmp(&other.key));
        if before.at == sums.refunded_at {
            return Ok(wrong);
        }
        let after = self.refunds(packet).await?;
        let times: BTreeSet<&u64> = before.at.keys().chain(sums.refunded_at.keys()).collect();
        for at in times {
            let of = |sums: &BTreeMap<u64, Sum>| sums.get(at).copied().unwrap_or_default();
            let (least, decided, most) = (of(&before.at), of(&sums.refunded_at), of(&after.at));
            if !least.is_within(decided) || !decided.is_within(most) {
                let key = format!("{} / {}{}", keys::user(&packet.terms.sender), keys::REFUND, packet.terms.id);
                let (expected, found) = (format!("refunds of {decided} at {at}"), format!("refunds of {most}"));
                wrong.push(Imbalance::new(Kind::Refunds, key, expected, found));
            }
        }
        Ok(wrong)
    }
}

/// The first slip of part `index`. For the index after the last part: the number of slips.
fn part_start(index: u32, parts: u32, count: u32) -> u64 {
    u64::from(index) * u64::from(count) / u64::from(parts)
}

/// A claim, if it also names the packet's sender.
fn claim_of(packet: &Packet, user: UserId, item: &Item) -> Result<Slip, Malformed> {
    let fields = Fields(item);
    if fields.packet()? != packet.terms.id || fields.user("sender_id")? != packet.terms.sender {
        return Err(Malformed("packet_id and sender_id: those of the packet".to_owned()));
    }
    // An erasure empties the packet's own after those of its claims.
    if !["", &packet.greeting].contains(&fields.text("greeting")?) {
        return Err(Malformed("greeting: that of the packet, or none".to_owned()));
    }
    Slip::claim(user, item)
}

impl Sums {
    /// Adds a decision. Returns it with its user if it was claimed.
    fn enter(
        &mut self,
        packet: &Packet,
        key: &Key,
        slip: u32,
        item: &Item,
        amounts: &[u64],
        refunds: &Refunds,
    ) -> Option<(UserId, Slip)> {
        let decision = match Slip::decision(item) {
            Ok(decision) => decision,
            Err(malformed) => {
                self.imbalances.push(Imbalance::malformed(key, malformed));
                return None;
            }
        };
        let amount = amounts.get(slip as usize).copied();
        if decision.index != slip
            || slip >= packet.terms.count
            || amount.is_some_and(|amount| amount != decision.amount)
        {
            let expected = match amount {
                Some(amount) => format!("slip {slip}: {amount}"),
                None => format!("slips 0 to {}", packet.terms.count - 1),
            };
            self.imbalances.push(Imbalance::new(Kind::Decision, shown(key), expected, decision.to_string()));
        }
        self.decided.add(Sum { count: 1, amount: amount.unwrap_or(0) });
        let sum = Sum { count: 1, amount: decision.amount };
        let Some(user) = decision.user.clone() else {
            self.refunded.add(sum);
            self.refunded_at.entry(decision.at).or_default().add(sum);
            if refunds.lowest.get(&slip) == Some(&decision.at) {
                self.lowest_seen.insert(slip);
            }
            return None;
        };
        self.claimed.add(sum);
        self.offer(Best { amount: decision.amount, slip, user: user.clone() }, decision.at);
        Some((user, decision))
    }

    /// The largest claim is the best. Of equal ones it is the earliest, then the one with the lower slip.
    fn offer(&mut self, best: Best, at: u64) {
        let rank = |best: &Best, at: u64| (best.amount, std::cmp::Reverse((at, best.slip)));
        if self.best.as_ref().is_none_or(|(found, found_at)| rank(found, *found_at) < rank(&best, at)) {
            self.best = Some((best, at));
        }
    }

    fn add(&mut self, other: Self) {
        self.claimed.add(other.claimed);
        self.refunded.add(other.refunded);
        self.decided.add(other.decided);
        for (at, sum) in other.refunded_at {
            self.refunded_at.entry(at).or_default().add(sum);
        }
        self.lowest_seen.extend(other.lowest_seen);
        if let Some((best, at)) = other.best {
            self.offer(best, at);
        }
        self.imbalances.extend(other.imbalances);
    }
}

/// A packet is in the index until it is settled, an open one at its expiry, a closed one at the front.
fn index(packet: &Packet) -> Option<Imbalance> {
    const SHARDS: u64 = 16;
    let has_shard = packet.due_shard.is_some_and(|shard| shard < SHARDS);
    let (expected, good) = if packet.closing.is_some() {
        ("settled, without a due_shard", packet.due_shard.is_none())
    } else if packet.is_closed {
        ("closed, with a due_shard from 0 to 15, due at 0", has_shard && packet.due_at == 0)
    } else {
        (
            "open, with a due_shard from 0 to 15, due at its expiry",
            has_shard && packet.due_at == packet.terms.expires_at,
        )
    };
    let shard = packet.due_shard.map_or_else(|| "no due_shard".to_owned(), |shard| format!("due_shard {shard}"));
    let found = format!("{shard}, due at {}", packet.due_at);
    (!good).then(|| Imbalance::new(Kind::Index, shown(&keys::packet(packet.terms.id)), expected, found))
}

fn conservation(packet: &Packet, sums: &Sums) -> Option<Imbalance> {
    let undecided = packet.terms.total.saturating_sub(sums.decided.amount);
    let found = sums.claimed.amount.saturating_add(sums.refunded.amount).saturating_add(undecided);
    (found != packet.terms.total).then(|| {
        let found = format!(
            "{found}: claimed {}, refunded {}, undecided {undecided}",
            sums.claimed.amount, sums.refunded.amount
        );
        Imbalance::new(Kind::Conservation, shown(&keys::packet(packet.terms.id)), packet.terms.total.to_string(), found)
    })
}

/// A settled packet has a decision for every slip, and totals that match them.
fn closing(packet: &Packet, sums: &Sums) -> Option<Imbalance> {
    let closing = packet.closing.as_ref()?;
    let best = sums.best.as_ref().map(|(best, _)| best);
    let all_decided = sums.decided.count == u64::from(packet.terms.count);
    if all_decided && (closing.claimed, closing.refunded, closing.best.as_ref()) == (sums.claimed, sums.refunded, best)
    {
        return None;
    }
    let say = |claimed: Sum, refunded: Sum, best: Option<&Best>| {
        let best = best.map_or_else(|| "none".to_owned(), |best| format!("{} in slip {}", best.amount, best.slip));
        format!("claimed {claimed}, refunded {refunded}, best {best}")
    };
    let missing = u64::from(packet.terms.count).saturating_sub(sums.decided.count);
    let expected = format!("{}, {missing} without a decision", say(sums.claimed, sums.refunded, best));
    let found = format!("settled: {}", say(closing.claimed, closing.refunded, closing.best.as_ref()));
    Some(Imbalance::new(Kind::Closing, shown(&keys::packet(packet.terms.id)), expected, found))
}
