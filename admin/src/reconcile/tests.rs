//! Random journals and transfers with one planted difference each, which must be found.

use proptest::prelude::*;
use shared::domain::{DayZone, Timestamp};

use super::*;

const START: &str = "2025-11-23T00:00:00.000Z";
const BEFORE: &str = "2025-11-22T23:59:59.999Z";
const END: &str = "2025-11-24T00:00:00.000Z";

#[derive(Clone, Debug)]
struct Found {
    id: String,
    kind: MovementKind,
    user: String,
    amount: u64,
    currency: &'static str,
    time: &'static str,
}

/// Deposits and withdrawals of few users under few ids. No two have the same id, kind and user.
fn entries(seeds: &[(u8, u8, bool)]) -> Vec<Found> {
    let mut entries: Vec<Found> = seeds
        .iter()
        .zip(1..)
        .map(|(&(id, user, out), row)| Found {
            id: format!("t{}", id % 5),
            kind: if out { MovementKind::Withdrawal } else { MovementKind::Deposit },
            user: format!("u{}", user % 4),
            // Amounts differ from each other, also by factors.
            amount: 1_000_003 + row * 7,
            currency: "CNY",
            time: START,
        })
        .collect();
    let name = |found: &Found| (found.id.clone(), found.kind, found.user.clone());
    entries.sort_by_key(name);
    entries.dedup_by_key(|found| name(found));
    entries
}

fn database() -> Connection {
    let database = scratch::database(SCHEMA).unwrap();
    database.execute("INSERT INTO day VALUES (?, ?, ?)", [START, END, "CNY"]).unwrap();
    database
}

/// The differences of entries and transfers.
fn matched(entries: &[Found], transfers: &[Found]) -> Differences {
    let database = database();
    for (table, all) in [("entry", entries), ("transfer", transfers)] {
        let add = format!("INSERT INTO {table} (id, kind, user, amount, currency, time) VALUES (?, ?, ?, ?, ?, ?)");
        for Found { id, kind, user, amount, currency, time } in all {
            database.execute(&add, params![id, kind.name(), user, amount, currency, time]).unwrap();
        }
    }
    database.execute_batch(MATCH).unwrap();
    differences(&database, None).unwrap()
}

/// The kinds of differences, in alphabetical order.
fn compare(entries: &[Found], transfers: &[Found]) -> Vec<String> {
    let differences = matched(entries, transfers);
    differences.by_kind.into_iter().flat_map(|(kind, count)| (0..count).map(move |_| kind.clone())).collect()
}

proptest! {
    #[test]
    fn equal_sides_have_no_difference_and_a_planted_one_is_named(
        seeds in proptest::collection::vec(any::<(u8, u8, bool)>(), 1..30), which: usize, plant in 0..11,
    ) {
        let entries = entries(&seeds);
        let mut transfers = entries.clone();
        prop_assert_eq!(compare(&entries, &transfers), [""; 0]);

        let place = which % transfers.len();
        let mut other = transfers[place].clone();
        let expected = match plant {
            0 => {
                transfers.remove(place);
                "missing-in-transfers"
            }
            1 => {
                transfers.push(Found { id: "new".to_owned(), ..other });
                "missing-in-ledger"
            }
            2 => {
                transfers.push(Found { id: "new".to_owned(), time: END, ..other });
                "outside-day"
            }
            3 => {
                transfers[place].amount += 1;
                "amount-differs"
            }
            4 => {
                transfers[place].amount *= 100;
                "unit-differs"
            }
            5 => {
                transfers[place].currency = "USD";
                "currency-differs"
            }
            6 => {
                transfers[place].time = BEFORE;
                "day-differs"
            }
            7 => {
                transfers.push(other);
                "duplicate-transfer"
            }
            8 => {
                other.amount += 5;
                transfers.push(other);
                "id-reused"
            }
            9 => {
                // The other direction, whose own place must be free.
                let kind = if other.kind == MovementKind::Deposit { MovementKind::Withdrawal } else { MovementKind::Deposit };
                other.kind = kind;
                prop_assume!(!transfers.iter().any(|one| (&one.id, one.kind, &one.user) == (&other.id, kind, &other.user)));
                transfers[place] = other;
                "direction-differs"
            }
            _ => {
                transfers[place].user = "zoe".to_owned();
                "user-differs"
            }
        };
        prop_assert_eq!(compare(&entries, &transfers), [expected]);
    }
}

#[test]
fn one_movement_can_differ_in_several_ways() {
    let entry = entries(&[(1, 1, false)]);
    let transfer = Found { amount: 9, currency: "USD", time: END, ..entry[0].clone() };
    assert_eq!(compare(&entry, &[transfer]), ["amount-differs", "currency-differs", "day-differs"]);
}

#[test]
fn the_transfer_that_equals_the_entry_counts_and_the_others_repeat_it() {
    let entry = entries(&[(1, 1, false)]);
    let other = Found { amount: 9, time: END, ..entry[0].clone() };
    assert_eq!(compare(&entry, &[other.clone(), entry[0].clone()]), ["id-reused"]);
    assert_eq!(compare(&[], &[entry[0].clone(), entry[0].clone()]), ["duplicate-transfer", "missing-in-ledger"]);
}

#[test]
fn very_many_transfers_of_one_id_are_all_counted() {
    let entry = entries(&[(1, 1, false)]);
    let repeated = std::iter::repeat_n(entry[0].clone(), 3_000);
    let of_others = (0..3_000).map(|n| Found { user: format!("z{n:04}"), ..entry[0].clone() });
    let differences = matched(&entry, &repeated.chain(of_others).collect::<Vec<_>>());
    assert_eq!(differences.by_kind["duplicate-transfer"], 2_999);
    assert_eq!((differences.by_kind["missing-in-ledger"], differences.difference_count), (3_000, 5_999));
    assert_eq!(differences.listed.len(), 50);
}

#[test]
fn a_sum_of_absurd_amounts_does_not_overflow() {
    let database = database();
    for _ in 0..1_000 {
        let add = "INSERT INTO transfer (kind, amount, currency) VALUES ('deposit', ?, 'CNY')";
        database.execute(add, [i64::MAX]).unwrap();
    }
    let sum = Sum { count: 1_000, amount: 1_000 * i128::from(i64::MAX) };
    assert_eq!(sums(&database, "transfer", "CNY").unwrap().of("deposit"), sum);
}

/// What dates mean beside a journal of the day in UTC.
fn dates() -> Dates {
    Dates { zone: DayZone::UTC, day: "2025-11-23".parse().unwrap(), start: START.parse().unwrap() }
}

#[test]
fn a_date_is_a_day_of_the_journals_zone_and_its_own_day_begins_with_it() {
    let dates = Dates { zone: "Asia/Shanghai".parse().unwrap(), ..dates() };
    let start = START.parse::<Timestamp>().unwrap().ms();
    let hours = |hours: i64| Some(Timestamp::from_ms(start.checked_add_signed(hours * 3_600_000).unwrap()));
    for (text, expected) in [
        ("2025-11-23", hours(0)),
        ("2025-11-22", hours(-32)),
        ("2025-11-24", hours(16)),
        ("2025-11-23T00:00:00+08:00", hours(-8)),
        ("23.11.2025", None),
    ] {
        assert_eq!(dates.moment(text), expected, "{text}");
    }
}

/// What a file of transfers contains: the transfers, and the rows that can't be compared.
fn rows(text: &[u8]) -> (Vec<String>, Vec<Value>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let database = database();
    transfers::read(file.path(), &[MovementKind::Deposit], &dates(), &database).unwrap();
    let mut statement =
        database.prepare("SELECT row || ' ' || id || ' ' || amount || ' ' || time FROM transfer").unwrap();
    let transfers = statement.query_map([], |row| row.get(0)).unwrap();
    (transfers.collect::<Result<_, _>>().unwrap(), differences(&database, None).unwrap().listed)
}

#[test]
fn transfers_are_read_in_any_order_of_columns() {
    let text = "\u{feff}bank,time,currency, amount,user,kind,id\r\n\
        x,2025-11-23T08:00:00+08:00,CNY,5,\"a,b\",deposit,d1\r\n\
        \"two\nlines\",2025-11-23,CNY, 5 ,ann,deposit,d2\r\n";
    let (transfers, unusable) = rows(text.as_bytes());
    assert_eq!(transfers, [format!("2 d1 5 {START}"), format!("3 d2 5 {START}")]);
    assert!(unusable.is_empty(), "{unusable:?}");
}

#[test]
fn a_row_that_is_no_transfer_says_why() {
    let good = "d1,deposit,ann,5,CNY,2025-11-23";
    let mut text = "id,kind,user,amount,currency,time\n".to_owned();
    let cases = [
        ("d1", "", "id: 1 to 64 of A-Z a-z 0-9 _ -"),
        ("d1", "d 1", "id: 1 to 64 of A-Z a-z 0-9 _ -"),
        ("ann", "a/n", "user: a user id"),
        ("5", "0", "amount: minor units, 1 to 1000000000000000, digits only"),
        ("5", "-5", "amount: minor units, 1 to 1000000000000000, digits only"),
        ("5", "+5", "amount: minor units, 1 to 1000000000000000, digits only"),
        ("5", "5.00", "amount: minor units, 1 to 1000000000000000, digits only"),
        ("CNY", "cny", "currency: three capital letters"),
        ("2025-11-23", "23.11.2025", "time: RFC 3339, or a day such as 2026-11-23"),
        ("2025-11-23", "2025-11-23,more", "6 fields, as in the header"),
        (",2025-11-23", "", "6 fields, as in the header"),
        ("5", "1000000000000001", "amount: minor units, 1 to 1000000000000000, digits only"),
        ("5", "9223372036854775808", "amount: minor units, 1 to 1000000000000000, digits only"),
        ("deposit", "withdrawal", "deposit"),
        ("deposit", "", "deposit"),
    ];
    for (from, to, _) in cases {
        text += &(good.replacen(from, to, 1) + "\n");
    }
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"d\xff,deposit,ann,5,CNY,2025-11-23\n");
    let (transfers, unusable) = rows(&bytes);
    assert_eq!(transfers, [""; 0]);
    let found: Vec<(u64, &str)> =
        unusable.iter().map(|row| (row["row"].as_u64().unwrap(), row["ledger"].as_str().unwrap())).collect();
    let expected = cases.map(|(_, _, expected)| expected).into_iter().chain(["id: 1 to 64 of A-Z a-z 0-9 _ -"]);
    assert_eq!(found, (2..).zip(expected).collect::<Vec<_>>());
}

#[test]
fn an_unusable_row_shows_its_id_and_what_is_wrong_in_it() {
    let long = "9".repeat(3_000);
    let text = format!(
        "id,kind,user,amount,currency,time\nd1,deposit,ann,-5,CNY,2025-11-23\nd2,\"gi\nft\",ann,5,CNY,2025-11-23\n\
         d3,deposit,ann,{long},CNY,2025-11-23\nd4,deposit,ann\n"
    );
    let (_, unusable) = rows(text.as_bytes());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown: Vec<String> =
        unusable.iter().map(|row| format!("{}: {}", text(&row["subject"]), text(&row["transfers"]))).collect();
    let cut = format!("row 4, id d3: amount: {}", "9".repeat(100));
    assert_eq!(shown, ["row 2, id d1: amount: -5", "row 3, id d2: gi\\nft", &cut, "row 5: 3 fields: d4,deposit,ann"]);
}

#[test]
fn a_file_without_a_column_can_not_be_compared() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "id,kind,user,amount,time\n").unwrap();
    let error = transfers::read(file.path(), &[], &dates(), &database()).unwrap_err();
    assert!(error.to_string().ends_with("there is no column currency"), "{error}");
}
