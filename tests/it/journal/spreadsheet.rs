//! The journal's CSV in a spreadsheet: no id is computed, rounded or taken for a date.

use super::*;

/// Ids that a spreadsheet takes for something else, as users' and as deposits'.
const USERS: [&str; 16] = [
    "=1+1",
    "+1",
    "-2+3",
    "@SUM(1)",
    "=cmd|'calc'!A0",
    "=HYPERLINK(\"http:a\",\"b\")",
    "'q",
    "''",
    "\"",
    ",;",
    "bob;=1+1;x",
    "';'=1",
    "9223372036854775807",
    "1E5",
    "00123",
    "2026-11-26",
];
const IDS: [&str; 7] = ["-1", "-1-1", "9223372036854775807", "1E5", "00123", "2026-11-26", "TRUE"];

/// The rows of a CSV file after RFC 4180, without the header.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// 17. No cell of the CSV is a formula, each id is a text behind one apostrophe, and `reconcile` reads the file as it is.
#[tokio::test]
async fn a_spreadsheet_keeps_each_id_of_the_journal_as_it_is() {
    let (world, desk) = (World::single().await, Desk::new());
    let mut ledger = String::new();
    // As much comes in as goes out, so the ledger balances without wallets.
    for (sk, user, id) in USERS
        .iter()
        .flat_map(|user| IDS.iter().map(move |id| (user, id)))
        .flat_map(|(user, id)| [("DEPOSIT", user, id), ("WITHDRAW", user, id)])
    {
        let item = json!({"Item": {
            "PK": {"S": format!("USER#{user}")}, "SK": {"S": format!("{sk}#{id}")}, "id": {"S": id},
            "amount": {"N": "999999999999"}, "at": {"N": "1763899200000"},
        }});
        ledger += &item.to_string();
        ledger += "\n";
    }
    let folder = export(desk.0.path(), &(ledger + &of_packet(LEDGER)), "2025-11-24T00:28:34.028Z");
    let output = desk.path("out");
    journal(&world, DAY, &output, &["--export", folder.to_str().unwrap()]).await.with(0);

    let text = desk.read("out/journal.csv");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "RFC 4180 ends a line with CR LF");
    let (rows, lines) = (rows(&text), desk.lines("out"));
    assert_eq!(rows.len(), lines.len());
    let names = ["time", "kind", "user", "id", "packet", "debit", "credit", "amount", "currency"];
    for (row, line) in rows.iter().zip(&lines) {
        for (cell, name) in row.iter().zip(names) {
            for piece in cell.split(';') {
                assert!(!piece.starts_with(['=', '+', '-', '@', '\t', '\r']), "{name}: {cell}");
            }
            let expected = match &line[name] {
                Value::Null => String::new(),
                Value::String(id) if ["user", "id", "packet"].contains(&name) => format!("'{}", id.replace(';', ";'")),
                Value::String(text) => text.replace(';', ";'"),
                number => number.to_string(),
            };
            assert_eq!(*cell, expected, "{name}");
        }
    }

    let kinds = ["--kinds", "deposit,withdrawal,sent,claim,refund"];
    let compared = async |file: &str| {
        let said = admin(&world, &[&["reconcile", &output, &desk.path(file)][..], &kinds].concat()).await.with(0);
        assert_eq!(said.line("difference_count"), "difference_count 0");
    };
    compared("out/journal.csv").await;
    // An app's own file has the ids as they are: also that of a user whose id begins with an apostrophe.
    let mut own = csv::Writer::from_path(desk.path("own.csv")).unwrap();
    own.write_record(["id", "kind", "user", "amount", "currency", "time"]).unwrap();
    for line in &lines {
        let text = |name: &str| line[name].as_str().map_or_else(|| line[name].to_string(), str::to_owned);
        own.write_record(["id", "kind", "user", "amount", "currency", "time"].map(text)).unwrap();
    }
    own.flush().unwrap();
    compared("own.csv").await;
}
