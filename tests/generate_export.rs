//! Writes a folder as `DynamoDB`'s full export of a ledger would be, with any number of movements, to measure the journal.
//!
//! `generate-export FOLDER MOVEMENTS DAY`: a tenth of the movements is before the day, a twentieth after it. Packets have 100
//! slips: 95 are claimed, one transaction refunds the others.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use shared::domain::{PacketId, Timestamp};

const FILES: usize = 16;
const SLIPS: u64 = 100;
const CLAIMED: u64 = 95;
const AMOUNT: u64 = 520;
/// A deposit, a debit, a refund, and the claims; every second packet's sender withdraws the refund.
const MOVEMENTS_OF_TWO_PACKETS: u64 = 2 * (3 + CLAIMED) + 1;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const EXPORT_ID: &str = "01795478400000-2d8752fd";

/// The data files. As in an export, all items of a partition key are in one file.
struct Export {
    folder: PathBuf,
    files: Vec<(String, BufWriter<GzEncoder<File>>, u64)>,
}

impl Export {
    fn new(folder: &Path) -> Self {
        create_dir_all(folder.join("data")).unwrap();
        let file = |n| {
            let name = format!("{n:026}.json.gz");
            let file = File::create(folder.join("data").join(&name)).unwrap();
            (name, BufWriter::with_capacity(1 << 18, GzEncoder::new(file, Compression::fast())), 0)
        };
        Self { folder: folder.to_owned(), files: (0..FILES).map(file).collect() }
    }

    fn item(&mut self, pk: &str, sk: &str, attributes: std::fmt::Arguments) {
        let hash = pk.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let (_, file, count) = &mut self.files[hash % FILES];
        writeln!(file, r#"{{"Item":{{"PK":{{"S":"{pk}"}},"SK":{{"S":"{sk}"}},{attributes}}}}}"#).unwrap();
        *count += 1;
    }

    /// Ends the files and writes the manifests. Checksums are left out: the journal takes gzip's own.
    fn close(self, at: u64) {
        let (mut total, mut lines) = (0, String::new());
        for (name, file, count) in self.files {
            file.into_inner().unwrap().finish().unwrap();
            total += count;
            let key = format!("AWSDynamoDB/{EXPORT_ID}/data/{name}");
            lines += &json!({"itemCount": count, "dataFileS3Key": key}).to_string();
            lines += "\n";
        }
        std::fs::write(self.folder.join("manifest-files.json"), lines).unwrap();
        let summary = json!({
            "version": "2020-06-30",
            "exportArn": format!("arn:aws:dynamodb:eu-west-1:123456789012:table/hongbao/export/{EXPORT_ID}"),
            "exportTime": Timestamp::from_ms(at).to_string(),
            "itemCount": total,
            "outputFormat": "DYNAMODB_JSON",
            "exportType": "FULL_EXPORT",
        });
        std::fs::write(self.folder.join("manifest-summary.json"), summary.to_string()).unwrap();
        println!("{total} items in {FILES} files");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, movements, day] = &arguments[..] else { panic!("generate-export FOLDER MOVEMENTS DAY") };
    let day: Date = day.parse().unwrap();
    let day: u64 = day.to_zoned(TimeZone::UTC).unwrap().timestamp().as_millisecond().try_into().unwrap();
    let packets = movements.parse::<u64>().unwrap().div_ceil(MOVEMENTS_OF_TWO_PACKETS) * 2;
    let users = usize::try_from(packets * 10).unwrap();
    let mut balances = vec![0_u64; users];
    let mut dice = StdRng::seed_from_u64(1);
    let mut export = Export::new(Path::new(folder));
    for number in 0..packets {
        // From 10 % of a day before the day to 5 % after it.
        let at = day - DAY_MS / 10 + number * (DAY_MS * 115 / 100) / packets;
        let packet = PacketId::new(Timestamp::from_ms(at), 1, dice.random());
        send(&mut export, packet, number, at);
        let first = dice.random_range(0..users);
        for slip in 0..SLIPS {
            let (group, later) = (slip / 64, at + slip);
            let pk = format!("SLIPS#{packet}#{group}");
            if slip >= CLAIMED {
                let of = at + 1_000;
                export.item(
                    &pk,
                    &format!("{slip:06}"),
                    format_args!(r#""slip":{{"N":"{slip}"}},"amount":{{"N":"{AMOUNT}"}},"at":{{"N":"{of}"}}"#),
                );
                continue;
            }
            let winner = (first + usize::try_from(slip).unwrap() * 7) % users;
            balances[winner] += AMOUNT;
            export.item(&pk, &format!("{slip:06}"), format_args!(r#""slip":{{"N":"{slip}"}},"user_id":{{"S":"user-{winner}"}},"amount":{{"N":"{AMOUNT}"}},"at":{{"N":"{later}"}}"#));
            export.item(&format!("USER#user-{winner}"), &format!("CLAIM#{packet}"), format_args!(r#""packet_id":{{"S":"{packet}"}},"slip":{{"N":"{slip}"}},"amount":{{"N":"{AMOUNT}"}},"at":{{"N":"{later}"}},"sender_id":{{"S":"sender-{number}"}},"greeting":{{"S":"恭喜发财，大吉大利"}}"#));
        }
    }
    for (user, balance) in balances.into_iter().enumerate().filter(|(_, balance)| *balance > 0) {
        export.item(
            &format!("USER#user-{user}"),
            "WALLET",
            format_args!(
                r#""balance":{{"N":"{balance}"}},"claim_count":{{"N":"{}"}},"claim_amount":{{"N":"{balance}"}}"#,
                balance / AMOUNT
            ),
        );
    }
    export.close(day + 2 * DAY_MS);
}

/// A deposit, refund or withdrawal, and its copy in the user's timeline.
fn listed(export: &mut Export, pk: &str, kind: &str, name: &str, at: u64, attributes: &str) {
    let attributes = format!(r#"{attributes},"at":{{"N":"{at}"}}"#);
    export.item(pk, &format!("{kind}#{name}"), format_args!("{attributes}"));
    export.item(pk, &format!("AT#{kind}#{at:013}#{name}"), format_args!("{attributes}"));
}

/// The sender's items, and the packet's own.
fn send(export: &mut Export, packet: PacketId, number: u64, at: u64) {
    let (total, back) = (SLIPS * AMOUNT, (SLIPS - CLAIMED) * AMOUNT);
    let (pk, expired) = (format!("USER#sender-{number}"), at + 1_000);
    let mut left = back;
    listed(export, &pk, "DEPOSIT", "first", at, &format!(r#""id":{{"S":"first"}},"amount":{{"N":"{total}"}}"#));
    export.item(
        &pk,
        &format!("SENT#{packet}"),
        format_args!(r#""packet_id":{{"S":"{packet}"}},"amount":{{"N":"{total}"}},"at":{{"N":"{at}"}}"#),
    );
    export.item(&pk, "KEY#first", format_args!(r#""packet_id":{{"S":"{packet}"}},"body_hash":{{"S":"00"}}"#));
    let refund = format!(
        r#""packet_id":{{"S":"{packet}"}},"slip_count":{{"N":"{}"}},"amount":{{"N":"{back}"}}"#,
        SLIPS - CLAIMED
    );
    listed(export, &pk, "REFUND", &format!("{packet}#{CLAIMED:06}"), expired, &refund);
    if number.is_multiple_of(2) {
        left = 0;
        let withdrawal = format!(r#""id":{{"S":"back"}},"amount":{{"N":"{back}"}}"#);
        listed(export, &pk, "WITHDRAW", "back", expired, &withdrawal);
    }
    export.item(
        &pk,
        "WALLET",
        format_args!(r#""balance":{{"N":"{left}"}},"sent_count":{{"N":"1"}},"sent_amount":{{"N":"{total}"}}"#),
    );
    export.item(&format!("PACKET#{packet}"), "META", format_args!(r#""packet_id":{{"S":"{packet}"}},"sender_id":{{"S":"sender-{number}"}},"split":{{"S":"random"}},"split_version":{{"N":"1"}},"seed":{{"S":"{number:064x}"}},"currency":{{"S":"CNY"}},"total_amount":{{"N":"{total}"}},"slip_count":{{"N":"{SLIPS}"}},"slip_cap":{{"N":"20000"}},"greeting":{{"S":"恭喜发财，大吉大利"}},"created_at":{{"N":"{at}"}},"expires_at":{{"N":"{expired}"}},"ack":{{"S":"ledger"}},"status":{{"S":"settled"}}"#));
    let amounts = "CAIIAggC".repeat(32);
    export.item(&format!("PART#{packet}#0"), "AMOUNTS", format_args!(r#""amounts":{{"B":"{amounts}"}}"#));
}
