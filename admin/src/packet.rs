use std::collections::BTreeMap;

use serde::Serialize;
use shared::domain::{Amount, Cover, Decision, Owner, PacketId, Reference, Terms, Timestamp};
use shared::ports::{Clock, System};

use crate::deployment::{Deployed, Failed};
use crate::hot::{HotCounts, HotPart, HotSlip};
use crate::text::{columns, moment};
use crate::{Exit, Outcome};

/// A packet in both stores. While it is open, the output has neither its seed nor the amounts of slips without an
/// owner: with these a reader could wait for certain slips. It never has the digest of a passphrase.
#[derive(Debug, Serialize)]
struct Shown {
    packet_id: PacketId,
    sender_id: String,
    split: &'static str,
    split_version: u8,
    total_amount: Amount,
    slip_count: u32,
    slip_cap: Amount,
    currency: String,
    greeting: String,
    cover: Option<Cover>,
    reference: Option<Reference>,
    metadata: Option<BTreeMap<String, String>>,
    created_at_ms: Timestamp,
    starts_at_ms: Option<Timestamp>,
    expires_at_ms: Timestamp,
    ack: shared::domain::AckMode,
    has_passphrase: bool,
    recipients: Option<usize>,
    commitment: String,
    status: &'static str,
    /// The seed, only of a settled packet.
    seed: Option<String>,
    claimed_count: usize,
    refunded_count: usize,
    undecided_count: usize,
    /// Imbalances that the audit finds in it.
    imbalances: Vec<::audit::Imbalance>,
    parts: Vec<HotCounts>,
    slips: Vec<ShownSlip>,
    /// Slips whose state in Redis contradicts the ledger.
    differences: usize,
}

/// A slip in both stores.
#[derive(Debug, Serialize)]
struct ShownSlip {
    slip: u32,
    amount: Option<Amount>,
    ledger: LedgerSlip,
    redis: HotSlip,
    difference: Option<&'static str>,
}

/// A slip's state in the ledger.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
enum LedgerSlip {
    Claimed { user: String, at_ms: Timestamp },
    Refunded { at_ms: Timestamp },
    Undecided,
}

/// Shows a packet.
pub async fn run(deployed: &Deployed, id: PacketId, json: bool) -> Result<Outcome, Failed> {
    let packet = deployed.stores.ledger.packet(id).await?.ok_or(Failed::NoPacket(id))?;
    let terms = &packet.terms;
    let is_expired = System.now() >= terms.expires_at;
    // Redis is read first, so every decision that it knows is in the ledger when the ledger is read.
    let mut parts = Vec::new();
    for part in id.parts() {
        parts.push((part, HotPart::read(&deployed.connection, part, terms).await?));
    }
    let decisions = deployed.stores.ledger.decisions(id, 0..terms.count).await?;
    let decisions: BTreeMap<u32, Decision> = decisions.into_iter().map(|decision| (decision.slip, decision)).collect();
    let mut slips = Vec::with_capacity(terms.count as usize);
    for (part, hot) in &parts {
        let amounts = if packet.settled.is_some() { Some(deployed.stores.ledger.amounts(*part).await?) } else { None };
        let range = part.slips(terms.count);
        for slip in range.clone() {
            let decision = decisions.get(&slip);
            let place = (slip - range.start) as usize;
            let settled = || amounts.as_ref().and_then(|amounts| amounts.get(place));
            let amount = decision.map(|decision| decision.amount).or_else(settled);
            let redis = hot.slip(slip, is_expired);
            let difference = difference(decision, &redis, hot);
            slips.push(ShownSlip { slip, amount, ledger: LedgerSlip::of(decision), redis, difference });
        }
    }
    let imbalances = deployed.auditor.packet(id).await?.imbalances;
    let counts = parts.iter().map(|(_, hot)| hot.counts()).collect();
    let shown = Shown::new(terms, packet.settled.is_some(), &decisions, imbalances, counts, slips);
    Ok(Outcome::new(json, &shown, || shown.in_words(), Exit::Good))
}

impl LedgerSlip {
    fn of(decision: Option<&Decision>) -> Self {
        match decision {
            None => Self::Undecided,
            Some(decision) => match &decision.owner {
                Owner::User(user) => Self::Claimed { user: user.to_string(), at_ms: decision.at },
                Owner::Refunded => Self::Refunded { at_ms: decision.at },
            },
        }
    }

    fn words(&self) -> [String; 2] {
        match self {
            Self::Claimed { user, at_ms } => [format!("claimed by {user}"), moment(*at_ms)],
            Self::Refunded { at_ms } => ["refunded".to_owned(), moment(*at_ms)],
            Self::Undecided => ["undecided".to_owned(), String::new()],
        }
    }
}

impl HotSlip {
    fn words(&self) -> String {
        match self {
            Self::NotLoaded => "not loaded".to_owned(),
            Self::Free => "free".to_owned(),
            Self::Known => "known".to_owned(),
            Self::Broken => "broken".to_owned(),
            Self::Held { user, at_ms, parked } => {
                let since = moment(Timestamp::from_ms(*at_ms));
                let parked = parked.as_ref().map(|reason| format!(", parked: {reason}")).unwrap_or_default();
                format!("held for {user} since {since}{parked}")
            }
        }
    }
}

/// The contradiction between Redis and the ledger about one slip, if any.
fn difference(decision: Option<&Decision>, redis: &HotSlip, hot: &HotPart) -> Option<&'static str> {
    match (decision, redis) {
        (_, HotSlip::NotLoaded) | (None, HotSlip::Free) => None,
        (_, HotSlip::Broken) => Some("not exactly one of free, held and known"),
        (None, HotSlip::Known) => Some("known in Redis, but the ledger has no such decision"),
        (Some(_), HotSlip::Free | HotSlip::Held { .. }) => Some("Redis does not know the decision"),
        (None, HotSlip::Held { user, at_ms, .. }) => {
            // A hold outlives its part.
            let said = hot.claim_of(user).and_then(|claim| claim.strip_prefix('h'));
            let is_own = said.is_some_and(|said| said.ends_with(&format!(":{at_ms}")));
            (hot.is_loaded() && !is_own).then_some("held for a user with another entry in Redis")
        }
        (Some(decision), HotSlip::Known) => {
            let user = decision.owner.user()?;
            let claim = format!("g{}:{}:{}", decision.slip, decision.amount, decision.at.ms());
            (hot.claim_of(user.as_str()) != Some(&claim)).then_some("the owner's entry in Redis differs")
        }
    }
}

impl Shown {
    fn new(
        terms: &Terms,
        is_settled: bool,
        decisions: &BTreeMap<u32, Decision>,
        imbalances: Vec<::audit::Imbalance>,
        parts: Vec<HotCounts>,
        slips: Vec<ShownSlip>,
    ) -> Self {
        let refunded_count = decisions.values().filter(|decision| decision.owner == Owner::Refunded).count();
        Self {
            packet_id: terms.id,
            sender_id: terms.sender.to_string(),
            split: match terms.split {
                shared::domain::Split::Random => "random",
                shared::domain::Split::Equal => "equal",
            },
            split_version: terms.split_version,
            total_amount: terms.total,
            slip_count: terms.count,
            slip_cap: terms.cap,
            currency: terms.currency.clone(),
            greeting: terms.greeting.clone(),
            cover: terms.labels.cover.clone(),
            reference: terms.labels.reference.clone(),
            metadata: terms.labels.metadata.clone(),
            created_at_ms: terms.created_at,
            starts_at_ms: terms.guard.starts_at,
            expires_at_ms: terms.expires_at,
            ack: terms.ack,
            has_passphrase: terms.guard.passphrase.is_some(),
            recipients: terms.guard.recipients.as_ref().map(std::collections::BTreeSet::len),
            commitment: hex::encode(terms.commitment()),
            status: if is_settled { "settled" } else { "open" },
            seed: is_settled.then(|| hex::encode(terms.seed.0)),
            claimed_count: decisions.len() - refunded_count,
            refunded_count,
            undecided_count: terms.count as usize - decisions.len(),
            imbalances,
            parts,
            differences: slips.iter().filter(|slip| slip.difference.is_some()).count(),
            slips,
        }
    }

    fn in_words(&self) -> String {
        let guard = match (self.has_passphrase, self.recipients) {
            (false, None) => "none".to_owned(),
            (true, None) => "a passphrase".to_owned(),
            (false, Some(count)) => format!("{count} recipients"),
            (true, Some(count)) => format!("a passphrase, {count} recipients"),
        };
        let audit = match self.imbalances.len() {
            0 => "in order".to_owned(),
            wrong => format!("{wrong} imbalances: run hongbao-admin audit"),
        };
        let mut rows = vec![
            ("packet", format!("{}, {}", self.packet_id, self.status)),
            ("sender", self.sender_id.clone()),
            ("total", format!("{} {} in {} slips", self.total_amount, self.currency, self.slip_count)),
            ("split", format!("{} (version {}), at most {} a slip", self.split, self.split_version, self.slip_cap)),
            ("greeting", self.greeting.clone()),
            ("created", moment(self.created_at_ms)),
            ("starts", self.starts_at_ms.map_or_else(|| "at once".to_owned(), moment)),
            ("expires", moment(self.expires_at_ms)),
            ("guard", guard),
            ("commitment", self.commitment.clone()),
        ];
        rows.extend(self.cover.as_ref().map(|cover| ("cover", cover.to_string())));
        rows.extend(self.reference.as_ref().map(|reference| ("reference", reference.to_string())));
        rows.extend(self.metadata.iter().flatten().map(|(key, value)| ("metadata", format!("{key:?}: {value:?}"))));
        rows.extend(self.seed.clone().map(|seed| ("seed", seed)));
        let (claimed, refunded, undecided) = (self.claimed_count, self.refunded_count, self.undecided_count);
        rows.push(("ledger", format!("{claimed} claimed, {refunded} refunded, {undecided} undecided; {audit}")));
        for (index, HotCounts { loaded, free, held, known }) in self.parts.iter().enumerate() {
            let loaded = if *loaded { "loaded" } else { "not loaded" };
            let words = format!("{loaded}: {free} free, {held} held, {known} known");
            rows.push(("redis", if self.parts.len() > 1 { format!("part {index} {words}") } else { words }));
        }
        let terms = columns(&[], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]));
        let slips = columns(&["slip", "amount", "ledger", "at", "redis", ""], self.slips.iter().map(ShownSlip::row));
        let differences = match self.differences {
            0 => "no differences".to_owned(),
            count => format!("{count} differences"),
        };
        format!("{terms}\n\n{slips}\n\n{differences}")
    }
}

impl ShownSlip {
    fn row(&self) -> Vec<String> {
        let [ledger, at] = self.ledger.words();
        let amount = self.amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string());
        let difference = self.difference.map(|difference| format!("<> {difference}")).unwrap_or_default();
        vec![self.slip.to_string(), amount, ledger, at, self.redis.words(), difference]
    }
}
