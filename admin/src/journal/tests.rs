//! Random ledgers: their journals balance, entry by entry and in sum.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use shared::domain::PacketId;

use super::*;

const DAY: &str = "2026-11-23";

/// A ledger's items, and what its accounts hold at the end of the day.
#[derive(Default)]
struct Ledger {
    items: Vec<Value>,
    wallets: BTreeMap<String, i128>,
    /// What each wallet has reserved.
    pending: BTreeMap<String, i128>,
    accounts: BTreeMap<String, i128>,
    in_day: usize,
}

impl Ledger {
    /// Random deposits, packets and withdrawals around the day.
    fn random(seed: u64, steps: u32) -> Self {
        let (mut ledger, mut dice) = (Self::default(), StdRng::seed_from_u64(seed));
        let day = day();
        for step in 0..steps {
            // Times at the very ends of the day are as frequent as others.
            let at = match dice.random_range(0..4) {
                0 => dice.random_range(day.start - 2..day.start + 2),
                1 => dice.random_range(day.end - 2..day.end + 2),
                _ => dice.random_range(day.start - 50_000_000..day.end + 50_000_000),
            };
            let user = format!("u{}", dice.random_range(0..4));
            if dice.random_range(0..3) == 0 {
                let amount = dice.random_range(1..1_000);
                if dice.random_range(0..3) == 0 {
                    ledger.two_steps(&mut dice, &user, &format!("m{step}"), at, amount);
                    continue;
                }
                let sk = ["DEPOSIT", "WITHDRAW"][usize::from(dice.random::<bool>())];
                let (from, to) = ("external".to_owned(), format!("wallet:{user}"));
                let (from, to) = if sk == "DEPOSIT" { (from, to) } else { (to, from) };
                ledger.movement(&user, &format!("{sk}#m{step}"), at, amount, 0, [from, to]);
            } else {
                ledger.packet(&mut dice, &user, at);
            }
        }
        for (user, balance) in &ledger.wallets {
            let [balance, pending] =
                [*balance, ledger.pending.get(user).copied().unwrap_or(0)].map(|sum| json!({"N": sum.to_string()}));
            let item = json!({
                "PK": {"S": format!("USER#{user}")}, "SK": {"S": "WALLET"}, "balance": balance, "pending": pending,
            });
            ledger.items.push(item);
        }
        ledger.items.shuffle(&mut dice);
        ledger
    }

    fn packet(&mut self, dice: &mut StdRng, sender: &str, at: u64) {
        let id = PacketId::new(Timestamp::from_ms(at), 1, dice.random());
        let amounts: Vec<u64> = (0..dice.random_range(1..6)).map(|_| dice.random_range(1..500)).collect();
        let (total, account) = (amounts.iter().sum(), format!("packet:{id}"));
        self.items.push(json!({
            "PK": {"S": format!("PACKET#{id}")}, "SK": {"S": "META"}, "currency": {"S": "CNY"},
            "total_amount": {"N": u64::to_string(&total)}, "created_at": {"N": at.to_string()},
            "starts_at": {"N": at.to_string()}, "ack": {"S": "ledger"},
        }));
        self.movement(sender, &format!("SENT#{id}"), at, total, 0, [format!("wallet:{sender}"), account.clone()]);
        for (slip, amount) in amounts.into_iter().enumerate() {
            let at = at + dice.random_range(0..90_000_000);
            let decision = |user: Option<&str>| {
                let mut item = json!({
                    "PK": {"S": format!("SLIPS#{id}#0")}, "SK": {"S": format!("{slip:06}")},
                    "amount": {"N": amount.to_string()}, "at": {"N": at.to_string()},
                });
                if let Some(user) = user {
                    item["user_id"] = json!({"S": user});
                }
                item
            };
            match dice.random_range(0..3) {
                0 => {}
                1 => {
                    self.items.push(decision(None));
                    let to = format!("wallet:{sender}");
                    self.movement(sender, &format!("REFUND#{id}#{slip:06}"), at, amount, 1, [account.clone(), to]);
                }
                _ => {
                    let user = format!("w{slip}");
                    self.items.push(decision(Some(&user)));
                    let to = format!("wallet:{user}");
                    self.movement(&user, &format!("CLAIM#{id}"), at, amount, 1, [account.clone(), to]);
                }
            }
        }
    }

    fn movement(&mut self, user: &str, sk: &str, at: u64, amount: u64, slips: u64, [from, to]: [String; 2]) {
        let mut item = json!({
            "PK": {"S": format!("USER#{user}")}, "SK": {"S": sk}, "slip_count": {"N": slips.to_string()},
            "amount": {"N": amount.to_string()}, "at": {"N": at.to_string()},
        });
        self.items.push(item.clone());
        if let Some((kind @ ("DEPOSIT" | "REFUND" | "WITHDRAW"), name)) = sk.split_once('#') {
            item["SK"] = json!({"S": format!("AT#{kind}#{at:013}#{name}")});
            self.items.push(item);
        }
        self.transfer(at, amount, [from, to]);
    }

    /// A withdrawal in two steps, which may have ended.
    fn two_steps(&mut self, dice: &mut StdRng, user: &str, id: &str, at: u64, amount: u64) {
        let [wallet, pending] = ["wallet", "pending"].map(|class| format!("{class}:{user}"));
        self.transfer(at, amount, [wallet.clone(), pending.clone()]);
        let number = |number: u64| json!({"N": number.to_string()});
        let mut item = json!({
            "PK": {"S": format!("USER#{user}")}, "SK": {"S": format!("WITHDRAW#{id}")}, "amount": number(amount),
            "at": number(at), "status": {"S": "pending"}, "due_shard": number(16), "due_at": number(at),
        });
        let (end, ended_at) = (dice.random_range(0..3), at + dice.random_range(0..90_000_000));
        if end > 0 {
            item.as_object_mut().unwrap().retain(|name, _| !name.starts_with("due"));
            item["ended_at"] = number(ended_at);
            item["status"] = json!({"S": "voided"});
            self.transfer(ended_at, amount, [pending, wallet.clone()]);
        }
        let paid = if end == 2 { dice.random_range(1..=amount) } else { 0 };
        if paid > 0 {
            item["status"] = json!({"S": "posted"});
            item["posted_amount"] = number(paid);
            self.transfer(ended_at, paid, [wallet, "external".to_owned()]);
        }
        let mut copies = vec![(format!("AT#WITHDRAW#{at:013}#{id}"), item.clone())];
        if end > 0 && paid < amount {
            let back = json!({"PK": item["PK"], "amount": number(amount - paid), "at": number(ended_at)});
            copies.push((format!("AT#RETURN#{ended_at:013}#{id}"), back));
        }
        self.items.push(item);
        for (sk, mut copy) in copies {
            copy["SK"] = json!({"S": sk});
            self.items.push(copy);
        }
    }

    fn transfer(&mut self, at: u64, amount: u64, [from, to]: [String; 2]) {
        let day = day();
        self.in_day += usize::from((day.start..day.end).contains(&at));
        for (account, amount) in [(from, -i128::from(amount)), (to, i128::from(amount))] {
            if let Some(user) = account.strip_prefix("wallet:") {
                *self.wallets.entry(user.to_owned()).or_default() += amount;
            }
            if let Some(user) = account.strip_prefix("pending:") {
                *self.pending.entry(user.to_owned()).or_default() += amount;
            }
            if at < day.end {
                *self.accounts.entry(account).or_default() += amount;
            }
        }
    }

    /// The sum of all accounts whose names begin with `class`.
    fn held(&self, class: &str) -> i128 {
        let of_class = self.accounts.iter().filter(|(account, _)| account.starts_with(class));
        of_class.map(|(_, balance)| balance).sum()
    }
}

fn day() -> Span {
    span(&DayZone::UTC, DAY.parse().unwrap(), None).unwrap()
}

fn options() -> Journal {
    Journal {
        day: DAY.parse().unwrap(),
        day_zone: DayZone::UTC,
        export: None,
        output: None,
        previous: None,
        unfinished: false,
        currency: "CNY".to_owned(),
    }
}

fn tally(ledger: &Ledger) -> Tally {
    let mut tally = Tally::new(day(), "CNY").unwrap();
    for item in &ledger.items {
        tally.enter(&serde_json::from_value(item.clone()).unwrap()).unwrap();
    }
    tally
}

#[derive(Debug, serde::Deserialize)]
struct Line {
    time: String,
    kind: String,
    user: String,
    id: String,
    debit: String,
    credit: String,
    amount: u64,
}

/// The journal of a ledger: the summary, and the lines.
fn journal(ledger: &Ledger) -> (Summary, Vec<Line>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book");
    let mut tally = tally(ledger);
    let read = Read { source: "t".to_owned(), at: String::new(), items: tally.items };
    let summary = summary(&options(), day(), read, true, false, &mut tally).unwrap();
    book::write(&path, &tally.movements, &summary).unwrap();
    let text = std::fs::read_to_string(path.join(LINES)).unwrap();
    let read = read_summary(&path).unwrap();
    assert_eq!((&read.closing, &read.problems), (&summary.closing, &summary.problems));
    (summary, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_ledger_has_a_balanced_journal(seed: u64, steps in 0_u32..60) {
        let ledger = Ledger::random(seed, steps);
        let (summary, lines) = journal(&ledger);
        prop_assert_eq!(lines.len(), ledger.in_day);
        let order = |line: &Line| (line.time.clone(), line.kind.clone(), line.user.clone(), line.id.clone());
        prop_assert!(lines.is_sorted_by_key(order));
        let Classes { external, wallets, pending, packets } = summary.closing.accounts;
        prop_assert_eq!(external + wallets + pending + packets, 0);
        let held = ["external", "wallet:", "pending:", "packet:"].map(|class| ledger.held(class));
        prop_assert_eq!(held, [external, wallets, pending, packets]);
        prop_assert_eq!(summary.state.verdict, "equal");
        // Random withdrawals may exceed what was deposited, and slips of the next day's packets don't matter.
        let others = summary.problems.problems.iter().filter(|problem| problem.kind != "negative");
        prop_assert_eq!(others.count(), 0);

        // Opening and entries, account by account, make the closing.
        let mut classes = summary.opening.accounts;
        for line in &lines {
            prop_assert!(line.debit != line.credit && line.amount > 0);
            for (account, amount) in [(&line.debit, -i128::from(line.amount)), (&line.credit, line.amount.into())] {
                *match account.split(':').next().unwrap() {
                    "wallet" => &mut classes.wallets,
                    "pending" => &mut classes.pending,
                    "packet" => &mut classes.packets,
                    _ => &mut classes.external,
                } += amount;
            }
        }
        prop_assert_eq!(classes, summary.closing.accounts);
    }

    #[test]
    fn a_changed_amount_is_always_a_problem(seed: u64, which: usize, more in 1_u64..100) {
        let mut ledger = Ledger::random(seed, 20);
        let amounts = ["amount", "total_amount", "balance", "pending"];
        // The journal of a later day compares what timelines say of later movements.
        let is_compared = |item: &Value| {
            let is_copy = item["SK"]["S"].as_str().unwrap().starts_with("AT#");
            // What a withdrawal in two steps reserves, its end releases: only its copy tells another amount.
            !(is_copy || item["status"].is_object() && item["at"].is_object()) || item["at"]["N"].as_str().unwrap().parse::<u64>().unwrap() < day().end
        };
        let places: Vec<(usize, &str)> = ledger.items.iter().enumerate().filter(|(_, item)| is_compared(item))
            .flat_map(|(n, item)| amounts.into_iter().filter(|name| item.get(name).is_some()).map(move |name| (n, name)))
            .collect();
        let (item, name) = places[which % places.len()];
        let number = &mut ledger.items[item][name]["N"];
        let changed = number.as_str().unwrap().parse::<i128>().unwrap() + i128::from(more);
        *number = changed.to_string().into();
        let (summary, _) = journal(&ledger);
        let found = summary.problems.problems.iter().filter(|problem| problem.kind != "negative");
        prop_assert!(found.count() > 0, "{}: {:?}", ledger.items[item], summary);
    }
}

#[test]
fn a_reading_of_moving_money_is_not_judged_by_its_state() {
    let mut ledger = Ledger::random(1, 10);
    ledger.items.retain(|item| item["SK"]["S"] != "WALLET");
    let verdict = |is_moving| {
        let read = Read { source: "t".to_owned(), at: String::new(), items: 0 };
        let summary = summary(&options(), day(), read, true, is_moving, &mut tally(&ledger)).unwrap();
        let states = summary.problems.problems.iter().filter(|problem| problem.kind == "state").count();
        (summary.state.verdict, states)
    };
    assert_eq!((verdict(true), verdict(false)), (("moving".to_owned(), 0), ("differs".to_owned(), 1)));
}

#[test]
fn a_journal_begins_where_the_one_before_it_ended() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap().ms();
    let day_in =
        |zone: &str, date: &str, previous| span(&zone.parse().unwrap(), date.parse().unwrap(), previous).unwrap();
    for (before, after, from, to) in [
        ("UTC", "UTC", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"),
        ("UTC", "Asia/Shanghai", "2026-11-23T00:00:00Z", "2026-11-23T16:00:00Z"),
        ("Asia/Shanghai", "UTC", "2026-11-22T16:00:00Z", "2026-11-24T00:00:00Z"),
        ("Pacific/Kiritimati", "Pacific/Pago_Pago", "2026-11-22T10:00:00Z", "2026-11-24T11:00:00Z"),
        // The whole day in the east was over before the day in the west ended: its journal is empty.
        ("Pacific/Pago_Pago", "Pacific/Kiritimati", "2026-11-23T11:00:00Z", "2026-11-23T11:00:00Z"),
    ] {
        let previous = day_in(before, "2026-11-22", None);
        let journal = day_in(after, DAY, Some(previous));
        assert_eq!((journal.start, journal.end), (at(from), at(to)), "{before} {after}");
        let next = day_in(after, "2026-11-24", Some(journal));
        assert_eq!((next.start, next.end), (journal.end, day_in(after, "2026-11-24", None).end), "{before} {after}");
    }
}
