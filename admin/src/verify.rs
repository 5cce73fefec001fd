//! Verifies a packet against its seed, offline, from the answer to `GET /packets/{id}` and its claims.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use shared::domain::{Amount, SPLIT_VERSION, Seed, Split, commitment, split};

use crate::deployment::{Failed, in_file};
use crate::options::Verify;
use crate::text::{fields, table};
use crate::{Exit, Outcome};

/// A packet as the API shows it, with all its claims. Other fields of the API are not needed here.
#[derive(Deserialize)]
struct Packet {
    #[serde(rename = "packet_id")]
    id: String,
    split: Split,
    total_amount: Amount,
    count: u32,
    status: String,
    split_version: u8,
    slip_cap: Amount,
    commitment: String,
    seed: Option<String>,
    claimed_count: usize,
    claimed_amount: u64,
    refunded_amount: u64,
    claims: Vec<Claim>,
}

#[derive(Clone, Deserialize)]
struct Claim {
    user_id: String,
    slip: u32,
    amount: u64,
}

/// The result.
#[derive(Debug, Serialize)]
pub struct Verdict {
    packet_id: String,
    fair: bool,
    commitment: String,
    pub faults: Vec<String>,
    slips: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    slip: u32,
    computed: u64,
    paid: Option<u64>,
    user_id: Option<String>,
}

/// Verifies a packet. The file `-` is the standard input.
pub fn run(Verify { file }: &Verify, json: bool) -> Result<Outcome, Failed> {
    let read = if file.as_os_str() == "-" { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(file) };
    let verdict = verify(&read.map_err(in_file(file))?)?;
    let exit = if verdict.fair { Exit::Good } else { Exit::Wrong };
    let in_words = || {
        let slips = table(&verdict.slips, "slip computed paid user_id");
        let faults = verdict.faults.join("\n");
        format!("{slips}\n\n{}\n{faults}", fields(&verdict, "packet_id commitment fair"))
    };
    Ok(Outcome::new(json, &verdict, in_words, exit))
}

pub fn verify(text: &str) -> Result<Verdict, Failed> {
    let unverifiable = Failed::Refused;
    let packet: Packet = serde_json::from_str(text).map_err(|error| unverifiable(format!("not a packet: {error}")))?;
    if packet.split_version != SPLIT_VERSION {
        return Err(unverifiable(format!("version {} of the split is not known", packet.split_version)));
    }
    let seed = packet.seed.as_deref().ok_or_else(|| unverifiable("the seed is not revealed yet".to_owned()))?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(seed, &mut bytes).map_err(|_| unverifiable("the seed is not 64 hex digits".to_owned()))?;
    let Packet { split: kind, split_version, slip_cap, total_amount, count, .. } = packet;
    let amounts =
        split(kind, total_amount, count, slip_cap, Seed(bytes)).map_err(|error| unverifiable(error.to_string()))?;
    let ours = commitment(split_version, Seed(bytes), total_amount, count, slip_cap, kind);
    Ok(judge(packet, &amounts, hex::encode(ours)))
}

fn judge(packet: Packet, amounts: &[u64], ours: String) -> Verdict {
    let mut faults = Vec::new();
    if ours != packet.commitment {
        faults.push(format!("the seed and the terms give the commitment {ours}, not {}", packet.commitment));
    }
    let claims: BTreeMap<u32, Claim> = packet.claims.iter().map(|claim| (claim.slip, claim.clone())).collect();
    let beyond = claims.range(packet.count..).count();
    if claims.len() != packet.claims.len() || packet.claims.len() != packet.claimed_count || beyond > 0 {
        let (listed, said) = (packet.claims.len(), packet.claimed_count);
        faults.push(format!("{listed} of {said} claims are listed, {} of different slips", claims.len() - beyond));
    }
    let slips: Vec<Row> = (0..)
        .zip(amounts)
        .map(|(slip, &computed)| {
            let claim = claims.get(&slip);
            let user_id = claim.map(|claim| claim.user_id.clone());
            Row { slip, computed, paid: claim.map(|claim| claim.amount), user_id }
        })
        .collect();
    for Row { slip, computed, paid, .. } in &slips {
        if let Some(paid) = paid.filter(|paid| paid != computed) {
            faults.push(format!("slip {slip} has {computed}, but {paid} was paid"));
        }
    }
    let paid: u64 = slips.iter().filter_map(|slip| slip.paid).sum();
    if paid != packet.claimed_amount {
        faults.push(format!("the claims sum to {paid}, not {}", packet.claimed_amount));
    }
    let left: u64 = slips.iter().filter(|slip| slip.paid.is_none()).map(|slip| slip.computed).sum();
    let is_settled = packet.status == "settled";
    if packet.refunded_amount > left || (is_settled && packet.refunded_amount != left) {
        faults.push(format!("the unclaimed slips have {left}, but {} was refunded", packet.refunded_amount));
    }
    Verdict { packet_id: packet.id, fair: faults.is_empty(), commitment: ours, faults, slips }
}
