//! Verifies a packet against its seed, offline, from the answer to `GET /packets/{id}` and its claims.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use shared::domain::{Amount, SPLIT_VERSION, Seed, Split, commitment, split};

use crate::deployment::Failed;
use crate::options::Verify;
use crate::text::columns;
use crate::{Exit, Outcome};

/// The largest file that is read: well above the claims of the largest packet.
const BYTES_MAX: u64 = 64 << 20;

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
struct Verdict {
    packet_id: String,
    fair: bool,
    commitment: String,
    faults: Vec<String>,
    slips: Vec<Slip>,
}

#[derive(Debug, Serialize)]
struct Slip {
    #[serde(rename = "slip")]
    index: u32,
    computed: u64,
    paid: Option<u64>,
    user_id: Option<String>,
}

/// Verifies a packet.
pub fn run(options: &Verify, json: bool) -> Result<Outcome, Failed> {
    let verdict = verify(&read(options)?)?;
    let exit = if verdict.fair { Exit::Good } else { Exit::Wrong };
    Ok(Outcome::new(json, &verdict, || verdict.in_words(), exit))
}

fn read(options: &Verify) -> Result<String, Failed> {
    let mut text = String::new();
    let unreadable = |error: io::Error| Failed::Unverifiable(format!("the packet can't be read: {error}"));
    if options.file.as_os_str() == "-" {
        io::stdin().take(BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    } else {
        let file = File::open(&options.file).map_err(unreadable)?;
        file.take(BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    }
    Ok(text)
}

fn verify(text: &str) -> Result<Verdict, Failed> {
    let unverifiable = Failed::Unverifiable;
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
    let slips: Vec<Slip> = (0..)
        .zip(amounts)
        .map(|(slip, &computed)| {
            let claim = claims.get(&slip);
            let user_id = claim.map(|claim| claim.user_id.clone());
            Slip { index: slip, computed, paid: claim.map(|claim| claim.amount), user_id }
        })
        .collect();
    for Slip { index: slip, computed, paid, .. } in &slips {
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

impl Verdict {
    fn in_words(&self) -> String {
        let rows = self.slips.iter().map(|Slip { index, computed, paid, user_id }| {
            let paid = paid.map_or_else(|| "-".to_owned(), |paid| paid.to_string());
            vec![index.to_string(), computed.to_string(), paid, user_id.clone().unwrap_or_default()]
        });
        let slips = columns(&["slip", "computed", "paid", "user"], rows);
        let verdict = match self.faults.len() {
            0 => "fair: the amounts were fixed before the first grab, and paid as fixed".to_owned(),
            count => format!("not proved: {count} faults\n  {}", self.faults.join("\n  ")),
        };
        format!("{slips}\n\n{verdict}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// 100.00 in 10 random slips, with the bytes 0, 1, 2… as the seed. The last slip was refunded.
    fn packet() -> Value {
        let amounts = [40, 867, 2_638, 300, 448, 83, 1_878, 1_205, 1_332];
        let claims: Vec<Value> = (0..)
            .zip(amounts)
            .map(|(slip, amount)| json!({"user_id": format!("u{slip}"), "slip": slip, "amount": amount, "best": slip == 2}))
            .collect();
        json!({
            "packet_id": "38FS4S83HF3Y07WMYNH727QYT0", "split": "random", "total_amount": 10_000, "count": 10,
            "status": "settled", "claimed_count": 9, "claimed_amount": 8_791, "refunded_amount": 1_209,
            "split_version": 1, "slip_cap": 20_000,
            "commitment": "4db9665cd845e2f343e1c695d740f724d69abb80dd17b0cddb43178e36bcefcc",
            "seed": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "claims": claims,
        })
    }

    fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut packet = packet();
        change(&mut packet);
        verify(&packet.to_string()).unwrap().faults
    }

    #[test]
    fn a_packet_that_was_paid_as_fixed_is_fair() {
        assert_eq!(faults(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_a_fault() {
        let zeros = "0".repeat(64);
        assert!(faults(|packet| packet["commitment"] = zeros.clone().into())[0].starts_with("the seed and the terms"));
        assert!(faults(|packet| packet["seed"] = zeros.into()).len() > 5);
        assert_eq!(faults(|packet| packet["claims"][3]["amount"] = 301.into()).len(), 2, "a slip, and the sum");
        assert_eq!(faults(|packet| packet["claims"][3]["slip"] = 9.into()).len(), 2, "a slip, and the refund");
        assert!(!faults(|packet| packet["claims"][3]["slip"] = 10.into()).is_empty());
        assert!(!faults(|packet| drop(packet["claims"].as_array_mut().unwrap().pop())).is_empty());
        assert_eq!(faults(|packet| packet["refunded_amount"] = 1_208.into()).len(), 1);
        assert_eq!(faults(|packet| packet["claimed_amount"] = 8_790.into()).len(), 1);
        assert_eq!(faults(|packet| packet["split"] = "equal".into()).len(), 11);
        assert_eq!(faults(|packet| packet["slip_cap"] = 19_999.into()).len(), 1, "the commitment covers it");
    }

    #[test]
    fn an_unverifiable_packet_is_not_judged() {
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut packet = packet();
            change(&mut packet);
            verify(&packet.to_string()).unwrap_err().to_string()
        };
        assert_eq!(refused(&|packet| packet["seed"] = Value::Null), "the seed is not revealed yet");
        assert_eq!(refused(&|packet| packet["seed"] = "00".into()), "the seed is not 64 hex digits");
        assert!(refused(&|packet| packet["claims"] = Value::Null).starts_with("not a packet"));
        assert!(refused(&|packet| packet["total_amount"] = 9.into()).starts_with("the total must be"));
        assert_eq!(refused(&|packet| packet["split_version"] = 2.into()), "version 2 of the split is not known");
        assert!(refused(&|packet| packet["slip_cap"] = Value::Null).starts_with("not a packet"));
        assert!(refused(&|packet| packet["slip_cap"] = 999.into()).starts_with("the total must be"));
    }
}
