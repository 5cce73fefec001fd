use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use serde_dynamo::AttributeValue;
use shared::domain::{Amount, Claim, Hold, PacketId, PartId, Terms, UserId};
use shared::ledger::keys;
use shared::memory::MemoryHot;
use shared::ports::{
    Bound, Expect, GrabAnswer, Grabber, HotStore, HotStoreError, Item, Key, OutboxEntry, Reason, TransactError, Write,
};
use shared::redis::{PartKeys, fields};

use crate::hot::now;
use crate::table::{number, terms_of};
use crate::world::World;

/// A mistake, made between the stores and the use cases. A simulation that does not find it is worth nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Mutant {
    /// A decision is written even if the slip has one.
    NoSlipDecision,
    /// A claim is written even if the user has one.
    NoClaimDecision,
    /// A refund is the packet's total minus the claims that a query counted.
    CountedRefund,
    /// Settle takes a slip out of the outbox before it is committed.
    AcknowledgedBeforeCommit,
    /// An unconfirmed hold is answered as a claim.
    UnconfirmedAnswer,
    /// A loader uses what it knew of the packet before it was closed.
    LoaderKnowsNoClose,
    /// A close leaves out a part that is not loaded.
    CloseSkipsUnloaded,
    /// Settle refunds a closed packet without closing its parts.
    RefundBeforeTold,
    /// A suspension is read before a transaction, and is no condition of it.
    SuspensionReadBefore,
    /// A send counts towards the day's limit outside its transaction.
    CountedApart,
    /// `sold_out` is answered while slips are only held.
    UncertainNegative,
    /// A transaction that is retried carries a new time.
    FreshTime,
    /// A slip whose commit has timed out becomes free again.
    PutBackAfterTimeout,
    /// The amount of a claim comes from the hot store.
    AmountFromRedis,
    /// A packet is marked as settled before its refund.
    SettledEarly,
    /// A packet is loaded into Redis before the ledger has it.
    RedisBeforeLedger,
    /// A loader overwrites a part that is loaded.
    LoaderOverwrites,
    /// A packet in `redis` mode is refunded without draining its parts.
    RefundWithoutDraining,
    /// A sender is answered "insufficient balance" without a check of the idempotency key.
    KeyNotReread,
    /// A viewer is shown the seed once the packet has expired by the process' clock.
    SeedAtExpiry,
    /// A packet starts by the process' clock.
    StartByProcessClock,
    /// A withdrawal is ended even if it has ended, as long as the wallet reserves as much.
    EndedTwice,
    /// A limit of wins is read before a transaction, and is no condition of it.
    LimitReadBefore,
    /// A user in doubt is denied without a look at their claim.
    ClaimUnread,
    /// A grab overlooks the hold that an earlier one of its user has left behind.
    HoldOverlooked,
    /// A limit refuses a claim although its user has it already.
    RefusedBeforeClaim,
    /// Settle does not release a hold whose claim is refused.
    SettleKeepsRefused,
    /// A release makes a slip free although its user does not hold it any more.
    FreedWithoutHold,
}

/// Makes the mistakes that lie between one process and the table.
pub struct TableMutant {
    world: Arc<World>,
    slot: u32,
    /// Tokens of earlier transactions.
    sent: Mutex<BTreeSet<String>>,
    /// Sums of the claims that queries showed, by partition key of their decisions.
    counted: Mutex<BTreeMap<String, u64>>,
}

impl TableMutant {
    /// Makes the mistake of `world`'s mutant, if any.
    pub fn new(world: Arc<World>, slot: u32) -> Self {
        Self { world, slot, sent: Mutex::default(), counted: Mutex::default() }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.world.mutant == Some(mutant)
    }

    /// The transaction to send instead.
    pub fn before_transaction(&self, writes: &[Write], token: &str) -> Vec<Write> {
        let mut writes = writes.to_vec();
        // The time of a refund or of a deposit is in its key too, so such a mistake would show at once.
        if self.is(Mutant::FreshTime)
            && !self.sent.lock().unwrap().insert(token.to_owned())
            && claim_of(&writes).is_some()
        {
            let at = self.world.now().ms();
            each_item(&mut writes, |_, item| {
                if item.get("at").is_some() {
                    set(item, "at", at);
                }
            });
        }
        if self.is(Mutant::AmountFromRedis)
            && let Some((packet, _, user)) = claim_of(&writes)
            && let Some(amount) = self.world.said(packet, user.as_str())
        {
            each_item(&mut writes, |_, item| set(item, "amount", amount));
            each_delta(&mut writes, |name, delta| {
                if matches!(name, "balance" | "claim_amount") {
                    *delta = i64::try_from(amount).unwrap();
                }
            });
        }
        if self.is(Mutant::SuspensionReadBefore) {
            for write in &mut writes {
                if let Write::Add { key, absent, .. } = write {
                    absent.take_if(|name| !self.world.table.read(key).is_some_and(|item| item.contains_key(*name)));
                }
            }
        }
        if self.is(Mutant::LimitReadBefore) {
            for write in &mut writes {
                if let Write::Add { key, bounds, .. } = write
                    && key.sk.starts_with(keys::WON)
                {
                    let won = self.world.table.read(key).unwrap_or_default();
                    bounds.retain(|bound| match bound {
                        Bound::AtMost(name, most) => number(&won, name) > *most,
                        Bound::AtLeast(..) => true,
                    });
                }
            }
        }
        if self.is(Mutant::EndedTwice) {
            for write in &mut writes {
                if let Write::Change { key, expect, .. } = write
                    && key.sk.contains("WITHDRAW#")
                {
                    *expect = Expect::Nothing;
                }
            }
        }
        if self.is(Mutant::CountedApart) {
            let is_day = |write: &Write| matches!(write, Write::Add { key, .. } if key.sk.starts_with("DAY#"));
            for day in writes.extract_if(.., |write| is_day(write)).collect::<Vec<_>>() {
                let _ = self.world.table.apply(&[day], &format!("{token} apart {}", self.world.now()));
            }
        }
        if let Some((packet, refunded)) = refund_of(&writes) {
            if self.is(Mutant::CountedRefund) {
                self.refund_what_was_not_counted(&mut writes, packet, refunded);
            }
            if self.is(Mutant::SettledEarly) {
                self.settle(packet);
            }
        }
        if self.is(Mutant::RedisBeforeLedger)
            && let Some(terms) = writes.iter().find_map(terms_of)
        {
            for part in terms.id.parts() {
                let _ = now(self.world.primary(self.slot).load(part, &terms, false, &[]));
            }
        }
        writes
    }

    fn refund_what_was_not_counted(&self, writes: &mut [Write], packet: PacketId, refunded: u64) {
        let counted = self.counted.lock().unwrap();
        let claimed = counted.iter().filter(|(pk, _)| pk.starts_with(&format!("SLIPS#{packet}#")));
        let claimed: u64 = claimed.map(|(_, amount)| amount).sum();
        let total = self.world.terms(packet).map_or(refunded, |terms| terms.total.minor_units());
        let amount = total.saturating_sub(claimed);
        each_item(writes, |key, item| {
            if key.sk.contains("REFUND#") {
                set(item, "amount", amount);
            }
        });
        each_delta(writes, |_, delta| *delta = i64::try_from(amount).unwrap());
    }

    /// Marks a packet as settled, as if all undecided slips were refunded.
    fn settle(&self, packet: PacketId) {
        let Some(terms) = self.world.terms(packet) else { return };
        let prefix = format!("SLIPS#{packet}#");
        let items = self.world.table.items();
        let is_claimed = |(key, item): &(&Key, &Item)| key.pk.starts_with(&prefix) && item.get("user_id").is_some();
        let decisions: Vec<u64> = items.iter().filter(is_claimed).map(|(_, item)| number(item, "amount")).collect();
        let claimed: u64 = decisions.iter().sum();
        let mut closing = Item::default();
        set(&mut closing, "settled_at", self.world.now().ms());
        set(&mut closing, "claimed_count", decisions.len() as u64);
        set(&mut closing, "claimed_amount", claimed);
        set(&mut closing, "refunded_count", u64::from(terms.count) - decisions.len() as u64);
        set(&mut closing, "refunded_amount", terms.total.minor_units() - claimed);
        closing.inner_mut().insert("status".to_owned(), AttributeValue::S("settled".to_owned()));
        let key = Key { pk: format!("PACKET#{packet}"), sk: "META".to_owned() };
        let write = Write::Change { key, expect: Expect::Is("status", "open"), set: closing, remove: &["due_shard"] };
        let _ = self.world.table.apply(&[write], &format!("{packet} settled early"));
    }

    /// The answer to give instead of a transaction's own.
    pub fn after_transaction(&self, writes: &[Write], answer: Result<(), TransactError>) -> Result<(), TransactError> {
        match answer {
            Err(TransactError::Cancelled(mut reasons))
                if self.is(Mutant::RefusedBeforeClaim)
                    && claim_of(writes).is_some()
                    && matches!(reasons.get(3), Some(Reason::ConditionFailed(_))) =>
            {
                reasons[..2].fill(Reason::None);
                Err(TransactError::Cancelled(reasons))
            }
            Err(TransactError::Cancelled(mut reasons))
                if self.is(Mutant::KeyNotReread)
                    && writes.iter().any(|write| terms_of(write).is_some())
                    && reasons.iter().skip(1).any(|reason| matches!(reason, Reason::ConditionFailed(_))) =>
            {
                reasons[0] = Reason::None;
                Err(TransactError::Cancelled(reasons))
            }
            Err(TransactError::Failed(error)) if self.is(Mutant::PutBackAfterTimeout) => {
                if let Some((packet, slip, user)) = claim_of(writes)
                    && let Some(part) = self.part(packet, slip)
                {
                    put_back(self.world.primary(self.slot), part, slip, &user);
                }
                Err(TransactError::Failed(error))
            }
            answer => answer,
        }
    }

    fn part(&self, packet: PacketId, slip: u32) -> Option<PartId> {
        PartId::of_slip(packet, self.world.terms(packet)?.count, slip)
    }

    /// The item to give instead of the one that was read.
    pub fn after_get(&self, key: &Key, item: Option<Item>) -> Option<Item> {
        let hidden = match self.world.mutant {
            Some(Mutant::KeyNotReread) => "KEY#",
            Some(Mutant::RefusedBeforeClaim) => "CLAIM#",
            _ => return item,
        };
        item.filter(|_| !key.sk.starts_with(hidden))
    }

    /// The items to give instead of those that were read together.
    pub fn after_batch(&self, items: Vec<Item>) -> Vec<Item> {
        if self.is(Mutant::ClaimUnread) { Vec::new() } else { items }
    }

    /// Remembers the result of a query.
    pub fn after_query(&self, pk: &str, items: &[Item]) {
        if self.is(Mutant::CountedRefund) {
            let claimed = items.iter().filter(|item| item.get("user_id").is_some());
            self.counted.lock().unwrap().insert(pk.to_owned(), claimed.map(|item| number(item, "amount")).sum());
        }
    }

    /// Remembers which packets are about to be refunded.
    pub fn after_due(&self, items: &[Item]) {
        if self.is(Mutant::RefundWithoutDraining) {
            let id = |item: &Item| match item.get("PK") {
                Some(AttributeValue::S(pk)) => pk.strip_prefix("PACKET#")?.parse().ok(),
                _ => None,
            };
            self.world.refunding(self.slot, items.iter().filter_map(id));
        }
    }

    /// Removes items before a transaction, so that its conditions pass.
    pub fn before_commit(world: &World, writes: &[Write]) {
        let forgets = |key: &Key| match world.mutant {
            Some(Mutant::NoSlipDecision) => key.pk.starts_with("SLIPS#"),
            Some(Mutant::NoClaimDecision) => key.sk.starts_with("CLAIM#"),
            _ => false,
        };
        for write in writes {
            if let Write::PutNew { key, .. } = write
                && forgets(key)
            {
                world.table.remove(key);
            }
        }
    }
}

/// Makes the mistakes that lie between one process and the hot store.
pub struct HotMutant {
    world: Arc<World>,
    slot: u32,
}

impl HotMutant {
    /// Makes the mistake of `world`'s mutant, if any.
    pub const fn new(world: Arc<World>, slot: u32) -> Self {
        Self { world, slot }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.world.mutant == Some(mutant)
    }

    /// Runs before a grab of a process whose clock is `skew_ms` ahead.
    pub fn before_grab(world: &World, hot: &MemoryHot, part: PartId, grabbers: &[Grabber], skew_ms: i64) {
        if world.mutant == Some(Mutant::HoldOverlooked) {
            let held = hot.server().holds(part).into_iter().map(|(_, user)| user);
            held.filter(|user| grabbers.iter().any(|one| one.user == *user))
                .for_each(|user| end_hold(hot, part, &user));
        }
        if world.mutant == Some(Mutant::StartByProcessClock) {
            let now = world.now().ms().saturating_add_signed(skew_ms);
            let starts_at = hot.server().part(part).get(fields::STARTS_AT).and_then(|start| start.parse::<u64>().ok());
            if starts_at.is_some_and(|starts_at| starts_at <= now) {
                tamper(hot, &["HDEL", &PartKeys::of(part).part, fields::STARTS_AT]);
            }
        }
    }

    /// Remembers the amount of the slip that the hot store holds, before a fault changes which slip it names.
    pub fn before_lie(&self, part: PartId, grabber: &Grabber, found: &GrabAnswer) {
        if self.is(Mutant::AmountFromRedis)
            && let GrabAnswer::Held { slip, .. } = found
            && let Some(amount) = self.amount(part, *slip)
        {
            self.world.say(part.packet, grabber.user.as_str(), amount);
        }
    }

    /// Changes an answer of grab.
    pub fn after_grab(&self, part: PartId, found: &mut GrabAnswer) {
        match found {
            GrabAnswer::Held { slip, left, .. } if self.is(Mutant::UnconfirmedAnswer) => {
                if let Some(terms) = self.world.terms(part.packet)
                    && let Some(amount) = self.amount(part, *slip)
                {
                    let at = terms.expires_at.before(*left);
                    *found = GrabAnswer::Confirmed(Claim { slip: *slip, amount: Amount::new(amount), at });
                }
            }
            GrabAnswer::SoldOut { certain } if self.is(Mutant::UncertainNegative) => *certain = true,
            _ => {}
        }
    }

    fn amount(&self, part: PartId, slip: u32) -> Option<u64> {
        let terms: Arc<Terms> = self.world.terms(part.packet)?;
        let place = slip.checked_sub(part.slips(terms.count).start)?;
        let amounts = self.world.table.read(&keys::amounts(part)).map(|item| audit::books::amounts_of(&item))?;
        amounts.get(place as usize).copied()
    }

    /// Whether a part is loaded as closed.
    pub fn load(&self, is_closed: bool) -> bool {
        is_closed && !self.is(Mutant::LoaderKnowsNoClose)
    }

    /// The answer to a process that would close a part; `is_settle`: for a refund.
    pub fn close(
        mutant: Option<Mutant>,
        hot: &MemoryHot,
        part: PartId,
        is_settle: bool,
    ) -> Option<Result<bool, HotStoreError>> {
        match mutant? {
            Mutant::CloseSkipsUnloaded => {
                (!hot.server().part(part).contains_key(fields::EXPIRES_AT)).then_some(Ok(true))
            }
            Mutant::RefundBeforeTold => is_settle.then_some(Ok(true)),
            _ => None,
        }
    }

    /// Runs before a release. Returns whether it is made.
    pub fn before_release(mutant: Option<Mutant>, hot: &MemoryHot, part: PartId, hold: &Hold, is_settle: bool) -> bool {
        let is_held = hot.server().holds(part).contains(&(hold.slip, hold.user.clone()));
        if mutant == Some(Mutant::FreedWithoutHold) && !is_held {
            free(hot, part, hold.slip);
        }
        !(mutant == Some(Mutant::SettleKeepsRefused) && is_settle)
    }

    /// Runs before a load.
    pub fn before_load(mutant: Option<Mutant>, hot: &MemoryHot, part: PartId) {
        if mutant == Some(Mutant::LoaderOverwrites) {
            let PartKeys { part, free, .. } = PartKeys::of(part);
            tamper(hot, &["DEL", &part, &free]);
        }
    }

    /// Changes the outbox after it was read.
    pub fn after_outbox(mutant: Option<Mutant>, hot: &MemoryHot, part: PartId) {
        if mutant == Some(Mutant::AcknowledgedBeforeCommit) {
            hot.server().holds(part).into_iter().for_each(|(_, user)| end_hold(hot, part, &user));
        }
    }

    /// The outbox to give instead of the one that was read.
    pub fn outbox(&self, part: PartId, held: Vec<OutboxEntry>) -> Vec<OutboxEntry> {
        if self.world.is_refunding(self.slot, part.packet) { Vec::new() } else { held }
    }

    /// A run of settle begins.
    pub fn before_pending(&self) {
        self.world.settling(self.slot);
    }
}

/// Changes the hot store in a way that no script would.
fn tamper(hot: &MemoryHot, command: &[&str]) {
    hot.server().command(command).unwrap();
}

/// Makes a slip free again that is held for this user.
fn put_back(hot: &MemoryHot, part: PartId, slip: u32, user: &UserId) {
    if !hot.server().holds(part).contains(&(slip, user.clone())) {
        return;
    }
    end_hold(hot, part, user);
    free(hot, part, slip);
}

/// Ends a user's hold, whatever becomes of the slip.
fn end_hold(hot: &MemoryHot, part: PartId, user: &UserId) {
    let key = PartKeys::of(part).part;
    tamper(hot, &["HDEL", &key, user.as_str()]);
    tamper(hot, &["HINCRBY", &key, fields::HELD_COUNT, "-1"]);
}

/// Adds a slip to the free ones of a part, if it is loaded.
fn free(hot: &MemoryHot, part: PartId, slip: u32) {
    let Some(expires_at) = hot.server().part(part).remove(fields::EXPIRES_AT) else { return };
    let free = PartKeys::of(part).free;
    tamper(hot, &["LPUSH", &free, &slip.to_string()]);
    tamper(hot, &["PEXPIREAT", &free, &expires_at]);
}

/// The claim that a transaction writes: packet, slip, user.
fn claim_of(writes: &[Write]) -> Option<(PacketId, u32, UserId)> {
    writes.iter().find_map(|write| match write {
        Write::PutNew { key, item } => {
            let packet = key.sk.strip_prefix("CLAIM#")?.parse().ok()?;
            let slip = u32::try_from(number(item, "slip")).ok()?;
            Some((packet, slip, key.pk.strip_prefix("USER#")?.parse().ok()?))
        }
        _ => None,
    })
}

/// The packet and the amount of a refund.
fn refund_of(writes: &[Write]) -> Option<(PacketId, u64)> {
    writes.iter().find_map(|write| match write {
        Write::PutNew { key, item } => {
            let id = key.sk.strip_prefix("REFUND#")?.split('#').next()?;
            Some((id.parse().ok()?, number(item, "amount")))
        }
        _ => None,
    })
}

fn each_item(writes: &mut [Write], mut change: impl FnMut(&Key, &mut Item)) {
    for write in writes {
        if let Write::PutNew { key, item } = write {
            change(key, item);
        }
    }
}

fn each_delta(writes: &mut [Write], mut change: impl FnMut(&str, &mut i64)) {
    for write in writes {
        if let Write::Add { deltas, .. } = write {
            for (name, delta) in deltas {
                change(name, delta);
            }
        }
    }
}

fn set(item: &mut Item, name: &str, value: u64) {
    item.inner_mut().insert(name.to_owned(), AttributeValue::N(value.to_string()));
}
