//! The audit finds and names everything that is wrong in the ledger, and does not report unfinished work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use audit::{Kind, Progress, Report};
use audit_function::Event;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::domain::{
    Amount, Labels, Mandate, PacketId, Timestamp, UserId, WinLimit, WithdrawalEnd, WithdrawalRequest,
};
use shared::service::{GrabOutcome, NewPacket};
use tests::books::{auditor, full_report};
use tests::{Promises, Setup, World, audit, packet, user, users};
use tokio::time::Instant;

type Item = HashMap<String, AttributeValue>;

/// A change of an item, made directly in the table.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    /// A number grows by one.
    More(&'static str),
    /// A number becomes this.
    Is(&'static str, i64),
    /// An attribute becomes this.
    Says(&'static str, &'static str),
    /// An attribute is removed.
    Without(&'static str),
    /// The start is this.
    /// The first amount grows by one.
    MoreInFirst,
    /// Each amount moves to the slip before.
    Shifted,
    /// The item is removed.
    Gone,
    /// A copy of the item appears under this key, where `{id}` stands for its packet. Without a partition key it keeps
    /// its own.
    Copied(&'static str, &'static str),
}

use Kind::{
    Amounts, ClaimWithoutDecision, Closing, Conservation, Days, Debit, Decision, DecisionWithoutClaim, Index, Limits,
    Malformed, NoWallet, Orphan, Reference, Refunds, SendKeys, Timeline, UnknownItem, Wallet,
};
use Tampering::{Copied, Gone, Is, More, MoreInFirst, Says, Shifted, Without};

/// A packet that does not exist.
const NO_PACKET: &str = "38FS4S83HF3Y07WMYNH727QYT0";

/// Prefixes of keys, the audit's name for what is wrong, and the changes of the items there that make it so.
type Case = (&'static str, &'static str, Kind, &'static [Tampering]);

const CASES: [Case; 74] = [
    ("USER#ann", "WALLET", Wallet, &[More("balance"), Is("balance", -1), More("claim_count"), More("claim_amount")]),
    ("USER#ann", "WALLET", Malformed, &[Says("balance", "much")]),
    ("USER#ann", "WALLET", NoWallet, &[Gone]),
    ("USER#sam", "WALLET", Wallet, &[More("balance"), More("sent_count"), More("sent_amount")]),
    ("USER#sam", "WALLET", NoWallet, &[Gone]),
    ("USER#sam", "DEPOSIT#", Wallet, &[More("amount"), Gone, Copied("", "WITHDRAW#x"), Copied("", "DEPOSIT#x")]),
    ("USER#pay", "WALLET", Wallet, &[More("pending"), Is("pending", -1), Without("pending")]),
    ("USER#pay", "WITHDRAW#", Timeline, &[More("amount"), Gone, Says("by", "arn:aws:iam::123456789012:user/eve")]),
    ("USER#pay", "WITHDRAW#", Malformed, &[Says("status", "half"), Is("due_shard", 3), Without("amount")]),
    ("USER#pay", "AT#RETURN#", Timeline, &[More("amount"), Gone]),
    ("USER#sam", "DEPOSIT#", UnknownItem, &[Copied("", "GIFT#x")]),
    ("USER#", "AT#", Timeline, &[More("amount"), Says("by", "arn:aws:iam::123456789012:user/eve"), Without("amount")]),
    ("USER#", "AT#", Timeline, &[Gone]),
    ("USER#", "AT#", Malformed, &[More("at"), Copied("", "AT#DEPOSIT#0000000000007#x")]),
    ("USER#", "AT#", UnknownItem, &[Copied("", "AT#DEPOSIT#7#x"), Copied("", "AT#SENT#0000000000007#x")]),
    ("USER#sam", "SENT#", Debit, &[More("amount"), More("at"), Gone, Copied("USER#tom", "SENT#{id}")]),
    ("USER#sam", "SENT#", Days, &[Without("day")]),
    ("USER#sam", "SENT#", NoWallet, &[Copied("USER#zoe", "SENT#{id}")]),
    ("USER#sam", "DAY#", Days, &[More("sent_amount"), More("sent_count"), Gone, Copied("", "DAY#2027-01-01")]),
    ("USER#sam", "DAY#", Malformed, &[Without("sent_count")]),
    ("USER#sam", "DAY#", UnknownItem, &[Copied("", "DAY#2027-1-1")]),
    ("USER#sam", "KEY#", SendKeys, &[Gone, Copied("", "KEY#x")]),
    ("USER#sam", "REFUND#", Refunds, &[More("amount"), More("slip_count"), More("at"), Gone]),
    ("USER#sam", "REFUND#", Refunds, &[Copied("", "REFUND#{id}#000009"), Copied("USER#tom", "REFUND#{id}#000009")]),
    ("USER#sam", "REFUND#", Malformed, &[Without("amount")]),
    ("USER#sam", "REFUND#", Orphan, &[Copied("", "REFUND#38FS4S83HF3Y07WMYNH727QYT0#000000")]),
    ("USER#ann", "CLAIM#", ClaimWithoutDecision, &[More("amount"), More("at"), More("slip")]),
    ("USER#ann", "CLAIM#", ClaimWithoutDecision, &[Copied("USER#tom", "CLAIM#{id}")]),
    ("USER#ann", "CLAIM#", DecisionWithoutClaim, &[More("amount"), Says("greeting", "x"), Says("sender_id", "x")]),
    ("USER#ann", "CLAIM#", DecisionWithoutClaim, &[Gone]),
    ("USER#ann", "CLAIM#", Wallet, &[Gone]),
    ("USER#ann", "CLAIM#", Orphan, &[Copied("", "CLAIM#38FS4S83HF3Y07WMYNH727QYT0")]),
    ("SLIPS#", "", Decision, &[More("amount"), More("slip"), Copied("SLIPS#{id}#0", "000010")]),
    ("SLIPS#", "", Decision, &[Copied("SLIPS#{id}#1", "000077")]),
    ("SLIPS#", "", Conservation, &[More("amount")]),
    ("SLIPS#", "", DecisionWithoutClaim, &[Says("user_id", "zoe")]),
    ("SLIPS#", "", Malformed, &[Without("at")]),
    ("SLIPS#", "", UnknownItem, &[Copied("", "000077")]),
    ("SLIPS#", "", Orphan, &[Copied("SLIPS#38FS4S83HF3Y07WMYNH727QYT0#0", "000000")]),
    ("SLIPS#", "of ann", ClaimWithoutDecision, &[Gone, More("at")]),
    ("SLIPS#", "of ann", Refunds, &[Without("user_id")]),
    ("SLIPS#", "refunded", Refunds, &[Gone, More("at")]),
    ("SLIPS#", "refunded", Closing, &[Gone]),
    ("PACKET#", "META", Amounts, &[More("total_amount"), More("slip_count"), Is("slip_cap", 1)]),
    ("PACKET#", "META", Malformed, &[Is("slip_count", 0), Is("slip_count", 4_000_000_000), Says("status", "half")]),
    ("PACKET#", "META", Malformed, &[Says("seed", "x"), Says("packet_id", NO_PACKET), Says("reference", "a b")]),
    ("PACKET#", "META", Reference, &[Says("reference", "order-18")]),
    ("PACKET#", "META", Orphan, &[Gone]),
    ("PACKET#", "open", Index, &[Without("due_shard"), Is("due_shard", 16), Is("due_at", 1)]),
    ("PACKET#", "open", Malformed, &[Is("closed_at", 1)]),
    ("PACKET#", "closed", Index, &[Without("due_shard"), Is("due_at", 1)]),
    ("PACKET#", "closed", Malformed, &[Without("closed_at"), Without("close_reason"), Says("status", "open")]),
    ("PACKET#", "starting", Malformed, &[Says("starts_at", "soon"), Is("starts_at", 1), Without("ack")]),
    ("PACKET#", "starting", Malformed, &[Is("starts_at", 9_999_999_999_999)]),
    ("PACKET#", "settled", Index, &[Is("due_shard", 3)]),
    ("PACKET#", "settled", Closing, &[More("claimed_count"), More("claimed_amount"), More("refunded_count")]),
    ("PACKET#", "settled", Closing, &[More("refunded_amount"), More("best_amount"), Says("best_user", "zoe")]),
    ("PACKET#", "settled", Closing, &[Without("best_slip")]),
    ("PACKET#", "settled", Malformed, &[Without("settled_at"), Says("settled_at", "soon"), Says("status", "open")]),
    ("USER#ann", "LIMIT#", Limits, &[More("wins"), More("amount"), Gone, Copied("", "LIMIT#sam#other")]),
    ("USER#ann", "LIMIT#", Malformed, &[Without("wins")]),
    ("USER#ann", "LIMIT#", UnknownItem, &[Copied("", "LIMIT#sam")]),
    ("USER#ann", "CLAIM#", Limits, &[Without("limit_key"), Says("limit_key", "other")]),
    ("PACKET#", "META", Malformed, &[Says("limit", "x")]),
    ("LIMIT#", "", Reference, &[Gone, More("at"), Without("packet_id")]),
    ("LIMIT#", "", Reference, &[Copied("LIMIT#sam#other", "{id}"), Copied("LIMIT#tom#k", "{id}")]),
    ("LIMIT#", "", Orphan, &[Copied("", NO_PACKET)]),
    ("REF#", "", Reference, &[Gone, More("at"), Without("packet_id"), Says("packet_id", NO_PACKET)]),
    ("REF#", "", Reference, &[Copied("REF#order-18", "{id}")]),
    ("REF#", "", Orphan, &[Copied("", NO_PACKET)]),
    ("REF#", "", UnknownItem, &[Copied("REF#a b", "{id}"), Copied("WEBHOOK#ANOTHER", "STATE")]),
    ("PART#", "AMOUNTS", Amounts, &[Gone, Without("amounts"), MoreInFirst, Copied("PART#{id}#1", "AMOUNTS")]),
    ("PART#", "AMOUNTS", Decision, &[Shifted]),
    ("PART#", "AMOUNTS", Orphan, &[Copied("PART#38FS4S83HF3Y07WMYNH727QYT0#0", "AMOUNTS")]),
];

/// A ledger with a deposit, a withdrawal, and three packets: one settled with claims and a refund; one, which had a start, still open; one
/// closed. One sender is suspended, and so is a user without money.
async fn ledger() -> World {
    let world = World::single().await;
    let process = world.process_with(Setup { daily_max: Some(Amount::new(5_000)), ..Setup::default() });
    let promises = Promises::default();
    let labels = Labels { reference: Some("order-17".parse().unwrap()), ..Labels::default() };
    let limit = Some(WinLimit { key: "k".parse().unwrap(), wins: Some(2), amount: None });
    let over = process.send_funded(NewPacket { labels, limit, ..packet(&user("sam"), 1_000, 10) }).await;
    for name in ["ann", "bob"] {
        promises.grab(&process, over.id, &user(name)).await.unwrap();
    }
    let late = world.process();
    late.clock.set_ahead(Duration::from_hours(2));
    late.settle().await;
    let open = packet(&user("tom"), 1_000, 10);
    process.fund(&open.sender, 1_000).await;
    let starts_at = Some(Timestamp::from_ms(world.now_ms()).after(Duration::from_secs(1)));
    let open = process.send(NewPacket { starts_at, ..open }).await;
    while let GrabOutcome::NotStarted { retry_after, .. } = process.grab(open.id, &user("eve")).await.unwrap() {
        tokio::time::sleep(retry_after).await;
    }
    for name in ["eve", "fay", "gus"] {
        promises.grab(&process, open.id, &user(name)).await.unwrap();
    }
    let closed = process.send_funded(packet(&user("zed"), 1_000, 10)).await;
    for name in ["hal", "ivy", "jan"] {
        promises.grab(&process, closed.id, &user(name)).await.unwrap();
    }
    process.close.close(closed.id, "x".parse().unwrap(), None).await.unwrap().unwrap();
    for name in ["sam", "nobody"] {
        process.wallets.suspend(&user(name), "x".parse().unwrap(), true, Mandate::default()).await.unwrap();
    }
    let w1 = WithdrawalRequest::at_once("w1".parse().unwrap(), Amount::new(1));
    process.wallets.withdraw(&user("bob"), &w1, None).await.unwrap();
    let pay = user("pay");
    process.fund(&pay, 100).await;
    for (id, end) in [
        ("pending", None),
        ("posted", Some(WithdrawalEnd::Post(Some(Amount::new(6))))),
        ("voided", Some(WithdrawalEnd::Void(None))),
    ] {
        let request = WithdrawalRequest::pending(id.parse().unwrap(), Amount::new(10));
        process.wallets.withdraw(&pay, &request, None).await.unwrap();
        if let Some(end) = end {
            process.wallets.end_withdrawal(&pay, &request.id, end, None).await.unwrap();
        }
    }
    promises.are_kept(&audit(&world).await);
    world
}

fn text(value: &AttributeValue) -> &str {
    value.as_s().unwrap()
}

/// Whether a case applies to an item. Instead of a sort key a case may name a kind of item.
fn is_meant(item: &Item, pk: &str, which: &str) -> bool {
    let says = |name: &str, what: &str| item.get(name).is_some_and(|value| value.as_s().is_ok_and(|said| said == what));
    text(&item["PK"]).starts_with(pk)
        && match which {
            "of ann" => says("user_id", "ann"),
            "refunded" => !item.contains_key("user_id"),
            "open" | "settled" => says("status", which),
            "closed" => item.contains_key("closed_at"),
            "starting" => item.contains_key("starts_at"),
            sk => text(&item["SK"]).starts_with(sk),
        }
}

/// The packet that an item belongs to.
fn packet_of(item: &Item) -> String {
    match item.get("packet_id") {
        Some(id) => text(id).to_owned(),
        None => text(&item["PK"]).split('#').nth(1).unwrap().to_owned(),
    }
}

/// The item after `tampering`; `None`: the item was removed, or the change does not apply to it.
fn tampered(item: &Item, tampering: Tampering) -> Option<Item> {
    let mut changed = item.clone();
    let named = |template: &str| AttributeValue::S(template.replace("{id}", &packet_of(item)));
    let changed_amounts = |change: fn(&mut [u8])| {
        let mut bytes = item["amounts"].as_b().unwrap().as_ref().to_vec();
        change(&mut bytes);
        AttributeValue::B(Blob::new(bytes))
    };
    match tampering {
        More(name) => {
            let number: u64 = item.get(name)?.as_n().unwrap().parse().unwrap();
            changed.insert(name.to_owned(), AttributeValue::N((number + 1).to_string()));
        }
        Is(name, number) => drop(changed.insert(name.to_owned(), AttributeValue::N(number.to_string()))),
        Says(name, what) => drop(changed.insert(name.to_owned(), AttributeValue::S(what.to_owned()))),
        Without(name) => drop(changed.remove(name)?),
        MoreInFirst => {
            let more = |bytes: &mut [u8]| bytes[1] = bytes[1].wrapping_add(1);
            changed.insert("amounts".to_owned(), changed_amounts(more));
        }
        Shifted => {
            // All amounts move, so that claimed slips are among them. The sum stays, and every amount stays within its
            // limits.
            let shift = |bytes: &mut [u8]| {
                let width = usize::from(bytes[0]);
                bytes[1..].rotate_left(width);
            };
            changed.insert("amounts".to_owned(), changed_amounts(shift));
        }
        Gone => return None,
        Copied(pk, sk) => {
            if !pk.is_empty() {
                changed.insert("PK".to_owned(), named(pk));
            }
            changed.insert("SK".to_owned(), named(sk));
        }
    }
    Some(changed)
}

async fn put(world: &World, item: &Item) {
    world.dynamodb.put_item().table_name(world.table()).set_item(Some(item.clone())).send().await.unwrap();
}

async fn delete(world: &World, item: &Item) {
    let delete = world.dynamodb.delete_item().table_name(world.table());
    delete.key("PK", item["PK"].clone()).key("SK", item["SK"].clone()).send().await.unwrap();
}

async fn items(world: &World) -> Vec<Item> {
    world.dynamodb.scan().table_name(world.table()).send().await.unwrap().items.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_wrong_is_found_and_named() {
    let world = ledger().await;
    let all = items(&world).await;
    let seeds: Vec<&str> = all.iter().filter_map(|item| Some(text(item.get("seed")?))).collect();
    let mut count = 0;
    for (pk, which, kind, tamperings) in CASES {
        for tampering in tamperings {
            let mut matched = 0;
            for item in all.iter().filter(|item| is_meant(item, pk, which)) {
                let changed = tampered(item, *tampering);
                match &changed {
                    Some(changed) => put(&world, changed).await,
                    None if matches!(tampering, Gone) => delete(&world, item).await,
                    None => continue,
                }
                matched += 1;
                let report = full_report(&world).await;
                let named = report.imbalances.iter().any(|imbalance| imbalance.kind == kind);
                let said = serde_json::to_string(&report).unwrap();
                assert!(seeds.iter().all(|seed| !said.contains(*seed)), "{said}");
                assert!(named, "{tampering:?} of {item:?} is not reported as {kind:?}: {report:#?}");
                if let Some(changed) = changed {
                    delete(&world, &changed).await;
                }
                put(&world, item).await;
            }
            assert!(matched > 0, "{tampering:?}: no {pk} / {which}");
            count += matched;
        }
    }
    println!("{count} tamperings");
    audit(&world).await;
}

/// Sends, grabs, withdraws and settles until it is stopped; counts what it did.
struct Traffic {
    stop: AtomicBool,
    grabbed: AtomicU64,
    refunded: AtomicU64,
}

impl Traffic {
    /// Packets of one sender, each grabbed by some of the same users. Counts the claims.
    async fn rush(&self, world: &World, sender: UserId, users: &[UserId]) {
        let process = world.process();
        let mut round = 0;
        while !self.stop.load(Ordering::SeqCst) {
            round += 1;
            let mut short = packet(&sender, 10_000, 12);
            short.expires_in = Duration::from_millis(200);
            short.labels.reference = Some("order-17".parse().unwrap());
            let terms = process.send_funded(short).await;
            let grabs = users.iter().map(|user| process.grab(terms.id, user));
            let grabbed = futures::future::join_all(grabs).await;
            for (user, grab) in users.iter().zip(grabbed) {
                if matches!(grab, Ok(GrabOutcome::Grabbed { .. })) {
                    self.grabbed.fetch_add(1, Ordering::SeqCst);
                    let id = format!("{sender}-{round}").parse().unwrap();
                    let request = WithdrawalRequest::at_once(id, Amount::new(1));
                    process.wallets.withdraw(user, &request, None).await.unwrap();
                }
            }
        }
    }

    async fn settle(&self, world: &World) {
        let process = world.process();
        while !self.stop.load(Ordering::SeqCst) {
            self.refunded.fetch_add(process.settle().await.refunded_slips, Ordering::SeqCst);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_false_alarm_while_money_moves() {
    const AUDITS: usize = 12;
    let world = World::single().await;
    let traffic =
        Arc::new(Traffic { stop: false.into(), grabbed: AtomicU64::default(), refunded: AtomicU64::default() });
    let grabbers = users("u", 9);
    let begun = world.now_ms();
    let rushes = users("sender", 3).into_iter().map(|sender| traffic.rush(&world, sender, &grabbers));
    let watching = async {
        let auditor = auditor(&world);
        let (mut round, mut moved) = (0, 0);
        // On a slow machine it may take more audits to see every kind of movement.
        let give_up = Instant::now() + Duration::from_mins(2);
        let has_seen_all = |moved| moved > 0 && traffic.refunded.load(Ordering::SeqCst) > 0;
        while round < AUDITS || !has_seen_all(moved) && Instant::now() < give_up {
            let progress = if round % 3 == 2 { Progress::since(begun, 2) } else { Progress::full(3) };
            let before = traffic.grabbed.load(Ordering::SeqCst);
            let done = auditor.run(progress.unwrap(), Instant::now() + Duration::from_mins(1)).await.unwrap();
            moved += traffic.grabbed.load(Ordering::SeqCst) - before;
            assert!(done.is_done(), "the audits take too long");
            assert!(done.report().is_balanced(), "audit {round}: {:#?}", done.report());
            round += 1;
        }
        traffic.stop.store(true, Ordering::SeqCst);
        (round, moved)
    };
    let ((audits, moved), (), _) =
        futures::future::join3(watching, traffic.settle(&world), futures::future::join_all(rushes)).await;
    let refunded = traffic.refunded.load(Ordering::SeqCst);
    assert!(moved > 0 && refunded > 0, "{moved} slips were claimed meanwhile, {refunded} refunded");
    println!("{audits} audits, {moved} claims and {refunded} refunds meanwhile");
    audit(&world).await;
}

/// Runs an audit in pieces of `budget`. Each piece resumes from the event that the one before answered.
async fn in_pieces(world: &World, budget: Duration) -> (Report, usize) {
    let auditor = auditor(world);
    let mut event: Event = serde_json::from_str(r#"{"full": true}"#).unwrap();
    let (mut budget, mut last) = (budget, String::new());
    for runs in 1.. {
        let answer = audit_function::handle(&auditor, event, 0, Instant::now() + budget).await.unwrap();
        let Some(next) = answer.next else { return (answer.report, runs) };
        let next = serde_json::to_string(&next).unwrap();
        if next == last {
            // On a slow machine this budget may be too small for any progress.
            budget *= 2;
        }
        event = serde_json::from_str(&next).unwrap();
        last = next;
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_continues_where_a_deadline_stopped_it() {
    const WALLETS: usize = 600;
    let world = World::single().await;
    let process = world.process();
    for user in users("u", WALLETS) {
        process.fund(&user, 7).await;
    }
    let whole = full_report(&world).await;
    assert_eq!((whole.figures.wallets, whole.figures.deposited), (WALLETS as u64, 7 * WALLETS as u64));
    let mut budget = Duration::from_millis(5);
    let mut runs_most = 0;
    loop {
        let (report, runs) = in_pieces(&world, budget).await;
        runs_most = runs_most.max(runs);
        assert_eq!(report.imbalance_count, 0, "{report:?}");
        assert!(report.figures.wallets + report.unjudged_count >= WALLETS as u64, "items were left out: {report:?}");
        if report.unjudged_count == 0 {
            assert_eq!(report, whole, "after {runs} runs");
            break;
        }
        // Unjudged items did not fit into a run. With more time they do.
        budget *= 2;
    }
    assert!(runs_most > 1, "no run was cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_changed_is_audited() {
    let world = World::single().await;
    let (before, after) = (world.process(), world.process());
    after.clock.set_ahead(Duration::from_hours(100));
    let since = world.now_ms() + 50 * 3_600_000;
    let old = before.send_funded(packet(&user("old"), 100, 1)).await;
    before.grab(old.id, &user("ann")).await.unwrap();
    let new = after.send_funded(packet(&user("new"), 100, 1)).await;
    after.settle_range(0..=255).await;
    after.fund(&user("bob"), 5).await;

    let report = async || {
        let progress = Progress::since(since, 2).unwrap();
        let done = auditor(&world).run(progress, Instant::now() + Duration::from_mins(1)).await.unwrap();
        done.report().clone()
    };
    let clean = report().await;
    assert!(clean.is_balanced(), "{clean:?}");
    // The old packet was settled before that time.
    assert_eq!((clean.figures.packets, clean.figures.wallets), (1, 2), "{clean:?}");

    let all = items(&world).await;
    let wallet = |name: &str| all.iter().find(|item| is_meant(item, &format!("USER#{name}"), "WALLET")).unwrap();
    put(&world, &tampered(wallet("ann"), More("balance")).unwrap()).await;
    assert!(report().await.is_balanced(), "ann's wallet did not change");
    put(&world, &tampered(wallet("bob"), More("balance")).unwrap()).await;
    let of_packet = |id: PacketId| all.iter().find(|item| is_meant(item, &format!("PACKET#{id}"), "META")).unwrap();
    put(&world, &tampered(of_packet(new.id), More("total_amount")).unwrap()).await;
    let found = report().await;
    let keys: Vec<&str> = found.imbalances.iter().map(|imbalance| &*imbalance.key).collect();
    assert!(keys.contains(&"USER#bob / WALLET") && keys.contains(&&*format!("PACKET#{} / META", new.id)), "{keys:?}");
    assert!(!keys.contains(&"USER#ann / WALLET"), "{keys:?}");
}
