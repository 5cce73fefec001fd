//! Transfers beside a journal: each difference is named.

use std::fmt::Write as _;

use super::*;

/// The day of the journal.
const START: u64 = 1_763_856_000_000;
const END: u64 = START + 86_400_000;

#[tokio::test]
async fn transfers_are_compared_with_the_journal() {
    let (world, desk) = (World::single().await, Desk::new());
    let mut ledger = String::new();
    let mut file = b"id,kind,user,amount,currency,time\n".to_vec();
    for (n, at) in (START..END).step_by(2_000_000).take(40).enumerate() {
        let kind = ["deposit", "withdrawal"][n % 2];
        let sk = if kind == "deposit" { "DEPOSIT" } else { "WITHDRAW" };
        ledger += &json!({"Item": {
            "PK": {"S": format!("USER#u{n}")}, "SK": {"S": format!("{sk}#t{n}")},
            "id": {"S": format!("t{n}")}, "amount": {"N": "1000"}, "at": {"N": at.to_string()},
        }})
        .to_string();
        ledger += "\n";
        writeln!(file, "t{n},{kind},u{n},1000,CNY,{}", Timestamp::from_ms(at + 300)).unwrap();
    }
    let file = String::from_utf8(file).unwrap();
    let folder = export(desk.0.path(), &ledger, "2025-11-24T00:28:34.028Z");
    let output = desk.path("out");
    // As much came in as went out, so the ledger balances without wallets.
    journal(&world, DAY, &output, &["--export", folder.to_str().unwrap()]).await.with(0);
    fs::write(desk.path("clean.csv"), &file).unwrap();
    let clean = admin(&world, &["reconcile", &output, &desk.path("clean.csv")]).await.with(0);
    assert_eq!(clean.line("difference_count"), "difference_count 0");

    let row = |n: usize| file.lines().nth(n + 1).unwrap().to_owned();
    let mut wrong = file.clone();
    let mut plant = |n: usize, from: &str, to: &str| {
        let (old, new) = (row(n), row(n).replacen(from, to, 1));
        assert_ne!(old, new);
        wrong = wrong.replace(&format!("{old}\n"), &format!("{new}\n"));
    };
    plant(1, ",1000,", ",1500,");
    plant(2, ",1000,", ",100000,");
    plant(3, ",CNY,", ",USD,");
    plant(4, "deposit", "withdrawal");
    plant(5, "u5", "zoe");
    plant(6, "2025-11-23", "2025-11-24");
    plant(7, ",1000,", ",-1000,");
    plant(8, "deposit", "gift");
    wrong = wrong.replace(&format!("{}\n", row(9)), "");
    wrong += &[row(10), row(11).replace("1000", "2000"), String::new()].join("\n");
    wrong += "new,deposit,ann,5,CNY,2025-11-23T10:00:00Z\nold,deposit,ann,5,CNY,2025-11-22\n";
    fs::write(desk.path("wrong.csv"), &wrong).unwrap();
    let all = desk.path("differences.jsonl");
    let said = admin(&world, &["reconcile", &output, &desk.path("wrong.csv"), "--output", &all]).await.with(1);
    let found: BTreeSet<(String, String)> = desk
        .read("differences.jsonl")
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["kind"].as_str().unwrap().to_owned(), line["subject"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [
        ("amount-differs", "withdrawal t1 of u1"),
        ("unit-differs", "deposit t2 of u2"),
        ("currency-differs", "withdrawal t3 of u3"),
        ("direction-differs", "deposit t4 of u4"),
        ("user-differs", "withdrawal t5 of u5"),
        ("day-differs", "deposit t6 of u6"),
        ("malformed-row", "row 9, id t7"),
        ("missing-in-transfers", "withdrawal t7 of u7"),
        ("unknown-kind", "row 10, id t8"),
        ("missing-in-transfers", "deposit t8 of u8"),
        ("missing-in-transfers", "withdrawal t9 of u9"),
        ("duplicate-transfer", "deposit t10 of u10"),
        ("id-reused", "withdrawal t11 of u11"),
        ("missing-in-ledger", "deposit new of ann"),
        ("outside-day", "deposit old of ann"),
        ("sum-differs", "deposit in CNY"),
        ("sum-differs", "withdrawal in CNY"),
    ];
    assert_eq!(found, expected.map(|(kind, subject)| (kind.to_owned(), subject.to_owned())).into());
    for (kind, subject) in expected {
        said.line(&format!("{kind} {subject}"));
    }
    assert_eq!(said.line("difference_count"), "difference_count 17");
    assert!(said.line("malformed-row row").ends_with(" amount: -1000 9"), "{said:?}");
    desk.has_only(&["01693685827463-2d8752fd", "clean.csv", "differences.jsonl", "out", "wrong.csv"]);
}

/// A bank that pays what this ledger has not posted.
#[tokio::test]
async fn a_payment_of_a_withdrawal_that_is_not_posted_is_named() {
    let (world, desk) = (World::single().await, Desk::new());
    let mut ledger = String::new();
    let mut add = |item: Value| ledger.extend([json!({ "Item": item }).to_string(), "\n".to_owned()]);
    let (at, number) = (START + 3_600_000, |number: u64| json!({"N": number.to_string()}));
    for (id, status, ended_at) in [
        ("w1", "pending", None),
        ("w2", "voided", Some(at + 9)),
        ("w3", "posted", Some(END + 9)),
        ("w4", "posted", Some(at + 9)),
        ("w5", "posted", Some(START - 9)),
        ("w6", "pending", None),
    ] {
        let mut item = json!({
            "PK": {"S": "USER#bob"}, "SK": {"S": format!("WITHDRAW#{id}")}, "amount": number(100), "at": number(if id == "w5" { START - 20 } else { at }),
            "status": {"S": status},
        });
        match ended_at {
            Some(ended_at) => item["ended_at"] = number(ended_at),
            None => [("due_shard", 16), ("due_at", at)].into_iter().for_each(|(name, due)| item[name] = number(due)),
        }
        if status == "posted" {
            item["posted_amount"] = number(100);
        }
        add(item);
    }
    let (back, returned) = (at + 9, format!("AT#RETURN#{:013}#w2", at + 9));
    add(json!({"PK": {"S": "USER#bob"}, "SK": {"S": returned}, "amount": number(100), "at": number(back)}));
    add(json!({"PK": {"S": "USER#bob"}, "SK": {"S": "DEPOSIT#d"}, "amount": number(1_000), "at": number(START - 30)}));
    add(json!({"PK": {"S": "USER#bob"}, "SK": {"S": "WALLET"}, "balance": number(500), "pending": number(200)}));
    let folder = export(desk.0.path(), &ledger, "2025-11-26T00:00:00.000Z");
    let output = desk.path("out");
    journal(&world, DAY, &output, &["--export", folder.to_str().unwrap()]).await.with(0);
    let mut file = "id,kind,user,amount,currency,time\n".to_owned();
    let paid = Timestamp::from_ms(at + 300);
    for (id, amount) in [
        ("w1", "100,CNY"),
        ("w2", "100,USD"),
        ("w3", "60,CNY"),
        ("w4", "100,CNY"),
        ("w5", "10000,CNY"),
        ("w6", "101,CNY"),
    ] {
        writeln!(file, "{id},withdrawal,bob,{amount},{paid}").unwrap();
    }
    fs::write(desk.path("paid.csv"), &file).unwrap();
    let said = admin(&world, &["reconcile", &output, &desk.path("paid.csv"), "--kinds", "withdrawal"]).await.with(1);
    // w3 is posted on the next day: at the end of this one it was pending.
    for (kind, id) in [
        ("paid-but-pending", "w1"),
        ("paid-but-voided", "w2"),
        ("currency-differs", "w2"),
        ("paid-but-pending", "w3"),
        ("posted-on-another-day", "w5"),
        ("unit-differs", "w5"),
        ("paid-but-pending", "w6"),
        ("amount-differs", "w6"),
    ] {
        said.line(&format!("{kind} withdrawal {id} of bob"));
    }
    // One more is the sum.
    assert_eq!(said.line("difference_count"), "difference_count 9");

    let list = format!("{output}/withdrawals.jsonl");
    let lines = fs::read_to_string(&list).unwrap();
    fs::write(&list, lines.split_once('\n').unwrap().1).unwrap();
    let said = admin(&world, &["reconcile", &output, &desk.path("paid.csv"), "--kinds", "withdrawal"]).await.with(2);
    assert!(said.errors.contains("withdrawals.jsonl: it has 5 lines, and its summary says 6"), "{said:?}");
}

#[tokio::test]
async fn books_with_problems_are_not_reconciled_by_equal_transfers() {
    let (world, desk) = (World::single().await, Desk::new());
    let ledger = of_packet(LEDGER).replace(r#""balance":{"N":"250"}"#, r#""balance":{"N":"251"}"#);
    let folder = export(desk.0.path(), &ledger, "2025-11-26T00:00:00.000Z");
    let output = desk.path("out");
    journal(&world, DAY, &output, &["--export", folder.to_str().unwrap()]).await.with(1);
    let transfers = "id,kind,user,amount,currency,time\nout-1,withdrawal,\"e,\"\"v\"\"e\",100,CNY,2025-11-23\n";
    fs::write(desk.path("transfers.csv"), transfers).unwrap();
    let said = admin(&world, &["reconcile", &output, &desk.path("transfers.csv")]).await.with(1);
    let found = "1, the first: state wallets, expected 9950, found 9951";
    let line = format!("journal-problems the journal of 2025-11-23 {found} not compared");
    assert_eq!(said.line("journal-problems the"), line);
    assert_eq!(said.line("difference_count"), "difference_count 1");
}
