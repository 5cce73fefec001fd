//! Random journals and transfers with one planted difference each, which must be found.

use proptest::prelude::*;
use shared::domain::DayZone;

use super::difference::Kind;
use super::matching::{Found, Matching, Side};
use super::*;
use crate::journal::Span;

const START: u64 = 1_763_856_000_000;
const DAY: Span = Span { start: START, end: START + 86_400_000 };

/// Deposits and withdrawals of few users under few ids. No two have the same id, kind and user.
fn entries(seeds: &[(u8, u8, bool)]) -> Vec<Found> {
    let mut entries: Vec<Found> = seeds
        .iter()
        .zip(1..)
        .map(|(&(id, user, out), row)| Found {
            id: format!("t{}", id % 5),
            kind: if out { MovementKind::Withdrawal } else { MovementKind::Deposit },
            user: format!("u{}", user % 4),
            side: Side::Ledger,
            // Amounts differ from each other, also by factors.
            amount: 1_000_003 + row * 7,
            currency: "CNY".to_owned(),
            at: DAY.start + row,
            row,
        })
        .collect();
    let name = |found: &Found| (found.id.clone(), found.kind, found.user.clone());
    entries.sort_by_key(name);
    entries.dedup_by_key(|found| name(found));
    entries
}

fn as_transfers(entries: &[Found]) -> Vec<Found> {
    entries.iter().map(|entry| Found { side: Side::Transfers, ..entry.clone() }).collect()
}

/// The kinds of differences, in order, after the way over the sorter's records.
fn compare(all: impl IntoIterator<Item = Found>) -> Vec<Kind> {
    let folder = tempfile::tempdir().unwrap();
    let mut sorter = Sorter::new(folder.path(), 500);
    let mut record = Vec::new();
    for found in all {
        found.write(&mut record);
        assert_eq!(Found::read(&record), Some(found));
        sorter.push(&record).unwrap();
    }
    let mut movements = sorter.finish().unwrap();
    let mut matching = Matching::new(DAY, Differences::default());
    while let Some(record) = movements.advance().unwrap() {
        matching.take(Found::read(record).unwrap()).unwrap();
    }
    let mut kinds: Vec<Kind> = matching.end().unwrap().listed.into_iter().map(|difference| difference.kind).collect();
    kinds.sort_unstable();
    kinds
}

proptest! {
    #[test]
    fn equal_sides_have_no_difference_and_a_planted_one_is_named(
        seeds in proptest::collection::vec(any::<(u8, u8, bool)>(), 1..30), which: usize, plant in 0..11,
    ) {
        let entries = entries(&seeds);
        let mut transfers = as_transfers(&entries);
        prop_assert_eq!(compare(entries.iter().chain(&transfers).cloned()), []);

        let place = which % transfers.len();
        let mut other = transfers[place].clone();
        let expected = match plant {
            0 => {
                transfers.remove(place);
                Kind::MissingInTransfers
            }
            1 => {
                transfers.push(Found { id: "new".to_owned(), ..other });
                Kind::MissingInLedger
            }
            2 => {
                transfers.push(Found { id: "new".to_owned(), at: DAY.end, ..other });
                Kind::OutsideDay
            }
            3 => {
                transfers[place].amount += 1;
                Kind::AmountDiffers
            }
            4 => {
                transfers[place].amount *= 100;
                Kind::UnitDiffers
            }
            5 => {
                transfers[place].currency = "USD".to_owned();
                Kind::CurrencyDiffers
            }
            6 => {
                transfers[place].at = DAY.start - 1;
                Kind::DayDiffers
            }
            7 => {
                transfers.push(other);
                Kind::DuplicateTransfer
            }
            8 => {
                other.amount += 5;
                transfers.push(other);
                Kind::IdReused
            }
            9 => {
                // The other direction, whose own place must be free.
                let kind = if other.kind == MovementKind::Deposit { MovementKind::Withdrawal } else { MovementKind::Deposit };
                other.kind = kind;
                prop_assume!(!transfers.iter().any(|one| (&one.id, one.kind, &one.user) == (&other.id, kind, &other.user)));
                transfers[place] = other;
                Kind::DirectionDiffers
            }
            _ => {
                transfers[place].user = "zoe".to_owned();
                Kind::UserDiffers
            }
        };
        prop_assert_eq!(compare(entries.into_iter().chain(transfers)), [expected]);
    }
}

#[test]
fn one_movement_can_differ_in_several_ways() {
    let entry = entries(&[(1, 1, false)]);
    let mut transfer = as_transfers(&entry).remove(0);
    transfer.amount = 9;
    transfer.currency = "USD".to_owned();
    transfer.at = DAY.end;
    let found = compare(entry.into_iter().chain([transfer]));
    assert_eq!(found, [Kind::AmountDiffers, Kind::CurrencyDiffers, Kind::DayDiffers]);
}

#[test]
fn very_many_transfers_of_one_id_take_little_memory_and_are_all_counted() {
    let entry = entries(&[(1, 1, false)]);
    let transfer = as_transfers(&entry).remove(0);
    let repeated = std::iter::repeat_n(transfer.clone(), 3_000);
    let mut matching = Matching::new(DAY, Differences::default());
    entry.into_iter().chain(repeated).for_each(|found| matching.take(found).unwrap());
    let of_others = (0..3_000).map(|n| Found { user: format!("z{n:04}"), ..transfer.clone() });
    of_others.for_each(|found| matching.take(found).unwrap());
    let differences = matching.end().unwrap();
    assert_eq!(differences.by_kind[&Kind::DuplicateTransfer], 2_999);
    assert_eq!((differences.by_kind[&Kind::MissingInLedger], differences.difference_count), (3_000, 5_999));
    assert_eq!(differences.listed.len(), 50);
}

/// What dates mean beside a journal of the day in UTC.
fn dates() -> Dates {
    Dates { zone: DayZone::UTC, day: "2025-11-23".parse().unwrap(), start: START }
}

#[test]
fn a_date_is_a_day_of_the_journals_zone_and_its_own_day_begins_with_it() {
    let dates = Dates { zone: "Asia/Shanghai".parse().unwrap(), ..dates() };
    let hours = |hours: i64| Some(START.checked_add_signed(hours * 3_600_000).unwrap());
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

/// The rows of a file of transfers: what was expected of those that are unusable.
fn rows(text: &[u8]) -> Vec<(u64, String)> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut rows = Vec::new();
    transfers::each(file.path(), &[MovementKind::Deposit], &dates(), |number, _, row| {
        rows.push((
            number,
            match row {
                Ok(transfer) => format!("{} {} {}", transfer.id, transfer.amount, transfer.at),
                Err(Unusable::Malformed { expected, .. }) => expected,
                Err(Unusable::Kind(kind)) => format!("kind {kind}"),
            },
        ));
        Ok(())
    })
    .unwrap();
    rows
}

#[test]
fn transfers_are_read_in_any_order_of_columns() {
    let text = "\u{feff}bank,time,currency, amount,user,kind,id\r\n\
        x,2025-11-23T08:00:00+08:00,CNY,5,\"a,b\",deposit,d1\r\n\
        \"two\nlines\",2025-11-23,CNY, 5 ,ann,deposit,d2\r\n";
    assert_eq!(rows(text.as_bytes()), [(2, format!("d1 5 {START}")), (3, format!("d2 5 {START}"))]);
}

#[test]
fn a_row_that_is_no_transfer_says_why() {
    let good = "d1,deposit,ann,5,CNY,2025-11-23";
    let mut text = "id,kind,user,amount,currency,time\n".to_owned();
    let cases = [
        ("d1", "", "id: 1 to 64 of A-Z a-z 0-9 _ -"),
        ("d1", "d 1", "id: 1 to 64 of A-Z a-z 0-9 _ -"),
        ("ann", "a/n", "user: a user id"),
        ("5", "0", "amount: minor units, 1 or more, digits only"),
        ("5", "-5", "amount: minor units, 1 or more, digits only"),
        ("5", "+5", "amount: minor units, 1 or more, digits only"),
        ("5", "5.00", "amount: minor units, 1 or more, digits only"),
        ("CNY", "cny", "currency: three capital letters"),
        ("2025-11-23", "23.11.2025", "time: RFC 3339, or a day such as 2026-11-23"),
        ("2025-11-23", "2025-11-23,more", "6 fields, as in the header"),
        (",2025-11-23", "", "6 fields, as in the header"),
        ("deposit", "withdrawal", "kind withdrawal"),
        ("deposit", "", "kind "),
    ];
    for (from, to, _) in cases {
        text += &(good.replacen(from, to, 1) + "\n");
    }
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"d\xff,deposit,ann,5,CNY,2025-11-23\n");
    let mut expected: Vec<(u64, String)> = (2..).zip(cases.map(|(_, _, expected)| expected.to_owned())).collect();
    expected.push((15, "a text in UTF-8".to_owned()));
    assert_eq!(rows(&bytes), expected);
}

#[test]
fn an_unusable_row_shows_its_id_and_what_is_wrong_in_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let long = "9".repeat(3_000);
    let text = format!(
        "id,kind,user,amount,currency,time\nd1,deposit,ann,-5,CNY,2025-11-23\nd2,\"gi\nft\",ann,5,CNY,2025-11-23\n\
         d3,deposit,ann,{long},CNY,2025-11-23\nd4,deposit,ann\n"
    );
    std::fs::write(file.path(), text).unwrap();
    let mut shown = Vec::new();
    let mut take = |_: u64, id: &str, row: Result<Transfer, Unusable>| {
        match row {
            Ok(transfer) => panic!("{transfer:?}"),
            Err(Unusable::Malformed { found, .. } | Unusable::Kind(found)) => shown.push(format!("{id} {found}")),
        }
        Ok(())
    };
    transfers::each(file.path(), &[MovementKind::Deposit], &dates(), &mut take).unwrap();
    let cut = format!("d3 amount: {}", "9".repeat(100));
    assert_eq!(shown, ["d1 amount: -5", "d2 gi\\nft", &cut, " 3 fields: d4,deposit,ann"]);
}

#[test]
fn a_file_without_a_column_can_not_be_compared() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "id,kind,user,amount,time\n").unwrap();
    let error = transfers::each(file.path(), &[], &dates(), |_, _, _| Ok(())).unwrap_err();
    assert!(error.to_string().ends_with("there is no column currency"), "{error}");
}
