//! A person's data: what `admin person` exports, and what is left once it has erased.

use std::path::Path;

use serde_json::{Value, json};
use shared::crash::{LAST_WORDS, VARIABLE};
use shared::domain::{Amount, DeedKind, Mandate, MovementFilter, Terms, UserId, WithdrawalEnd, WithdrawalRequest};
use shared::service::text_of_cell;
use tests::{Process, World, audit, packet, user, users};
use tokio::process::Command;

use super::{admin, run};
use crate::programs::built;

/// Stands in each text that sam writes.
const WROTE: &str = "7qx2";

/// A packet of sam's with texts, grabbed by so many users.
async fn packet_of_sam(process: &Process, count: u32, grabs: usize) -> std::sync::Arc<Terms> {
    let mut new = packet(&user("sam"), 10_000, count);
    new.greeting = format!("greeting {WROTE}");
    new.labels.cover = Some(format!("cover-{WROTE}").parse().unwrap());
    new.labels.reference = Some("party".parse().unwrap());
    new.labels.metadata = Some([("k".to_owned(), format!("=metadata;{WROTE}"))].into());
    let terms = process.send_funded(new).await;
    for name in users("u", grabs) {
        process.grab(terms.id, &name).await.unwrap();
    }
    terms
}

async fn withdraw(process: &Process, id: &str, pending: bool) -> WithdrawalRequest {
    let note = Some(format!("note {WROTE}").parse().unwrap());
    let request =
        WithdrawalRequest { note, pending, ..WithdrawalRequest::at_once(id.parse().unwrap(), Amount::new(1)) };
    process.wallets.withdraw(&user("sam"), &request, None).await.unwrap();
    request
}

/// All texts of the ledger that have `text`, with the keys of their items.
async fn items_with(world: &World, text: &str) -> Vec<String> {
    let all = world.dynamodb.scan().table_name(world.table()).send().await.unwrap().items.unwrap();
    let keys = all.iter().filter(|item| format!("{item:?}").contains(text));
    keys.map(|item| format!("{} {}", item["PK"].as_s().unwrap(), item["SK"].as_s().unwrap())).collect()
}

fn list<'a>(export: &'a Value, name: &str) -> &'a Vec<Value> {
    export[name].as_array().unwrap()
}

#[tokio::test]
async fn an_export_has_all_that_names_the_user_and_no_secret() {
    let (world, folder) = (World::single().await, tempfile::tempdir().unwrap());
    let process = world.process();
    let sent = packet_of_sam(&process, 3, 2).await;
    let mut named = packet(&user("zed"), 100, 2);
    named.recipients = Some([user("sam"), user("amy")].into());
    named.passphrase = Some(shared::domain::Passphrase::new("sesame"));
    let named = process.send_funded(named).await;
    process.grab_saying(named.id, &user("sam"), "sesame").await.unwrap();
    let other = process.send_funded(packet(&user("zed"), 100, 2)).await;
    process.grab(other.id, &user("sam")).await.unwrap();
    withdraw(&process, "w1", false).await;
    process.wallets.suspend(&user("sam"), "asked us".parse().unwrap(), true, Mandate::default()).await.unwrap();
    // What this tool does not know yet is exported all the same.
    let deed = [("PK", "USER#sam"), ("SK", "DEED#1"), ("reason", "a complaint")];
    let put = world.dynamodb.put_item().table_name(world.table());
    let put = deed
        .into_iter()
        .fold(put, |put, (name, text)| put.item(name, aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned())));
    put.send().await.unwrap();

    let path = folder.path().join("sam");
    let output = ["person", "export", "sam", "--output", path.to_str().unwrap()];
    let said = admin(&world, &output).await.with(0);
    assert!(said.text.contains("not searched: packets of others that name them as a recipient"), "{said:?}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o700, "{mode:o}");
    let text = std::fs::read_to_string(path.join("person.json")).unwrap();
    let export: Value = serde_json::from_str(&text).unwrap();
    let item = |key: &str| {
        list(&export, "items").iter().find(|row| row["item"] == key).unwrap_or_else(|| panic!("{key}: {text}"))
    };
    assert_eq!(item("WALLET")["suspended"]["reason"], "asked us");
    assert!(item("WALLET")["suspended"]["at"].as_str().unwrap().ends_with('Z'), "a time that people read");
    assert_eq!(item(&format!("CLAIM#{}", other.id))["greeting"], "恭喜发财");
    assert_eq!((&item("WITHDRAW#w1")["note"], &item("DEED#1")["reason"]), (&json!("note 7qx2"), &json!("a complaint")));
    assert!(!text.contains("AT#"), "no copies: {text}");
    let own = &list(&export, "packets_sent")[0];
    assert_eq!((&own["metadata"]["k"], &own["seed"]), (&json!("=metadata;7qx2"), &Value::Null), "the packet is open");
    let others: Vec<&Value> = list(&export, "packets_that_name_them").iter().collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert_eq!((&others[0]["packet_id"], &others[0]["recipients"]), (&json!(named.id), &Value::Null));
    for secret in [hex::encode(sent.seed.0), hex::encode(named.seed.0), "amy".to_owned(), "passphrase".to_owned()] {
        assert!(!text.contains(&secret), "{secret}: {text}");
    }
    is_same(&path, &export);

    admin(&world, &output).await.with(2);
    process.clock.set_ahead(std::time::Duration::from_hours(2));
    process.settle().await;
    let path = folder.path().join("later");
    admin(&world, &["person", "export", "sam", "--output", path.to_str().unwrap()]).await.with(0);
    let text = std::fs::read_to_string(path.join("person.json")).unwrap();
    assert!(text.contains(&hex::encode(sent.seed.0)) && !text.contains(&hex::encode(named.seed.0)), "{text}");
}

/// The CSV has the rows of the JSON, and no cell that a spreadsheet computes.
fn is_same(folder: &Path, export: &Value) {
    let mut sheet = csv::Reader::from_path(folder.join("person.csv")).unwrap();
    let names = sheet.headers().unwrap().clone();
    let rows: Vec<_> = sheet.records().map(Result::unwrap).collect();
    let lists = ["items", "packets_sent", "packets_that_name_them", "orders_to_close"];
    let expected: Vec<&Value> = lists.iter().flat_map(|name| list(export, name)).collect();
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        for (name, cell) in names.iter().zip(row).skip(1) {
            match &expected[name] {
                Value::Null => assert_eq!(cell, ""),
                Value::String(text) => assert_eq!(text_of_cell(cell).as_ref(), Some(text)),
                Value::Number(number) => assert_eq!(cell, number.to_string()),
                Value::Bool(is) => assert_eq!(cell, is.to_string()),
                lists => assert_eq!(text_of_cell(cell), Some(lists.to_string())),
            }
        }
    }
}

#[tokio::test]
async fn an_erasure_waits_for_what_is_unfinished() {
    let world = World::single().await;
    let process = world.process();
    let open = packet_of_sam(&process, 3, 1).await;
    process.fund(&user("sam"), 100).await;
    withdraw(&process, "w1", true).await;
    let before = items_with(&world, WROTE).await;
    let refused = admin(&world, &["person", "erase", "sam"]).await.with(2);
    let expected = format!("error: nothing is erased: packet {} is not settled, withdrawal w1 is pending\n", open.id);
    assert_eq!((refused.errors, items_with(&world, WROTE).await), (expected, before));
}

#[tokio::test]
async fn an_erasure_that_dies_anywhere_goes_on_and_the_books_always_balance() {
    let world = World::single().await;
    let process = world.process();
    // The claims of the first one fill two transactions.
    let packets = [packet_of_sam(&process, 100, 70).await, packet_of_sam(&process, 2, 2).await];
    let zed = process.send_funded(packet(&user("zed"), 100, 1)).await;
    process.grab(zed.id, &user("sam")).await.unwrap();
    process.fund(&user("sam"), 100).await;
    let ended = withdraw(&process, "w1", true).await;
    let post = WithdrawalEnd::Post(Some(Amount::new(1)));
    process.wallets.end_withdrawal(&user("sam"), &ended.id, post, None).await.unwrap();
    let replayed = withdraw(&process, "w2", false).await;
    process.clock.set_ahead(std::time::Duration::from_hours(2));
    process.settle().await;
    let before = audit(&world).await;
    let count = items_with(&world, WROTE).await.len();
    assert_eq!(count, 2 + 72 + 4, "packets, claims, withdrawals with their copies");

    let erase = async |point: Option<String>| {
        let dynamodb = world.dynamodb_url();
        let mut command = Command::new(built("hongbao-admin"));
        let command = command.args(["--dynamodb-url", &dynamodb, "--table", world.table(), "--json"]);
        run(command
            .args(["person", "erase", "sam", "--reason", "asked"])
            .env_clear()
            .envs(point.map(|point| (VARIABLE, point))))
        .await
    };
    // The first transaction of a run is the deed. Then several are under way at once. So a run that dies before one may have ended
    // none of them, and a run that dies after one got further.
    let (mut deaths, mut left) = (0, count);
    loop {
        let after = deaths % 2 == 1;
        let point = if after { "ledger.after_transaction=2" } else { "ledger.before_transaction=3" };
        let said = erase(Some(point.to_owned())).await;
        audit(&world).await;
        let now = items_with(&world, WROTE).await.len();
        if said.code == Some(0) {
            break;
        }
        assert!(said.errors.starts_with(LAST_WORDS), "{said:?}");
        assert!(now < left || !after, "the run after {deaths} deaths did nothing");
        (deaths, left) = (deaths + 1, now);
    }
    assert!(deaths > 3, "{deaths}");
    let nothing = json!({"packets": 0, "claims": 0, "withdrawals": 0});
    assert_eq!(erase(None).await.with(0).json(), nothing);
    assert_eq!(items_with(&world, WROTE).await, Vec::<String>::new());
    let deed = process.wallets.deeds(Some(&user("sam")), None, 1).await.unwrap().rows.remove(0);
    assert_eq!((deed.deed, deed.reason), (DeedKind::Erase, Some("asked".parse().unwrap())));

    // Money and ids are as before; what others wrote stays.
    let after = audit(&world).await;
    assert_eq!((&after.balances, after.packets.len()), (&before.balances, before.packets.len()));
    let movements = async |of: UserId| {
        let all = MovementFilter { from: None, to: None, kind: None };
        process.wallets.movements(&of, all, None, 100).await.unwrap().rows
    };
    let of_claims = |rows: &[shared::domain::Movement]| -> Vec<String> {
        rows.iter().filter_map(|row| Some(row.sent.as_ref()?.1.clone())).collect()
    };
    assert_eq!(of_claims(&movements(user("u0")).await), ["", ""]);
    let of_sam = movements(user("sam")).await;
    assert_eq!(of_claims(&of_sam), ["恭喜发财"]);
    assert!(of_sam.iter().all(|row| row.note.is_none()), "{of_sam:?}");
    // Another process shows no text. This one keeps the terms that it knows.
    for terms in &packets {
        let fresh = world.process().view.any_packet(terms.id).await.unwrap().unwrap();
        assert_eq!(
            (&*fresh.terms.greeting, &fresh.terms.labels.cover, &fresh.terms.labels.metadata),
            ("", &None, &None)
        );
        assert_eq!(fresh.terms.commitment(), terms.commitment());
        let cached = process.view.any_packet(terms.id).await.unwrap().unwrap();
        assert_eq!(cached.terms.greeting, terms.greeting);
    }
    // The same withdrawal again moves nothing, but its id is taken.
    let again = process.wallets.withdraw(&user("sam"), &replayed, None).await.unwrap();
    assert!(matches!(again, shared::service::WithdrawalOutcome::IdReused), "{again:?}");
    audit(&world).await;
}
