//! The accounts of a day: `hongbao-admin journal` and `reconcile`, over a real ledger and an export of one.

mod reconcile;
mod spreadsheet;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use serde_json::{Value, json};
use shared::domain::{Amount, MovementFilter, PacketId, Timestamp, WithdrawalRequest};
use tempfile::TempDir;
use tests::books::full_report;
use tests::{Process, World, audit, packet, user, users};

use crate::admin::{Said, admin};

/// A closed day, and the days around it.
const BEFORE: &str = "2025-11-22";
const DAY: &str = "2025-11-23";

/// A small ledger as an export has it. `$P` is a packet's id; the text has every type of `DynamoDB`'s JSON once.
const LEDGER: &str = r#"
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"DEPOSIT#first"},"id":{"S":"first"},"amount":{"N":"10000"},"at":{"N":"1763852400000"}}}
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"KEY#k1"},"packet_id":{"S":"$P"},"body_hash":{"S":"00"}}}
{"Item":{"PK":{"S":"PACKET#$P"},"SK":{"S":"META"},"packet_id":{"S":"$P"},"sender_id":{"S":"ann"},"currency":{"S":"CNY"},"total_amount":{"N":"1000"},"slip_count":{"N":"3"},"greeting":{"S":"\"恭喜\"\n\\ \u53d1\u8d22 🧧"},"created_at":{"N":"1763854200000"},"expires_at":{"N":"1763899000000"},"recipients":{"L":[{"S":"bob"},{"S":"eve"}]},"more":{"M":{"a":{"NULL":true},"b":{"BOOL":false},"c":{"SS":["x","y"]},"d":{"NS":["1"]},"e":{"BS":["AQ=="]}}}}}
{"Item":{"PK":{"S":"PART#$P#0"},"SK":{"S":"AMOUNTS"},"amounts":{"B":"AsgALAH0AQ=="}}}
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"SENT#$P"},"packet_id":{"S":"$P"},"amount":{"N":"1000"},"at":{"N":"1763854200000"}}}
{"Item":{"PK":{"S":"SLIPS#$P#0"},"SK":{"S":"000000"},"slip":{"N":"0"},"user_id":{"S":"bob"},"amount":{"N":"200"},"at":{"N":"1763855999900"}}}
{"Item":{"PK":{"S":"USER#bob"},"SK":{"S":"CLAIM#$P"},"packet_id":{"S":"$P"},"slip":{"N":"0"},"amount":{"N":"200"},"at":{"N":"1763855999900"},"sender_id":{"S":"ann"},"greeting":{"S":""}}}
{"Item":{"PK":{"S":"SLIPS#$P#0"},"SK":{"S":"000001"},"slip":{"N":"1"},"user_id":{"S":"e,\"v\"e"},"amount":{"N":"300"},"at":{"N":"1763856000000"}}}
{"Item":{"PK":{"S":"USER#e,\"v\"e"},"SK":{"S":"CLAIM#$P"},"packet_id":{"S":"$P"},"slip":{"N":"1"},"amount":{"N":"300"},"at":{"N":"1763856000000"},"sender_id":{"S":"ann"},"greeting":{"S":""}}}
{"Item":{"PK":{"S":"SLIPS#$P#0"},"SK":{"S":"000002"},"slip":{"N":"2"},"amount":{"N":"500"},"at":{"N":"1763899200000"}}}
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"REFUND#$P#000002"},"packet_id":{"S":"$P"},"slip_count":{"N":"1"},"amount":{"N":"500"},"at":{"N":"1763899200000"}}}
{"Item":{"PK":{"S":"USER#e,\"v\"e"},"SK":{"S":"WITHDRAW#out-1"},"id":{"S":"out-1"},"amount":{"N":"100"},"at":{"N":"1763942399999"}}}
{"Item":{"PK":{"S":"USER#bob"},"SK":{"S":"DEPOSIT#next"},"id":{"S":"next"},"amount":{"N":"50"},"at":{"N":"1763942400000"}}}
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"WALLET"},"balance":{"N":"9500"},"sent_count":{"N":"1"},"sent_amount":{"N":"1000"}}}
{"Item":{"PK":{"S":"USER#bob"},"SK":{"S":"WALLET"},"balance":{"N":"250"},"claim_count":{"N":"1"},"claim_amount":{"N":"200"}}}
{"Item":{"PK":{"S":"USER#e,\"v\"e"},"SK":{"S":"WALLET"},"balance":{"N":"200"},"claim_count":{"N":"1"},"claim_amount":{"N":"300"}}}
"#;

/// The journal of [`DAY`] in [`LEDGER`].
const ENTRIES: &str = r#"
{"time":"2025-11-23T00:00:00.000Z","kind":"claim","user":"e,\"v\"e","id":"$P","packet":"$P","debit":"packet:$P","credit":"wallet:e,\"v\"e","amount":300,"currency":"CNY"}
{"time":"2025-11-23T12:00:00.000Z","kind":"refund","user":"ann","id":"$P-2","packet":"$P","debit":"packet:$P","credit":"wallet:ann","amount":500,"currency":"CNY"}
{"time":"2025-11-23T23:59:59.999Z","kind":"withdrawal","user":"e,\"v\"e","id":"out-1","packet":null,"debit":"wallet:e,\"v\"e","credit":"external","amount":100,"currency":"CNY"}
"#;
const ENTRIES_AS_CSV: &str = r#"
time,kind,user,id,packet,debit,credit,amount,currency
2025-11-23T00:00:00.000Z,claim,"'e,""v""e",'$P,'$P,packet:$P,"wallet:e,""v""e",300,CNY
2025-11-23T12:00:00.000Z,refund,'ann,'$P-2,'$P,packet:$P,wallet:ann,500,CNY
2025-11-23T23:59:59.999Z,withdrawal,"'e,""v""e",'out-1,,"wallet:e,""v""e",external,100,CNY
"#;

fn of_packet(text: &str) -> String {
    let id = PacketId::new(Timestamp::from_ms(1_763_854_200_000), 1, [7; 10]);
    text.trim_start().replace("$P", &id.to_string())
}

/// The items, and behind each deposit, refund and withdrawal its copy in the user's timeline.
fn with_timelines(lines: &str) -> Vec<String> {
    let copy = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let item = &mut line["Item"];
        let (kind, name) = item["SK"]["S"].as_str()?.split_once('#')?;
        let at = item["at"]["N"].as_str()?;
        let copied = ["DEPOSIT", "REFUND", "WITHDRAW"].contains(&kind);
        let sk = copied.then(|| format!("AT#{kind}#{at:0>13}#{name}"))?;
        item["SK"] = json!({"S": sk});
        Some(line.to_string())
    };
    lines.lines().flat_map(|line| [Some(line.to_owned()), copy(line)]).flatten().collect()
}

/// Writes an export as AWS documents it: two data files, an empty one of an empty partition, and the manifests.
fn export(folder: &Path, lines: &str, at: &str) -> PathBuf {
    let export = folder.join("01693685827463-2d8752fd");
    fs::create_dir_all(export.join("data")).unwrap();
    File::create(export.join("_started")).unwrap();
    let lines = with_timelines(lines);
    let (one, other) = lines.split_at(lines.len() / 2);
    let mut manifest = String::new();
    for (name, lines) in
        [("asdl123dasas", one), ("bafybeiczss3yxay3o4abnabbb", &[]), ("gkes5o3lnrhoznhnkyax3hxvya", other)]
    {
        let path = export.join("data").join(format!("{name}.json.gz"));
        let mut file = File::create(path).unwrap();
        if !lines.is_empty() {
            let mut gzip = BufWriter::new(GzEncoder::new(&mut file, Compression::default()));
            for line in lines {
                writeln!(gzip, "{line}").unwrap();
            }
        }
        let key = format!("2025-Nov/AWSDynamoDB/01693685827463-2d8752fd/data/{name}.json.gz");
        let line = json!({
            "itemCount": lines.len(),
            "md5Checksum": "sQMSpEILNgoQmarvDFonGQ==",
            "etag": "af83d6f217c19b8b0fff8023d8ca4716-1",
            "dataFileS3Key": key,
        });
        manifest += &line.to_string();
        manifest += "\n";
    }
    fs::write(export.join("manifest-files.json"), manifest).unwrap();
    let summary = json!({
        "version": "2020-06-30",
        "exportArn": "arn:aws:dynamodb:us-east-1:123456789012:table/hongbao/export/01693685827463-2d8752fd",
        "startTime": "2025-11-24T00:28:34.028Z",
        "endTime": "2025-11-24T00:33:43.897Z",
        "tableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/hongbao",
        "tableId": "12345a12-abcd-123a-ab12-1234abc12345",
        "exportTime": at,
        "s3Bucket": "hongbao-export",
        "s3Prefix": "2025-Nov",
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": null,
        "manifestFilesS3Key": "2025-Nov/AWSDynamoDB/01693685827463-2d8752fd/manifest-files.json",
        "billedSizeBytes": 0,
        "itemCount": lines.len(),
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "FULL_EXPORT",
    });
    fs::write(export.join("manifest-summary.json"), serde_json::to_string_pretty(&summary).unwrap()).unwrap();
    export
}

/// An attribute value in `DynamoDB`'s JSON.
fn value(json: &Value) -> AttributeValue {
    let (kind, value) = json.as_object().unwrap().iter().next().unwrap();
    let text = || value.as_str().unwrap().to_owned();
    match &**kind {
        "S" => AttributeValue::S(text()),
        "N" => AttributeValue::N(text()),
        "B" => AttributeValue::B(Blob::new(text())),
        "L" => AttributeValue::L(value.as_array().unwrap().iter().map(self::value).collect()),
        "M" => AttributeValue::M(HashMap::new()),
        other => panic!("{other}"),
    }
}

/// Writes these items to the table.
async fn write(world: &World, lines: &str) {
    for line in with_timelines(lines) {
        let line: Value = serde_json::from_str(&line).unwrap();
        let item = line["Item"].as_object().unwrap().iter().map(|(name, json)| (name.clone(), value(json))).collect();
        world.dynamodb.put_item().table_name(world.table()).set_item(Some(item)).send().await.unwrap();
    }
}

/// Folders and files of one test.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn lines(&self, journal: &str) -> Vec<Value> {
        let text = self.read(&format!("{journal}/journal.jsonl"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn summary(&self, journal: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{journal}/summary.json"))).unwrap()
    }

    /// Nothing is left of a journal that could not be written.
    fn has_only(&self, names: &[&str]) {
        let found: BTreeSet<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect());
    }
}

/// Writes the journal of a day in UTC into `output`.
async fn journal(world: &World, day: &str, output: &str, more: &[&str]) -> Said {
    let arguments = ["journal", "--day-zone", "UTC", "--day", day, "--output", output];
    admin(world, &[&arguments, more].concat()).await
}

#[tokio::test]
async fn an_export_and_its_table_have_the_same_journal() {
    let (world, desk, ledger) = (World::single().await, Desk::new(), of_packet(LEDGER));
    let folder = export(desk.0.path(), &ledger, "2025-11-24T00:28:34.028Z");
    let (folder, from_export, from_table) = (folder.to_str().unwrap(), desk.path("a"), desk.path("b"));
    let said = journal(&world, DAY, &from_export, &["--export", folder]).await.with(0);
    assert_eq!(said.line("opening external"), "opening external -10000, packets 800, pending 0, wallets 9200");
    assert_eq!(said.line("claim"), "claim 1 of 200 1 of 300 2 of 500");
    assert_eq!(said.line("closing external"), "closing external -9900, packets 0, pending 0, wallets 9900");
    assert!(said.line("state").contains(", verdict equal, "), "{said:?}");
    assert_eq!(desk.read("a/journal.jsonl"), of_packet(ENTRIES));
    assert_eq!(desk.read("a/journal.csv"), of_packet(ENTRIES_AS_CSV).replace('\n', "\r\n"));
    let summary = desk.summary("a");
    assert_eq!((&summary["final"], &summary["read"]["items"]), (&json!(true), &json!(20)));
    assert_eq!(
        summary["opening"]["accounts"],
        json!({"external": -10_000, "wallets": 9_200, "pending": 0, "packets": 800})
    );
    assert_eq!(
        summary["closing"]["accounts"],
        json!({"external": -9_900, "wallets": 9_900, "pending": 0, "packets": 0})
    );
    assert_eq!(
        summary["state"]["movements"],
        json!({"external": -9_950, "wallets": 9_950, "pending": 0, "packets": 0})
    );

    write(&world, &ledger).await;
    journal(&world, DAY, &from_table, &[]).await.with(0);
    for file in ["journal.jsonl", "journal.csv"] {
        assert_eq!(desk.read(&format!("a/{file}")), desk.read(&format!("b/{file}")), "{file}");
    }
    // The books of a day are not overwritten.
    let again = journal(&world, DAY, &from_table, &[]).await.with(2);
    assert!(again.errors.ends_with("b exists already\n"), "{again:?}");
}

#[tokio::test]
async fn an_incomplete_export_and_an_unfinished_day_are_refused() {
    let (world, ledger) = (World::single().await, of_packet(LEDGER));
    let refused = async |spoil: &dyn Fn(&Path), day: &str, words: &str| {
        let desk = Desk::new();
        let folder = export(desk.0.path(), &ledger, "2025-11-24T00:28:34.028Z");
        spoil(&folder);
        let said = journal(&world, day, &desk.path("out"), &["--export", folder.to_str().unwrap()]).await.with(2);
        assert!(said.errors.contains(words), "{words}: {said:?}");
        desk.has_only(&["01693685827463-2d8752fd"]);
    };
    let one = "data/asdl123dasas.json.gz";
    let change = |folder: &Path, file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(folder.join(file), text.replacen(from, to, 1)).unwrap();
    };
    refused(&|folder| fs::remove_file(folder.join(one)).unwrap(), DAY, "asdl123dasas.json.gz").await;
    let cut = |folder: &Path| {
        let bytes = fs::read(folder.join(one)).unwrap();
        fs::write(folder.join(one), &bytes[..bytes.len() - 9]).unwrap();
    };
    refused(&cut, DAY, "asdl123dasas.json.gz").await;
    let flipped = |folder: &Path| {
        let mut bytes = fs::read(folder.join(one)).unwrap();
        let place = bytes.len() - 6; // in the checksum
        bytes[place] ^= 1;
        fs::write(folder.join(one), bytes).unwrap();
    };
    refused(&flipped, DAY, "asdl123dasas.json.gz").await;
    let swapped = |folder: &Path| {
        fs::copy(folder.join(one), folder.join("data/bafybeiczss3yxay3o4abnabbb.json.gz")).map(drop).unwrap();
    };
    refused(&swapped, DAY, "it has 10 items, but the manifest has 0").await;
    let summary = "manifest-summary.json";
    refused(&|folder| change(folder, summary, "\"itemCount\": 20", "\"itemCount\": 21"), DAY, "but the summary has 21")
        .await;
    refused(&|folder| change(folder, summary, "FULL", "INCREMENTAL"), DAY, "needs a full export").await;
    refused(&|folder| change(folder, summary, "DYNAMODB_JSON", "ION"), DAY, "needs a full export").await;
    refused(&|_| (), "2025-11-24", "2025-11-24 is not over before 2025-11-25T00:10:00.000Z").await;
    // The day is over, but its last holds may not be persisted yet.
    let soon = |folder: &Path| {
        change(folder, summary, "\"exportTime\": \"2025-11-24T00:28", "\"exportTime\": \"2025-11-24T00:09");
    };
    refused(&soon, DAY, "is not over before 2025-11-24T00:10:00.000Z; the data is of 2025-11-24T00:09:34.028Z").await;
}

#[tokio::test]
async fn what_contradicts_itself_is_named() {
    let (world, ledger) = (World::single().await, of_packet(LEDGER));
    let named = async |from: &str, to: &str, expected: &[&str]| {
        let desk = Desk::new();
        let changed = ledger.replacen(from, to, 1);
        assert_ne!(changed, ledger, "{from}");
        let folder = export(desk.0.path(), &changed, "2025-11-26T00:00:00.000Z");
        let said = journal(&world, DAY, &desk.path("out"), &["--export", folder.to_str().unwrap()]).await.with(1);
        let problems = desk.summary("out")["problems"].clone();
        let found: Vec<String> = problems
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| {
                format!("{} {}: {} not {}", problem["kind"], problem["subject"], problem["found"], problem["expected"])
                    .replace('"', "")
            })
            .collect();
        assert_eq!(found, expected, "{said:?}");
        assert_eq!(said.line("problem_count"), format!("problem_count {}", expected.len()));
    };
    let claim = r#""SK":{"S":"000001"},"slip":{"N":"1"},"user_id":{"S":"e,\"v\"e"},"amount":{"N":"300"}"#;
    named(
        claim,
        &claim.replace("300", "301"),
        &["copies slips claimed in the day: 1 of 300 not 1 of 301", "state packets: -1 not 0"],
    )
    .await;
    named(
        r#""SK":{"S":"WALLET"},"balance":{"N":"250"}"#,
        r#""SK":{"S":"WALLET"},"balance":{"N":"251"}"#,
        &["state wallets: 9951 not 9950"],
    )
    .await;
    let other = PacketId::new(Timestamp::from_ms(1_763_854_200_000), 1, [8; 10]).to_string();
    named(
        r#"{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"WALLET"},"balance":{"N":"9500"}"#,
        &OTHER_CURRENCY.trim_start().trim_end().replace("$P", &other),
        &[&format!("currency PACKET#{other} / META: USD not CNY")],
    )
    .await;
    named(
        "WITHDRAW#out-1",
        "REWARD#out-1",
        &[
            r"malformed USER#e,\v\e / REWARD#out-1: something else not a key of this ledger",
            "state wallets: 9950 not 10050",
        ],
    )
    .await;
    named(
        r#""amount":{"N":"100"}"#,
        r#""amount":{"N":"1e2"}"#,
        &[
            r"malformed USER#e,\v\e / WITHDRAW#out-1: something else not amount: a whole number",
            r"malformed USER#e,\v\e / AT#WITHDRAW#1763942399999#out-1: something else not amount: a whole number",
            "state wallets: 9950 not 10050",
        ],
    )
    .await;
    named(
        r#""amount":{"N":"10000"}"#,
        r#""amount":{"N":"100"}"#,
        &["negative wallets at opening: -700 not 0 or more", "state wallets: 9950 not 50"],
    )
    .await;
}

/// A packet in another currency, and the beginning of its sender's wallet.
const OTHER_CURRENCY: &str = r#"
{"Item":{"PK":{"S":"PACKET#$P"},"SK":{"S":"META"},"currency":{"S":"USD"},"total_amount":{"N":"5"},"created_at":{"N":"1763854200000"}}}
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"SENT#$P"},"amount":{"N":"5"},"at":{"N":"1763854200000"}}}
{"Item":{"PK":{"S":"USER#ann"},"SK":{"S":"WALLET"},"balance":{"N":"9495"}
"#;

#[tokio::test]
async fn a_wrong_option_is_refused_before_anything_is_written() {
    let (world, desk) = (World::single().await, Desk::new());
    write(&world, &of_packet(LEDGER)).await;
    for (name, day) in [("before", BEFORE), ("same", DAY)] {
        journal(&world, day, &desk.path(name), &[]).await.with(0);
    }
    let (before, same) = (desk.path("before"), desk.path("same"));
    for (more, words) in [
        (
            &["--previous", &same][..],
            "--previous is the journal of 2025-11-23 in CNY, not of the day before 2025-11-23 in CNY",
        ),
        (
            &["--previous", &before, "--currency", "USD"],
            "--previous is the journal of 2025-11-22 in CNY, not of the day before 2025-11-23 in USD",
        ),
    ] {
        let said = journal(&world, DAY, &desk.path("out"), more).await.with(2);
        assert!(said.errors.ends_with(&format!("error: {words}\n")), "{said:?}");
        desk.has_only(&["before", "same"]);
    }
    journal(&world, DAY, &desk.path("out"), &["--previous", &before]).await.with(0);
}

/// A claim of a slip that was held before midnight and persisted after it.
const LATE: &str = r#"
{"Item":{"PK":{"S":"SLIPS#$P#0"},"SK":{"S":"000002"},"slip":{"N":"2"},"user_id":{"S":"zoe"},"amount":{"N":"500"},"at":{"N":"1763855999950"}}}
{"Item":{"PK":{"S":"USER#zoe"},"SK":{"S":"CLAIM#$P"},"packet_id":{"S":"$P"},"slip":{"N":"2"},"amount":{"N":"500"},"at":{"N":"1763855999950"},"sender_id":{"S":"ann"},"greeting":{"S":""}}}
{"Item":{"PK":{"S":"USER#zoe"},"SK":{"S":"WALLET"},"balance":{"N":"500"},"claim_count":{"N":"1"},"claim_amount":{"N":"500"}}}
"#;

#[tokio::test]
async fn a_claim_that_is_persisted_late_changes_its_own_day_and_the_next_day_says_so() {
    let (world, desk, ledger) = (World::single().await, Desk::new(), of_packet(LEDGER));
    // Before the refund: its slip is still held.
    let refunded = |line: &&str| line.contains("REFUND#") || line.contains("000002");
    let open: Vec<&str> = ledger.lines().filter(|line| !refunded(line)).collect();
    write(&world, &open.join("\n").replace(r#""balance":{"N":"9500"}"#, r#""balance":{"N":"9000"}"#)).await;
    let after = async |previous: &str, name: &str| {
        journal(&world, DAY, &desk.path(name), &["--previous", &desk.path(previous)]).await
    };
    journal(&world, BEFORE, &desk.path("before"), &[]).await.with(0);
    after("before", "day").await.with(0);
    // Written again, a closed day has the same bytes.
    journal(&world, BEFORE, &desk.path("again"), &[]).await.with(0);
    for file in ["journal.jsonl", "journal.csv"] {
        assert_eq!(desk.read(&format!("before/{file}")), desk.read(&format!("again/{file}")));
    }

    write(&world, &of_packet(LATE)).await;
    let said = after("before", "day-2").await.with(1);
    assert_eq!(said.line("previous"), "previous claim before the day 1 of 200 2 of 700");
    // The day's own entries are the same; those of the day before have one more.
    assert_eq!(desk.read("day/journal.jsonl"), desk.read("day-2/journal.jsonl"));
    journal(&world, BEFORE, &desk.path("before-2"), &[]).await.with(0);
    let (old, new) = (desk.lines("before"), desk.lines("before-2"));
    let more: Vec<&Value> = new.iter().filter(|line| !old.contains(line)).collect();
    assert_eq!((new.len(), more.len(), &more[0]["user"]), (old.len() + 1, 1, &json!("zoe")));
    after("before-2", "day-3").await.with(0);
}

/// All movements of a user as the operator's API lists them, in the form of the journal's lines.
async fn movements(process: &Process, name: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..10_000 {
        let slice = process.wallets.movements(&user(name), MovementFilter::default(), after, 7).await.unwrap();
        all.extend(slice.rows.into_iter().map(|movement| {
            json!({
                "time": movement.at.to_string(), "kind": movement.kind.name(), "user": name, "id": movement.id,
                "packet": movement.packet_id.map(|id| id.to_string()), "amount": movement.amount.unsigned_abs(),
            })
        }));
        after = slice.next;
        if after.is_none() {
            return all;
        }
    }
    panic!("{name}'s movements have no end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_of_a_rush_is_that_of_the_audit_and_of_every_wallet() {
    let (world, desk) = (World::single().await, Desk::new());
    let process = world.process();
    let rush = process.send_funded(packet(&user("sam"), 50_000, 100)).await;
    let mut short = packet(&user("sue"), 1_000, 10);
    short.expires_in = Duration::from_millis(500);
    let short = process.send_funded(short).await;
    process.grab(short.id, &user("u0")).await.unwrap();
    let users = users("u", 300);
    for answer in join_all(users.iter().map(|user| process.grab(rush.id, user))).await {
        answer.unwrap();
    }
    for name in ["u0", "sam"] {
        process.fund(&user(name), 77).await;
        process
            .wallets
            .withdraw(&user(name), &WithdrawalRequest::at_once("out".parse().unwrap(), Amount::new(7)), None)
            .await
            .unwrap();
    }
    world.expired(&short).await;
    process.settle().await;
    world.outbox_empties().await;
    let (books, figures) = (audit(&world).await, full_report(&world).await.figures);

    let today = &Timestamp::from_ms(world.now_ms()).to_string()[..10];
    journal(&world, today, &desk.path("refused"), &[]).await.with(2);
    let said = journal(&world, today, &desk.path("out"), &["--unfinished"]).await.with(0);
    let summary = desk.summary("out");
    assert_eq!((said.line("final"), &summary["final"]), ("final false".to_owned(), &json!(false)));
    let external = i128::from(figures.withdrawn) - i128::from(figures.deposited);
    let expected =
        json!({"external": external, "wallets": figures.in_wallets, "pending": 0, "packets": figures.in_slips});
    assert_eq!(summary["closing"]["accounts"], expected);
    let total: i64 = expected.as_object().unwrap().values().map(|balance| balance.as_i64().unwrap()).sum();
    assert_eq!((total, &summary["state"]["verdict"]), (0, &json!("equal")));
    let counts = |kind: &str| summary["entries"][kind]["count"].as_u64().unwrap();
    assert_eq!(["deposit", "sent", "claim", "refund", "withdrawal"].map(counts), [4, 2, 101, 1, 2]);

    // Each movement of each wallet is one entry, and the accounts add up to the balances.
    let (lines, mut listed, mut accounts) = (desk.lines("out"), Vec::new(), BTreeMap::<String, i64>::new());
    for line in &lines {
        let amount = line["amount"].as_i64().unwrap();
        *accounts.entry(line["debit"].as_str().unwrap().to_owned()).or_default() -= amount;
        *accounts.entry(line["credit"].as_str().unwrap().to_owned()).or_default() += amount;
    }
    for (name, balance) in &books.balances {
        assert_eq!(accounts[&format!("wallet:{name}")], i64::try_from(*balance).unwrap(), "{name}");
        listed.extend(movements(&process, name).await);
    }
    let key = |line: &Value| ["time", "kind", "user", "id", "packet", "amount"].map(|name| line[name].to_string());
    let sorted = |lines: &[Value]| lines.iter().map(key).collect::<BTreeSet<_>>();
    assert_eq!((lines.len(), sorted(&lines)), (listed.len(), sorted(&listed)));
    assert_eq!(desk.read("out/journal.csv").lines().count(), lines.len() + 1);
}

/// 9. Journals in a row have each movement once, also where the zone of days was changed between them.
#[tokio::test]
async fn a_change_of_the_zone_repeats_no_movement_and_drops_none() {
    let (world, desk) = (World::single().await, Desk::new());
    let mut ledger = String::new();
    // As much comes in as goes out, so the ledger balances without wallets. A movement at each hour, and just before it.
    let times = (0..6 * 24).map(|hour| 1_763_683_200_000 + hour * 3_600_000).flat_map(|at| [at - 1, at]);
    for (n, at) in times.enumerate() {
        let sk = ["DEPOSIT", "WITHDRAW"][n % 2];
        let item = json!({"Item": {
            "PK": {"S": "USER#ann"}, "SK": {"S": format!("{sk}#m{n}")}, "id": {"S": format!("m{n}")},
            "amount": {"N": "5"}, "at": {"N": u64::to_string(&at)},
        }});
        ledger += &item.to_string();
        ledger += "\n";
    }
    let folder = export(desk.0.path(), &ledger, "2025-11-30T00:00:00.000Z");
    for (before, after) in [
        ("UTC", "Asia/Shanghai"),
        ("Asia/Shanghai", "UTC"),
        ("Pacific/Pago_Pago", "Pacific/Kiritimati"),
        ("Pacific/Kiritimati", "America/Sao_Paulo"),
    ] {
        let name = |day: &str| format!("{before}-{after}-{day}").replace('/', "_");
        let (mut previous, mut found) = (None::<String>, Vec::new());
        for (day, zone) in [("2025-11-22", before), ("2025-11-23", after), ("2025-11-24", after)] {
            let output = desk.path(&name(day));
            let mut arguments =
                vec!["journal", "--day", day, "--export", folder.to_str().unwrap(), "--output", &output];
            arguments.extend(["--day-zone", zone]);
            arguments.extend(previous.iter().flat_map(|previous| ["--previous", previous]));
            admin(&world, &arguments).await.with(0);
            let summary = desk.summary(&name(day));
            assert_eq!(summary["zone"], zone);
            if let Some(previous) = &previous {
                let before = desk.summary(previous.rsplit('/').next().unwrap());
                assert_eq!((&before["to"], &before["closing"]), (&summary["from"], &summary["opening"]));
            }
            found.extend(desk.lines(&name(day)).into_iter().map(|line| line["time"].as_str().unwrap().to_owned()));
            previous = Some(output);
        }
        let (first, last) = (desk.summary(&name("2025-11-22")), desk.summary(&name("2025-11-24")));
        let (from, to) = (first["from"].as_str().unwrap(), last["to"].as_str().unwrap());
        let moments = ledger.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            Timestamp::from_ms(line["Item"]["at"]["N"].as_str().unwrap().parse().unwrap()).to_string()
        });
        let expected: Vec<String> = moments.filter(|at| (from..to).contains(&&**at)).collect();
        assert_eq!(found, expected, "{before} {after}");
        assert!(found.len() > 90, "{}", found.len());
    }
}

/// 9. Without an option, a day is one of Shanghai.
#[tokio::test]
async fn a_day_begins_at_midnight_in_shanghai_unless_a_zone_is_named() {
    let (world, desk) = (World::single().await, Desk::new());
    let folder = export(desk.0.path(), &of_packet(LEDGER), "2025-11-25T00:00:00.000Z");
    let output = desk.path("out");
    let said =
        admin(&world, &["journal", "--day", DAY, "--export", folder.to_str().unwrap(), "--output", &output]).await;
    let said = said.with(0);
    for line in ["from 2025-11-22T16:00:00.000Z", "to 2025-11-23T16:00:00.000Z", "zone Asia/Shanghai"] {
        assert_eq!(said.line(&line[..5]), line);
    }
    let zone = |zone: &'static str| ["journal", "--day", DAY, "--day-zone", zone, "--output", "never"];
    for unknown in ["Asia/Peking", "CST", ""] {
        let said = admin(&world, &zone(unknown)).await.with(2);
        assert!(said.errors.contains("DAY_ZONE") && said.errors.contains("time zone of the IANA"), "{said:?}");
    }
}
