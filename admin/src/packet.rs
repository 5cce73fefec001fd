use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use shared::domain::{Amount, Decision, Owner, PacketId, Status};
use shared::ports::{Clock, System};

use crate::deployment::{Deployed, Failed};
use crate::hot::{HotPart, HotSlip};
use crate::text::{fields, table};
use crate::{Exit, Outcome};

/// The fields of a packet, in the order of the text.
const SHOWN: &str = "packet_id status sender_id total_amount currency slip_count split split_version slip_cap greeting cover \
    reference metadata created_at starts_at expires_at closed_at close_reason ack has_passphrase recipients eligibility commitment seed \
    claimed_count refunded_count undecided_count parts imbalances differences";

/// A slip in both stores.
#[derive(Debug, Serialize)]
struct Row {
    slip: u32,
    amount: Option<Amount>,
    ledger: String,
    at: Option<String>,
    redis: String,
    difference: Option<String>,
}

/// Shows a packet in both stores. While it is open, the output has neither its seed nor the amounts of slips without an owner: with these
/// a reader could wait for certain slips. It never has the digest of a passphrase.
pub async fn run(deployed: &Deployed, id: PacketId, json: bool) -> Result<Outcome, Failed> {
    let packet = deployed.stores.ledger.packet(id).await?.ok_or_else(|| Failed::no_packet(id))?;
    let (terms, is_settled) = (&packet.terms, packet.settled.is_some());
    let now = System.now();
    let is_expired = now >= terms.expires_at;
    // Redis is read first, so every decision that it knows is in the ledger when the ledger is read.
    let mut parts = Vec::new();
    for part in id.parts() {
        parts.push((part, HotPart::read(&deployed.connection, part, terms).await?));
    }
    let decisions = deployed.stores.ledger.decisions(id, 0..terms.count).await?;
    let decisions: BTreeMap<u32, Decision> = decisions.into_iter().map(|decision| (decision.slip, decision)).collect();
    let mut slips = Vec::with_capacity(terms.count as usize);
    for (part, hot) in &parts {
        let amounts = if is_settled { Some(deployed.stores.ledger.amounts(*part).await?) } else { None };
        for (place, slip) in part.slips(terms.count).enumerate() {
            let decision = decisions.get(&slip);
            let settled = || amounts.as_ref().and_then(|amounts| amounts.get(place));
            let redis = hot.slip(slip, is_expired || packet.closed.is_some());
            let ledger = match decision.map(|decision| &decision.owner) {
                None => "undecided".to_owned(),
                Some(Owner::User(user)) => format!("claimed by {user}"),
                Some(Owner::Refunded) => "refunded".to_owned(),
            };
            slips.push(Row {
                slip,
                amount: decision.map(|decision| decision.amount).or_else(settled),
                ledger,
                at: decision.map(|decision| decision.at.to_string()),
                difference: difference(decision, &redis, hot).map(|difference| format!("<> {difference}")),
                redis: redis.to_string(),
            });
        }
    }
    let imbalances = deployed.auditor.packet(id).await?.imbalances;
    let refunded_count = decisions.values().filter(|decision| decision.owner == Owner::Refunded).count();
    let claimed_count = u32::try_from(decisions.len() - refunded_count).unwrap_or(u32::MAX);
    let shown = json!({
        "packet_id": id,
        "status": Status::of(terms, &packet.end(is_expired), claimed_count, now),
        "closed_at": packet.closed.as_ref().map(|closing| closing.at.to_string()),
        "close_reason": packet.closed.as_ref().map(|closing| &closing.reason),
        "sender_id": terms.sender,
        "total_amount": terms.total,
        "currency": terms.currency,
        "slip_count": terms.count,
        "split": terms.split,
        "split_version": terms.split_version,
        "slip_cap": terms.cap,
        "greeting": terms.greeting,
        "cover": terms.labels.cover,
        "reference": terms.labels.reference,
        "metadata": terms.labels.metadata,
        "created_at": terms.created_at.to_string(),
        "starts_at": terms.guard.starts_at.map(|at| at.to_string()),
        "expires_at": terms.expires_at.to_string(),
        "ack": terms.ack,
        "has_passphrase": terms.guard.passphrase.is_some(),
        "eligibility": terms.id.wants_ticket().then_some("ticket"),
        "recipients": terms.guard.recipients.as_ref().map(std::collections::BTreeSet::len),
        "commitment": hex::encode(terms.commitment()),
        "seed": is_settled.then(|| hex::encode(terms.seed.0)),
        "claimed_count": claimed_count,
        "refunded_count": refunded_count,
        "undecided_count": terms.count as usize - decisions.len(),
        "parts": parts.iter().map(|(_, hot)| hot.counts()).collect::<Vec<_>>(),
        "imbalances": imbalances,
        "differences": slips.iter().filter(|slip| slip.difference.is_some()).count(),
        "slips": slips,
    });
    Ok(Outcome::new(json, &shown, || in_words(&shown), Exit::Good))
}

fn in_words(shown: &Value) -> String {
    let slips = table(&shown["slips"], "slip amount ledger at redis difference");
    format!("{}\n\n{slips}", fields(shown, SHOWN))
}

/// The contradiction between Redis and the ledger about one slip, if any.
fn difference(decision: Option<&Decision>, redis: &HotSlip, hot: &HotPart) -> Option<&'static str> {
    match (decision, redis) {
        (_, HotSlip::NotLoaded) | (None, HotSlip::Free | HotSlip::Held(_)) => None,
        (_, HotSlip::Broken) => Some("not exactly one of free, held and known"),
        (None, HotSlip::Known) => Some("known in Redis, but the ledger has no such decision"),
        (Some(_), HotSlip::Free | HotSlip::Held(_)) => Some("Redis does not know the decision"),
        (Some(decision), HotSlip::Known) => {
            let user = decision.owner.user()?;
            let claim = format!("g{}:{}:{}", decision.slip, decision.amount, decision.at.ms());
            (hot.claim_of(user.as_str()) != Some(&claim)).then_some("the owner's entry in Redis differs")
        }
    }
}
