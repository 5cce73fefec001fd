//! The items as the audit parses them, without the writers' types: an error there would repeat here and stay unnoticed.

use std::collections::HashMap;
use std::str::FromStr;

use serde_dynamo::AttributeValue;
use shared::domain::{LimitKey, PacketId, PartId, Reference, Timestamp, UserId};
use shared::ledger::keys;
use shared::ports::{Item, Key};

/// The most slips of a packet. An item that claims to have more is not read on, whatever memory that would take.
const SLIPS_MAX: u32 = 100_000;

/// The kind of an item, from its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Name {
    /// A packet's terms and state.
    Packet(PacketId),
    /// The amounts of a part.
    Amounts(PartId),
    /// The decision of a slip.
    Decision(PacketId, u32),
    /// That a packet has a reference.
    Reference(Reference, PacketId),
    /// That the limit of a sender's packet has this key.
    Limited(UserId, LimitKey, PacketId),
    /// A user's item.
    Of(UserId, Own),
    /// The state of the receiver of webhooks, which says nothing of money.
    Receiver,
    /// That a packet is sold out. Its decisions say what became of its money.
    SoldOut(PacketId),
    /// A decision of the operator about sending, which says nothing of money either.
    Sending,
    /// The key of an operator, which says nothing of money.
    OperatorKey,
    /// What an operator did. The items that it changed say what became of the money.
    Deed,
    /// That a user has a deposit or a withdrawal with an id.
    Request,
    /// An order to close packets. The packets themselves say what became of their money.
    CloseOrder,
    /// What a check of the table left.
    Check,
}

/// The kind of a user's item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Own {
    /// The wallet.
    Wallet,
    /// The idempotency key of a send.
    SendKey,
    /// A claim of a packet.
    Claim(PacketId),
    /// The debit of a packet.
    Sent(PacketId),
    /// The refund of a chunk of a packet, from this slip on.
    Refund(PacketId, u32),
    /// What counts towards the limit of a day.
    Day,
    /// What counts towards a limit of wins.
    Won,
    /// A deposit.
    Deposit,
    /// A withdrawal.
    Withdrawal,
    /// What an operator did to the user.
    Deed,
    /// The copy of a deposit, a refund or a withdrawal of this time in the user's timeline, or what a withdrawal gave back.
    InTimeline(Timestamp),
}

impl Name {
    /// Parses `key`, and accepts only its canonical spelling.
    pub fn of(key: &Key) -> Option<Self> {
        let fields: Vec<&str> = key.pk.split('#').chain(key.sk.split('#')).collect();
        let (name, spelling) = match fields[..] {
            ["PACKET", id, "META"] => {
                let id = id.parse().ok()?;
                (Self::Packet(id), keys::packet(id))
            }
            ["SOLDOUT", id, "STATE"] => {
                let id = id.parse().ok()?;
                (Self::SoldOut(id), keys::sold_out(id))
            }
            ["PART", id, index, "AMOUNTS"] => {
                let part = PartId { packet: id.parse().ok()?, index: index.parse().ok()? };
                (Self::Amounts(part), keys::amounts(part))
            }
            ["SLIPS", id, _, slip] => {
                let (id, slip) = (id.parse().ok()?, slip.parse().ok()?);
                (Self::Decision(id, slip), keys::decision(id, slip))
            }
            ["REF", reference, id] => {
                let (reference, id) = (reference.parse().ok()?, id.parse().ok()?);
                let spelling = keys::reference(&reference, id);
                (Self::Reference(reference, id), spelling)
            }
            ["LIMIT", sender, key, id] => {
                let (sender, key, id) = (sender.parse().ok()?, key.parse().ok()?, id.parse().ok()?);
                let spelling = keys::limited(&sender, &key, id);
                (Self::Limited(sender, key, id), spelling)
            }
            ["USER", user, ref own @ ..] => {
                let user = user.parse().ok()?;
                let (own, spelling) = match key.sk.strip_prefix(keys::SEND_KEY) {
                    // All the rest is the key of a send, which can have a `#`.
                    Some(rest) => (Own::SendKey, keys::send_key(&user, &rest.parse().ok()?)),
                    None => Own::of(&user, own)?,
                };
                (Self::Of(user, own), spelling)
            }
            ["WEBHOOK", ..] => (Self::Receiver, keys::receiver()),
            ["CLOSING", sender, reference, at] => {
                let at = Timestamp::from_ms(at.parse().ok()?);
                (Self::CloseOrder, keys::close_order(&sender.parse().ok()?, &reference.parse().ok()?, at))
            }
            ["OPERATOR", "SENDING", at] => (Self::Sending, keys::sending(Timestamp::from_ms(at.parse().ok()?))),
            ["DEEDS", "ALL", at, name] => (Self::Deed, keys::deed(Timestamp::from_ms(at.parse().ok()?), name)),
            ["REQUEST", id, _, kind @ ("DEPOSIT" | "WITHDRAW"), user] => {
                let (id, user) = (id.parse().ok()?, user.parse().ok()?);
                let movement = if kind == "DEPOSIT" { keys::deposit(&user, &id) } else { keys::withdrawal(&user, &id) };
                (Self::Request, keys::request(&movement, &user, &id))
            }
            ["OPERATOR", "FOLLOWED", at] => (Self::Sending, keys::sending_after(Timestamp::from_ms(at.parse().ok()?))),
            ["OPERATOR", "KEYS", hash] => (Self::OperatorKey, keys::operator_key(hash)),
            ["CHECK", ..] => (Self::Check, key.clone()),
            _ => return None,
        };
        (spelling == *key).then_some(name)
    }
}

impl Own {
    fn of(user: &UserId, fields: &[&str]) -> Option<(Self, Key)> {
        Some(match *fields {
            ["WALLET"] => (Self::Wallet, keys::wallet(user)),
            ["LIMIT", sender, key] => (Self::Won, keys::won(user, &sender.parse().ok()?, &key.parse().ok()?)),
            ["DAY", day] if is_day(day) => (Self::Day, keys::day(user, day)),
            ["DEED", number] => (Self::Deed, keys::deed_on(user, number.parse().ok()?)),
            ["DEPOSIT", id] => (Self::Deposit, keys::deposit(user, &id.parse().ok()?)),
            ["WITHDRAW", id] => (Self::Withdrawal, keys::withdrawal(user, &id.parse().ok()?)),
            ["CLAIM", id] => {
                let id = id.parse().ok()?;
                (Self::Claim(id), keys::claim(user, id))
            }
            ["SENT", id] => {
                let id = id.parse().ok()?;
                (Self::Sent(id), keys::sent(user, id))
            }
            ["REFUND", id, slip] => {
                let (id, slip) = (id.parse().ok()?, slip.parse().ok()?);
                (Self::Refund(id, slip), keys::refund(user, id, slip))
            }
            ["AT", "RETURN", at, id] => {
                let at = Timestamp::from_ms(at.parse().ok()?);
                (Self::InTimeline(at), keys::in_timeline(&keys::returned(user, &id.parse().ok()?), at))
            }
            ["AT", kind @ ("DEPOSIT" | "REFUND" | "WITHDRAW"), at, ref name @ ..] => {
                let at = Timestamp::from_ms(at.parse().ok()?);
                let (_, movement) = Self::of(user, &[&[kind], name].concat())?;
                (Self::InTimeline(at), keys::in_timeline(&movement, at))
            }
            _ => return None,
        })
    }
}

/// Whether a text is a day, such as `2027-01-01`.
fn is_day(text: &str) -> bool {
    let is_good =
        |(place, byte): (usize, u8)| if place == 4 || place == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(is_good)
}

/// A malformed attribute: its expected value.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected {0}")]
pub struct Malformed(pub String);

/// A value that is a text.
pub fn as_text(value: &AttributeValue) -> Option<&str> {
    if let AttributeValue::S(text) = value { Some(text) } else { None }
}

/// The attributes of an item.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a HashMap<String, AttributeValue>);

impl<'a> Fields<'a> {
    /// Whether there is an attribute of this name.
    pub fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A text.
    pub fn text(self, name: &str) -> Result<&'a str, Malformed> {
        self.0.get(name).and_then(as_text).ok_or_else(|| Malformed(format!("{name}: a text")))
    }

    /// A text that means something.
    fn parsed<T: FromStr>(self, name: &str, what: &str) -> Result<T, Malformed> {
        self.text(name)?.parse().map_err(|_| Malformed(format!("{name}: {what}")))
    }

    /// An attribute that the item may lack.
    fn maybe<T>(self, name: &str, read: impl Fn(Self, &str) -> Result<T, Malformed>) -> Result<Option<T>, Malformed> {
        self.has(name).then(|| read(self, name)).transpose()
    }

    /// A label of the operator: a reference, or the key of a limit.
    fn label<T: FromStr>(self, name: &str) -> Result<T, Malformed> {
        self.parsed(name, "1 to 64 of A-Z a-z 0-9 _ . : -")
    }

    fn one_of(self, name: &str, words: [&str; 2]) -> Result<(), Malformed> {
        let [one, other] = words;
        if words.contains(&self.text(name)?) { Ok(()) } else { Err(Malformed(format!("{name}: {one} or {other}"))) }
    }

    /// The id of a user.
    pub fn user(self, name: &str) -> Result<UserId, Malformed> {
        self.parsed(name, "a user id")
    }

    /// The packet that the item belongs to.
    pub fn packet(self) -> Result<PacketId, Malformed> {
        self.parsed("packet_id", "a packet id")
    }

    /// The limit that a claim counts towards, as its key is spelled in the key of what its user has won.
    pub fn limit_of_claim(self) -> Result<Option<String>, Malformed> {
        let key = self.maybe("limit_key", Self::label::<LimitKey>)?;
        key.map(|key| Ok(format!("{}#{key}", self.user("sender_id")?))).transpose()
    }

    /// The key of a packet's limit, if it has one. Its numbers must be such that somebody can win.
    pub fn limit(self) -> Result<Option<LimitKey>, Malformed> {
        let Some(limit) = self.0.get("limit") else { return Ok(None) };
        let AttributeValue::M(limit) = limit else { return Err(Malformed("limit: a map".to_owned())) };
        let fields = Fields(limit);
        for name in ["wins", "amount"].into_iter().filter(|name| fields.has(name)) {
            if fields.number(name)? == 0 {
                return Err(Malformed(format!("limit.{name}: at least 1")));
            }
        }
        fields.label("key").map(Some)
    }

    /// Whether a packet was closed: then it says when and why, and may say by whom.
    pub fn closed(self) -> Result<bool, Malformed> {
        if !["closed_at", "close_reason", "closed_by"].iter().any(|name| self.has(name)) {
            return Ok(false);
        }
        self.number("closed_at")?;
        self.text("close_reason")?;
        Ok(true)
    }

    /// Who signed a movement. Older ones don't say.
    pub fn signer(self) -> Result<(), Malformed> {
        match self.0.get("by").map(as_text) {
            None => Ok(()),
            Some(Some(by)) if !by.is_empty() && by.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(()),
            Some(_) => Err(Malformed("by: an ARN or the name of a key".to_owned())),
        }
    }

    /// A whole number, which may be negative.
    pub fn signed(self, name: &str) -> Result<i128, Malformed> {
        let number = if let Some(AttributeValue::N(number)) = self.0.get(name) { number.parse().ok() } else { None };
        number.ok_or_else(|| Malformed(format!("{name}: a whole number")))
    }

    /// The same, or 0 if nothing was ever added to it.
    pub fn total(self, name: &str) -> Result<i128, Malformed> {
        if self.has(name) { self.signed(name) } else { Ok(0) }
    }

    /// A number of 0 or more.
    pub fn number(self, name: &str) -> Result<u64, Malformed> {
        let number = i64::try_from(self.signed(name)?).ok().and_then(|number| number.try_into().ok());
        number.ok_or_else(|| Malformed(format!("{name}: a number from 0 to 2^63 - 1")))
    }

    /// The number of a slip, or a number of slips.
    pub fn slip(self, name: &str) -> Result<u32, Malformed> {
        u32::try_from(self.number(name)?).map_err(|_| Malformed(format!("{name}: a slip")))
    }

    fn hex32(self, name: &str) -> Result<(), Malformed> {
        let good = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let text = self.text(name)?;
        // The value stays out of every message: it may be a seed.
        if text.len() == 64 && text.bytes().all(good) { Ok(()) } else { Err(Malformed(format!("{name}: 32 bytes"))) }
    }
}

/// A number of slips, and the sum of their amounts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum {
    pub count: u64,
    pub amount: u64,
}

impl Sum {
    pub const fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.amount = self.amount.saturating_add(other.amount);
    }

    pub const fn is_within(self, most: Self) -> bool {
        self.count <= most.count && self.amount <= most.amount
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} slips", self.amount, self.count)
    }
}

/// The attributes of a packet that never change, as far as other items depend on them.
#[derive(Clone, Debug)]
pub struct Terms {
    pub id: PacketId,
    pub sender: UserId,
    pub total: u64,
    pub count: u32,
    pub reference: Option<Reference>,
    pub limit_key: Option<LimitKey>,
    pub created_at: u64,
    pub expires_at: u64,
}

impl Terms {
    pub fn read(id: PacketId, item: &Item) -> Result<Self, Malformed> {
        let fields = Fields(item);
        Ok(Self {
            id,
            sender: fields.user("sender_id")?,
            total: fields.number("total_amount")?,
            count: fields.slip("slip_count")?,
            reference: fields.maybe("reference", Fields::label)?,
            limit_key: fields.limit()?,
            created_at: fields.number("created_at")?,
            expires_at: fields.number("expires_at")?,
        })
    }

    /// The items of the lists that the packet must be in: under its reference, and under the key of its limit.
    pub fn lists(&self) -> Vec<Key> {
        let reference = self.reference.as_ref().map(|reference| keys::reference(reference, self.id));
        let limit = self.limit_key.as_ref().map(|key| keys::limited(&self.sender, key, self.id));
        reference.into_iter().chain(limit).collect()
    }
}

/// A packet: its terms, and its state.
#[derive(Debug)]
pub struct Packet {
    pub terms: Terms,
    pub cap: u64,
    pub greeting: String,
    pub due_shard: Option<u64>,
    pub due_at: u64,
    /// Whether the operator has closed it.
    pub is_closed: bool,
    /// The totals that settle adds; `None`: the packet is not settled.
    pub closing: Option<Closing>,
}

/// The totals that settle adds to a packet.
#[derive(Debug)]
pub struct Closing {
    pub claimed: Sum,
    pub refunded: Sum,
    pub best: Option<Best>,
}

/// The luckiest claim of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Best {
    pub amount: u64,
    pub slip: u32,
    pub user: UserId,
}

impl Packet {
    pub fn read(id: PacketId, item: &Item) -> Result<Self, Malformed> {
        let (fields, terms) = (Fields(item), Terms::read(id, item)?);
        if fields.packet()? != id {
            return Err(Malformed("packet_id: that of its key".to_owned()));
        }
        fields.hex32("seed")?;
        fields.maybe("passphrase_digest", Fields::hex32)?;
        fields.one_of("split", ["random", "equal"])?;
        fields.one_of("ack", ["ledger", "redis"])?;
        fields.number("split_version")?;
        fields.text("currency")?;
        let Terms { total, count, created_at, expires_at, .. } = terms;
        if !(1..=SLIPS_MAX).contains(&count) || u64::from(count) > total {
            return Err(Malformed(format!("slip_count: from 1 to {SLIPS_MAX} and the total amount")));
        }
        if expires_at <= created_at {
            return Err(Malformed("expires_at: after created_at".to_owned()));
        }
        let starts_at = fields.maybe("starts_at", Fields::number)?;
        if starts_at.is_some_and(|at| at <= created_at || at >= expires_at) {
            return Err(Malformed("starts_at: between created_at and expires_at".to_owned()));
        }
        Ok(Self {
            terms,
            cap: fields.number("slip_cap")?,
            greeting: fields.text("greeting")?.to_owned(),
            due_shard: fields.maybe(keys::DUE_SHARD, Fields::number)?,
            due_at: fields.number(keys::DUE_AT)?,
            is_closed: fields.closed()?,
            closing: Closing::read(fields)?,
        })
    }
}

impl Closing {
    fn read(fields: Fields) -> Result<Option<Self>, Malformed> {
        match fields.text("status")? {
            "open" if fields.closed()? => Err(Malformed("a closed packet: not open".to_owned())),
            "closed" if !fields.closed()? => Err(Malformed("a packet that is not closed: open".to_owned())),
            "open" | "closed" if fields.has("claimed_count") => {
                Err(Malformed("a packet that is not settled: no closing totals".to_owned()))
            }
            "open" | "closed" => Ok(None),
            "settled" => {
                let sum = |count, amount| Ok(Sum { count: fields.number(count)?, amount: fields.number(amount)? });
                let best = || {
                    let (amount, slip) = (fields.number("best_amount")?, fields.slip("best_slip")?);
                    Ok(Best { amount, slip, user: fields.user("best_user")? })
                };
                fields.number("settled_at")?;
                Ok(Some(Self {
                    claimed: sum("claimed_count", "claimed_amount")?,
                    refunded: sum("refunded_count", "refunded_amount")?,
                    best: fields.has("best_slip").then(best).transpose()?,
                }))
            }
            _ => Err(Malformed("status: open, closed or settled".to_owned())),
        }
    }
}

/// A slip's decision, or a claim's copy of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Slip {
    pub index: u32,
    /// The owner; `None`: refunded.
    pub user: Option<UserId>,
    pub amount: u64,
    pub at: u64,
}

impl Slip {
    /// A decision, whose own attributes include the user.
    pub fn decision(item: &Item) -> Result<Self, Malformed> {
        let fields = Fields(item);
        let user = fields.maybe("user_id", Fields::user)?;
        Self::read(fields, user)
    }

    /// A user's claim.
    pub fn claim(user: UserId, item: &Item) -> Result<Self, Malformed> {
        Self::read(Fields(item), Some(user))
    }

    fn read(fields: Fields, user: Option<UserId>) -> Result<Self, Malformed> {
        Ok(Self { index: fields.slip("slip")?, user, amount: fields.number("amount")?, at: fields.number("at")? })
    }
}

impl std::fmt::Display for Slip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { index, user, amount, at } = self;
        match user {
            Some(user) => write!(f, "slip {index} claimed by {user}: {amount} at {at}"),
            None => write!(f, "slip {index} refunded: {amount} at {at}"),
        }
    }
}

/// What a withdrawal has moved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Withdrawal {
    /// What it took out of the balance, in minor units like the other amounts.
    pub amount: u64,
    /// When it was made, in milliseconds since the epoch.
    pub at: u64,
    /// What has left.
    pub posted: u64,
    /// What is reserved.
    pub pending: u64,
    /// What went back.
    pub returned: u64,
    /// When it ended, if it was made in two steps and has ended.
    pub ended_at: Option<u64>,
}

impl Withdrawal {
    /// Parses its item, which is in the index exactly while it is pending.
    pub fn read(item: &Item) -> Result<Self, Malformed> {
        let fields = Fields(item);
        fields.signer()?;
        let (amount, at) = (fields.number("amount")?, fields.number("at")?);
        let made = Self { amount, at, ..Self::default() };
        if !fields.has("status") {
            return Ok(Self { posted: amount, ..made });
        }
        let ended = || {
            let is_indexed = fields.has(keys::DUE_SHARD) || fields.has(keys::DUE_AT);
            if is_indexed {
                Err(Malformed("an ended withdrawal: not in the index".to_owned()))
            } else {
                fields.number("ended_at")
            }
        };
        match fields.text("status")? {
            "pending" => {
                let shard = u64::from(keys::PENDING_SHARD);
                if fields.number(keys::DUE_SHARD)? != shard || fields.number(keys::DUE_AT)? != at {
                    return Err(Malformed(format!("a pending withdrawal: in the index at {shard}, {at}")));
                }
                Ok(Self { pending: amount, ..made })
            }
            "posted" => {
                let posted = fields.number("posted_amount")?;
                let returned = amount.checked_sub(posted).filter(|_| posted > 0);
                let returned = returned.ok_or_else(|| Malformed(format!("posted_amount: from 1 to {amount}")))?;
                Ok(Self { posted, returned, ended_at: Some(ended()?), ..made })
            }
            "voided" => Ok(Self { returned: amount, ended_at: Some(ended()?), ..made }),
            _ => Err(Malformed("status: pending, posted or voided".to_owned())),
        }
    }
}

/// The refund of one chunk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refund {
    pub lowest: u32,
    pub sum: Sum,
    pub at: u64,
}

impl Refund {
    pub fn read(lowest: u32, item: &Item) -> Result<Self, Malformed> {
        let fields = Fields(item);
        let sum = Sum { count: fields.number("slip_count")?, amount: fields.number("amount")? };
        Ok(Self { lowest, sum, at: fields.number("at")? })
    }
}

/// The amounts of a part: one byte for the width (1 to 4), then each amount in that many bytes, little-endian.
#[derive(Debug)]
pub struct Amounts {
    width: usize,
    bytes: Vec<u8>,
}

impl Amounts {
    pub fn read(item: &Item) -> Result<Self, Malformed> {
        let malformed = || Malformed("amounts: a width from 1 to 4, and that many bytes a slip".to_owned());
        let Some(AttributeValue::B(blob)) = item.get("amounts") else { return Err(malformed()) };
        let (width, bytes) = blob.split_first().ok_or_else(malformed)?;
        let width = usize::from(*width);
        if !(1..=4).contains(&width) || !bytes.len().is_multiple_of(width) {
            return Err(malformed());
        }
        Ok(Self { width, bytes: bytes.to_vec() })
    }

    /// The amounts, slip by slip.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> {
        self.bytes.chunks_exact(self.width).map(little_endian)
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |amount, byte| (amount << 8) | u64::from(*byte))
}
