use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::Failure;
use super::load::Loader;
use super::stores::Stores;
use crate::domain::{
    AckMode, Amount, Amounts, DailyLimit, DayZone, Guard, IdempotencyKey, Labels, Limits, PACKET_ID_RANDOM_BYTES,
    PacketId, Passphrase, PassphraseDigest, SPLIT_VERSION, Seed, Split, Terms, Timestamp, UserId, WinLimit, part_count,
    split,
};
use crate::ledger;
use crate::ports::{HotStore, Table};

/// What a deployment gives to every packet that it sends.
#[derive(Clone, Debug)]
pub struct SendPolicy {
    /// The one currency (ISO 4217).
    pub currency: String,
    /// When grabs are answered.
    pub ack: AckMode,
    /// What can be sent.
    pub limits: Limits,
    /// The most that a user can send on a day, if there is a limit and they have none of their own.
    pub daily_max: Option<Amount>,
    /// Whose days these are.
    pub day_zone: DayZone,
}

/// What a user asks for, within the limits.
#[derive(Clone, Debug)]
pub struct NewPacket {
    /// Who pays.
    pub sender: UserId,
    /// How to divide it.
    pub split: Split,
    /// All of its money.
    pub total: Amount,
    /// Into how many slips.
    pub count: u32,
    /// The greeting; may be empty.
    pub greeting: String,
    /// When grabs begin; `None`: at once.
    pub starts_at: Option<Timestamp>,
    /// How long it can be grabbed, from its start on.
    pub expires_in: Duration,
    /// The passphrase that a grabber must give, if any.
    pub passphrase: Option<Passphrase>,
    /// The only users who may grab it, if any are named.
    pub recipients: Option<BTreeSet<UserId>>,
    /// Whether only users with a ticket may grab it.
    pub wants_ticket: bool,
    /// What one user wins at most of it and others together, if that is limited.
    pub limit: Option<WinLimit>,
    /// What the sender's app writes on it.
    pub labels: Labels,
}

/// How a send ended.
#[derive(Clone, Debug)]
pub enum SendOutcome {
    /// The packet is paid for, and can be grabbed.
    Sent(Arc<Terms>),
    /// This key sent this packet before; no money moved.
    Replayed(Arc<Terms>),
    /// This key sent another packet before.
    KeyReused,
    /// The wallet can't pay.
    InsufficientBalance,
    /// The sender is suspended.
    Suspended,
    /// The sender would have sent too much on this day.
    DailyLimitExceeded {
        /// The most that they can send in a day.
        most: Amount,
        /// When the next day begins.
        resets_at: Timestamp,
    },
    /// The operator has paused sending.
    Paused,
    /// The packet wants tickets, and here are no keys that could check one.
    NoTicketKeys,
    /// The packet has a limit of wins, which only the ledger keeps, and here winners are answered before it has their claim.
    LimitNeedsLedger,
    /// The start is past, or more than [`Limits::START_AHEAD_MAX`] ahead.
    StartOutOfRange,
}

/// The use case of a user who sends a packet.
pub struct SendPacket<T, H> {
    stores: Stores<T, H>,
    loader: Loader<T, H>,
    policy: SendPolicy,
}

impl<T: Table, H: HotStore> SendPacket<T, H> {
    /// Sends packets into these stores.
    pub fn new(stores: Stores<T, H>, policy: SendPolicy) -> Self {
        Self { loader: Loader::new(stores.clone()), stores, policy }
    }

    /// What can be sent.
    pub const fn limits(&self) -> &Limits {
        &self.policy.limits
    }

    /// Pays for a packet and opens it, once for each key, however often it is called.
    pub async fn send(&self, request: NewPacket, key: &IdempotencyKey) -> Result<SendOutcome, Failure> {
        let body_hash = body_hash(&request, key);
        let starts_at = request.starts_at;
        let terms = self.terms(request);
        let amounts = amounts(&terms)?;
        let (limits, sending) =
            futures::try_join!(self.stores.ledger.limits(&terms.sender), self.stores.ledger.sending())?;
        let own = limits.and_then(|limits| limits.daily_sent_max);
        let daily_limit = own.or(self.policy.daily_max);
        let daily_limit = daily_limit.map(|most| DailyLimit { most, zone: self.policy.day_zone.clone() });
        let daily_limit = daily_limit.as_ref();
        let request = ledger::SendRequest { terms: &terms, amounts: &amounts, key, body_hash, daily_limit };
        crash_point!("send.before_ledger");
        // A repeated send is answered as before, however late it comes.
        let is_in_range = |at| at > terms.created_at && at <= terms.created_at.after(Limits::START_AHEAD_MAX);
        let refused = if sending.is_some_and(|decision| decision.paused) {
            Some(SendOutcome::Paused)
        } else if terms.id.wants_ticket() && self.stores.ticket_keys.is_none() {
            Some(SendOutcome::NoTicketKeys)
        } else if terms.limit.is_some() && terms.ack == AckMode::Redis {
            Some(SendOutcome::LimitNeedsLedger)
        } else if starts_at.is_none_or(is_in_range) {
            None
        } else {
            Some(SendOutcome::StartOutOfRange)
        };
        let outcome = match refused {
            None => self.stores.ledger.send(&request).await?,
            Some(refused) => match self.stores.ledger.sent_before(&request).await? {
                Some(outcome) => outcome,
                None => return Ok(refused),
            },
        };
        match outcome {
            ledger::SendOutcome::Sent => {
                crash_point!("send.after_ledger");
                // The hot store comes after the ledger. If the load fails, the first grab loads the packet.
                if let Err(failure) = self.loader.load_new(&terms).await {
                    tracing::warn!(packet = %terms.id, error = crate::error_chain(&failure), "not loaded at once");
                }
                crash_point!("send.after_load");
                Ok(SendOutcome::Sent(Arc::new(terms)))
            }
            ledger::SendOutcome::Replayed(id) => {
                let terms = self.stores.packets.terms(id).await?;
                let terms =
                    terms.ok_or_else(|| Failure::defect(format!("{id}: a key of a packet that is not there")))?;
                Ok(SendOutcome::Replayed(terms))
            }
            ledger::SendOutcome::KeyReused => Ok(SendOutcome::KeyReused),
            ledger::SendOutcome::InsufficientBalance => Ok(SendOutcome::InsufficientBalance),
            ledger::SendOutcome::Suspended => Ok(SendOutcome::Suspended),
            ledger::SendOutcome::DailyLimitExceeded => {
                let limit = daily_limit.ok_or_else(|| Failure::defect("a daily limit where there is none"))?;
                let resets_at = limit.zone.day_of(terms.created_at).end;
                Ok(SendOutcome::DailyLimitExceeded { most: limit.most, resets_at })
            }
        }
    }

    fn terms(&self, request: NewPacket) -> Terms {
        let mut random = [0; PACKET_ID_RANDOM_BYTES];
        self.stores.entropy.fill(&mut random);
        let mut seed = Seed([0; 32]);
        self.stores.entropy.fill(&mut seed.0);
        let created_at = self.stores.clock.now();
        let id = PacketId::new(created_at, part_count(request.count), random);
        let id = if request.wants_ticket { id.with_ticket() } else { id };
        let id = if request.limit.is_some() { id.with_limit() } else { id };
        let has_guard = request.starts_at.is_some() || request.passphrase.is_some() || request.recipients.is_some();
        let id = if has_guard { id.with_guard() } else { id };
        Terms {
            id,
            sender: request.sender,
            split: request.split,
            split_version: SPLIT_VERSION,
            seed,
            currency: self.policy.currency.clone(),
            total: request.total,
            count: request.count,
            cap: self.policy.limits.slip_amount_max,
            greeting: request.greeting,
            created_at,
            expires_at: request.starts_at.unwrap_or(created_at).after(request.expires_in),
            ack: self.policy.ack,
            guard: Guard {
                starts_at: request.starts_at,
                passphrase: request.passphrase.map(|passphrase| PassphraseDigest::new(id, &passphrase)),
                recipients: request.recipients,
            },
            limit: request.limit,
            labels: request.labels,
        }
    }
}

/// The amounts of each part's slips.
fn amounts(terms: &Terms) -> Result<Vec<Amounts>, Failure> {
    let slips = split(terms.split, terms.total, terms.count, terms.cap, terms.seed)
        .map_err(|error| Failure::defect(format!("a packet within the limits does not split: {error}")))?;
    let part = |range: std::ops::Range<u32>| Amounts::pack(&slips[range.start as usize..range.end as usize]);
    let parts = terms.id.parts().map(|id| part(id.slips(terms.count)));
    parts.collect::<Result<_, _>>().map_err(|error| Failure::defect(error.to_string()))
}

/// A hash of what was asked for, with defaults applied: SHA-256 of a JSON array. It does not depend on how the body was written. Sender
/// and key are part of it, so that equal passphrases don't show as equal hashes.
fn body_hash(request: &NewPacket, key: &IdempotencyKey) -> [u8; 32] {
    let NewPacket { sender, split, total, count, greeting, starts_at, expires_in, passphrase, .. } = request;
    let NewPacket { recipients, wants_ticket, limit, labels, .. } = request;
    let Labels { cover, reference, metadata } = labels;
    let passphrase = passphrase.as_ref().map(Passphrase::as_str);
    let mut asked = json!([
        "hongbao send 1",
        sender,
        key,
        split,
        total,
        count,
        greeting,
        expires_in.as_secs(),
        starts_at,
        passphrase,
        recipients,
        cover,
        reference,
        metadata,
    ]);
    // Earlier sends must keep their hashes, so a ticket and a limit only add to them.
    if let Some(parts) = asked.as_array_mut() {
        parts.extend(wants_ticket.then(|| "ticket".into()));
        parts.extend(limit.iter().map(|WinLimit { key, wins, amount }| json!([key, wins, amount])));
    }
    Sha256::digest(asked.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::memory::{MemoryHot, MemoryTable};
    use crate::ports::{Clock, System};

    const NOW: Timestamp = Timestamp::from_ms(1_795_181_400_000);

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            NOW
        }
    }

    fn limits() -> Limits {
        Limits { slip_amount_max: Amount::new(1_000_000), ..Limits::default() }
    }

    /// The use case at [`NOW`], and a sender who can pay.
    async fn sender() -> SendPacket<MemoryTable, MemoryHot> {
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let packet = wanted();
        ledger.deposit(&packet.sender, &"d".parse().unwrap(), Amount::new(1_000_000), None, NOW).await.unwrap();
        let stores =
            Stores::new(ledger, Arc::new(MemoryHot::in_memory(Arc::new(Still))), Arc::new(Still), Arc::new(System));
        let policy = SendPolicy {
            currency: "CNY".to_owned(),
            ack: AckMode::Ledger,
            limits: limits(),
            daily_max: None,
            day_zone: DayZone::UTC,
        };
        SendPacket::new(stores, policy)
    }

    #[tokio::test]
    async fn a_start_comes_after_now_and_at_most_seven_days_later() {
        let send = sender().await;
        let last = NOW.after(Limits::START_AHEAD_MAX);
        let starts = [
            (Timestamp::from_ms(NOW.ms() - 1), false),
            (NOW, false),
            (Timestamp::from_ms(NOW.ms() + 1), true),
            (last, true),
            (Timestamp::from_ms(last.ms() + 1), false),
        ];
        for (starts_at, is_in_range) in starts {
            let key = format!("k{}", starts_at.ms()).parse().unwrap();
            let outcome = send.send(NewPacket { starts_at: Some(starts_at), ..wanted() }, &key).await.unwrap();
            let refused = matches!(outcome, SendOutcome::StartOutOfRange);
            assert_eq!(matches!(outcome, SendOutcome::Sent(_)), is_in_range, "{starts_at:?}: {outcome:?}");
            assert_eq!(refused, !is_in_range, "{starts_at:?}");
        }
    }

    #[tokio::test]
    async fn its_limits_are_those_of_the_deployment() {
        assert_eq!(sender().await.limits(), &limits());
    }

    fn wanted() -> NewPacket {
        NewPacket {
            sender: "alice".parse().unwrap(),
            split: Split::Random,
            total: Amount::new(1_000),
            count: 3,
            greeting: "恭喜".to_owned(),
            expires_in: Duration::from_hours(24),
            passphrase: Some(Passphrase::new("abc")),
            recipients: Some(["bob", "ann"].map(|user| user.parse().unwrap()).into()),
            wants_ticket: false,
            starts_at: None,
            limit: None,
            labels: Labels::default(),
        }
    }

    fn hash(packet: &NewPacket) -> String {
        hex::encode(body_hash(packet, &"k1".parse().unwrap()))
    }

    /// Otherwise a send would not be recognised if it is repeated after an upgrade. The values are `hashlib.sha256` of the text that
    /// Python's `json.dumps` writes for such an array.
    #[test]
    fn a_send_is_hashed_as_documented() {
        assert_eq!(hash(&wanted()), "9b473cc3d74debbfefdd408f0e6822a2b4143b95efa98278233c8a2c3652d9d3");
        assert_eq!(
            hash(&NewPacket { wants_ticket: true, ..wanted() }),
            "c6e518032c1df18361c9757fbf77178cce1f1f6b62fb8ceba74ae743b7e342bf"
        );
        let labels = Labels {
            cover: Some("spring".parse().unwrap()),
            reference: Some("order-17".parse().unwrap()),
            metadata: Some([("k".to_owned(), "v".to_owned())].into()),
        };
        assert_eq!(
            hash(&NewPacket { labels, ..wanted() }),
            "f02578e4becace09ac6c7fbc6a535a9c538fd9c2948a37f933f080835cfa0cfa"
        );
    }

    #[test]
    fn no_two_sends_have_the_same_hash() {
        let labels = |cover: Option<&str>, reference: Option<&str>, metadata: Option<&[(&str, &str)]>| Labels {
            cover: cover.map(|text| text.parse().unwrap()),
            reference: reference.map(|text| text.parse().unwrap()),
            metadata: metadata.map(|pairs| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
        };
        let with = |labels: Labels| NewPacket { labels, ..wanted() };
        let users = |users: &[&str]| {
            let recipients = Some(users.iter().map(|user| user.parse().unwrap()).collect());
            NewPacket { recipients, ..wanted() }
        };
        let sends = [
            wanted(),
            users(&["ann", "bob", "cover", "spring"]),
            NewPacket { recipients: None, ..wanted() },
            NewPacket { wants_ticket: true, ..wanted() },
            NewPacket { starts_at: Some(Timestamp::from_ms(1)), ..wanted() },
            NewPacket { starts_at: Some(Timestamp::from_ms(2)), ..wanted() },
            with(labels(Some("spring"), None, None)),
            with(labels(None, Some("spring"), None)),
            with(labels(None, None, Some(&[]))),
            with(labels(None, None, Some(&[("a", "b")]))),
            with(labels(None, None, Some(&[("a", ""), ("b", "")]))),
            with(labels(None, None, Some(&[("#cover", "spring")]))),
            with(labels(Some("spring"), None, Some(&[("#reference", "x")]))),
            with(labels(Some("spring"), Some("x"), None)),
        ];
        let hashes: BTreeSet<String> = sends.iter().map(hash).collect();
        assert_eq!(hashes.len(), sends.len());
    }
}
