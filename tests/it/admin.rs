//! `hongbao-admin`: the program itself, over real stores.

mod person;
mod plan;
mod story;
mod via;
mod webhooks;

use std::process::Output;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use redis::cmd;
use serde_json::{Value, json};
use shared::domain::{AckMode, Hold, Mandate, PartId, Terms, Timestamp};
use shared::ports::HotStore;
use shared::redis::{PartKeys, fields};
use shared::service::{GrabOutcome, NewPacket};
use tests::hot::hold_only;
use tests::{Process, Setup, World, audit, packet, user, users};
use tokio::process::Command;

use crate::programs::built;

/// The program's output and exit code.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub text: String,
    pub errors: String,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// # Panics
    /// If the exit code differs.
    #[track_caller]
    pub fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// The only line that begins with `start`, its columns separated by one space.
    #[track_caller]
    pub fn line(&self, start: &str) -> String {
        let lines = self.text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let mut lines = lines.filter(|line| line.starts_with(start));
        let line = lines.next().unwrap_or_else(|| panic!("no line {start}: {}", self.text));
        assert_eq!(lines.next(), None, "{start}");
        line
    }
}

/// Runs the program with these arguments and no environment, over a world.
pub async fn admin(world: &World, arguments: &[&str]) -> Said {
    let (redis, dynamodb) = (world.redis.nodes()[0].url(), world.dynamodb_url());
    let stores = ["--redis-url", &redis, "--dynamodb-url", &dynamodb, "--table", world.table()];
    run(Command::new(built("hongbao-admin")).args(stores).args(arguments).env_clear()).await
}

async fn run(command: &mut Command) -> Said {
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let said = Said { code: status.code(), text: text(stdout), errors: text(stderr) };
    println!("{}{}", said.text, said.errors);
    said
}

fn only_part(terms: &Terms) -> PartId {
    PartId { packet: terms.id, index: 0 }
}

async fn add_to_balance(world: &World, name: &str) {
    let update = world.dynamodb.update_item().table_name(world.table()).update_expression("ADD balance :one");
    let update = update.key("PK", AttributeValue::S(format!("USER#{name}")));
    let update = update.key("SK", AttributeValue::S("WALLET".to_owned()));
    update.expression_attribute_values(":one", AttributeValue::N("1".to_owned())).send().await.unwrap();
}

#[tokio::test]
async fn the_audit_exits_with_its_result() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sam"), 1_000, 4)).await;
    process.grab(terms.id, &user("ann")).await.unwrap();
    let good = admin(&world, &["audit"]).await.with(0);
    for line in ["packets 1", "slips 4", "wallets 2", "movements 3", "imbalance_count 0", "unjudged_count 0"] {
        assert_eq!(good.line(line.split(' ').next().unwrap()), line);
    }
    let json = admin(&world, &["audit", "--since", "1h", "--json"]).await.with(0).json();
    assert_eq!((&json["packets"], &json["imbalances"]), (&json!(1), &json!([])));

    add_to_balance(&world, "ann").await;
    let bad = admin(&world, &["audit"]).await.with(1);
    assert!(bad.line("wallet ").starts_with("wallet USER#ann / WALLET balance "), "{bad:?}");
    assert_eq!(bad.line("imbalance_count"), "imbalance_count 1");

    let place = format!("the table nowhere at {}", world.dynamodb_url());
    let missing = admin(&world, &["audit", "--table", "nowhere"]).await.with(2);
    let begins =
        format!("reading {place}\nerror: {place}: the table was not read to its end: the table did not answer: ");
    assert!(missing.errors.starts_with(&begins), "{missing:?}");
    let no_redis = run(Command::new(built("hongbao-admin")).arg("parked").env_clear()).await.with(2);
    assert!(no_redis.errors.contains("REDIS_URL is required"), "{no_redis:?}");
}

#[tokio::test]
async fn an_error_names_the_store_and_where_it_is() {
    let world = World::single().await;
    let id = "38FS4S83HF3Y07WMYNH727QYT0";
    let dynamodb = admin(&world, &["packet", id, "--dynamodb-url", "http://127.0.0.1:1"]).await.with(2);
    let begins = format!("error: the table {} at http://127.0.0.1:1: a store did not answer: ", world.table());
    assert!(dynamodb.errors.starts_with(&begins), "{dynamodb:?}");
    let redis = admin(&world, &["parked", "--redis-url", "redis://ann:hunter2@127.0.0.1:1"]).await.with(2);
    assert!(redis.errors.starts_with("error: the hot store at 127.0.0.1:1 is unavailable: "), "{redis:?}");
    assert!(!redis.errors.contains("hunter2"), "{redis:?}");
    let single = admin(&world, &["parked", "--redis-cluster"]).await.with(2);
    assert!(single.errors.starts_with("error: the hot store at 127.0.0.1:"), "{single:?}");
    assert!(single.errors.ends_with(" is no cluster: leave out --redis-cluster, or set REDIS_CLUSTER=false\n"));
}

#[tokio::test]
async fn a_packet_is_shown_in_both_stores_without_its_secrets() {
    let world = World::single().await;
    let process = world.process();
    let mut plain = packet(&user("sam"), 1_000, 5);
    plain.passphrase = Some(shared::domain::Passphrase::new("芝麻开门"));
    let terms = process.send_funded(plain).await;
    let part = only_part(&terms);
    for name in ["ann", "bob"] {
        process.grab_saying(terms.id, &user(name), "芝麻开门").await.unwrap();
    }
    let id = terms.id.to_string();
    let first = admin(&world, &["packet", &id]).await.with(0);
    for line in [
        "claimed_count 2",
        "refunded_count 0",
        "undecided_count 3",
        "parts free 3, held 0, known 2, loaded true",
        "has_passphrase true",
        "differences 0",
    ] {
        assert_eq!(first.line(line.split(' ').next().unwrap()), line);
    }

    let books = audit(&world).await;
    let (slip, amount, _) = books.packet(terms.id).claims["ann"];
    assert!(first.line(&format!("{slip} {amount} claimed by ann ")).ends_with(" known"));
    let free = (0..5).find(|slip| !books.packet(terms.id).decisions.contains_key(slip)).unwrap();
    assert_eq!(first.line(&format!("{free} undecided")), format!("{free} undecided free"));

    // A rollback of one decision, and the loss of a slip.
    world.forget_decision(&terms, part, slip, Some(&user("ann"))).await;
    world.lose_free(part, free).await;
    let differing = admin(&world, &["packet", &id]).await.with(0);
    assert_eq!((differing.line("differences"), differing.text.matches("<>").count()), ("differences 2".to_owned(), 2));
    let json = admin(&world, &["packet", &id, "--json"]).await.with(0).json();
    assert_eq!((&json["differences"], &json["status"]), (&json!(2), &json!("open")));
    let of_free = &json["slips"][free as usize];
    assert_eq!((&of_free["amount"], &of_free["redis"]), (&Value::Null, &json!("broken")));

    for said in [first.text, differing.text, json.to_string()] {
        let digest = hex(terms.guard.passphrase.unwrap().0);
        assert!(!said.contains(&digest) && !said.contains(&hex(terms.seed.0)), "{said}");
    }
    let none = admin(&world, &["packet", "38FS4S83HF3Y07WMYNH727QYT0"]).await.with(2);
    assert_eq!(none.errors, "error: there is no packet 38FS4S83HF3Y07WMYNH727QYT0\n");
}

fn hex(bytes: [u8; 32]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Takes a slip for `name` like a function that died, and parks the hold.
async fn park(process: &Process, part: PartId, name: &str) -> Hold {
    let (slip, at) = hold_only(process, part, &[user(name)]).await[0];
    let hold = Hold { slip, user: user(name), at: Timestamp::from_ms(at) };
    process.hot.park(part, &hold, "the ledger was wrong").await.unwrap();
    hold
}

#[tokio::test]
async fn parked_holds_are_listed_and_tried_again() {
    let world = World::single().await;
    // A hold that Redis acknowledged is not refunded while it is parked.
    let process = world.process_with(Setup { ack: AckMode::Redis, ..Setup::default() });
    assert_eq!(admin(&world, &["parked"]).await.with(0).text, "no parked holds\n");
    let (redis, dynamodb) = (world.redis.nodes()[0].url(), world.dynamodb_url());
    let variables = [("REDIS_URL", &*redis), ("AWS_ENDPOINT_URL_DYNAMODB", &dynamodb), ("REDIS_CLUSTER", "false")];
    run(Command::new(built("hongbao-admin")).arg("parked").env_clear().envs(variables)).await.with(0);
    let terms = process.send_funded(packet(&user("sam"), 1_000, 5)).await;
    let part = only_part(&terms);
    let (ann, bob, eve) =
        (park(&process, part, "ann").await, park(&process, part, "bob").await, park(&process, part, "eve").await);
    world.forge_hold(part, 77, &user("zoe")).await;
    assert_eq!(process.settle().await.parked, 4);

    let listed = admin(&world, &["parked"]).await.with(0);
    let id = terms.id.to_string();
    assert!(listed.line(&format!("{id} {} ann ", ann.slip)).ends_with(" the ledger was wrong"));
    assert!(listed.line(&format!("{id} 77 zoe ")).ends_with(" no such slip"));
    assert_eq!(admin(&world, &["parked", "--json"]).await.with(0).json().as_array().unwrap().len(), 4);
    assert_eq!(backlog(&world).await, (4, 0));
    let closed = process.send_funded(packet(&user("tom"), 1_000, 5)).await;
    process.close.close(closed.id, "wrong".parse().unwrap(), None).await.unwrap().unwrap();
    assert_eq!(backlog(&world).await, (4, 1));
    assert_eq!(backlog(&world).await, (4, 1), "it settles nothing");
    process.settle().await;
    assert_eq!(backlog(&world).await, (4, 0));

    // One by its slip; then the others.
    let one = admin(&world, &["replay", &id, &ann.slip.to_string()]).await.with(0);
    assert!(one.line(&format!("{id} {} ann ", ann.slip)).contains(" committed: "), "{one:?}");
    let rest = admin(&world, &["replay", "--all", "--json"]).await.with(1).json();
    let outcome = |name: &str| {
        let row = rest.as_array().unwrap().iter().find(|row| row["user_id"] == name).unwrap();
        (row["outcome"].as_str().unwrap().to_owned(), row["reason"].clone())
    };
    assert_eq!(rest.as_array().unwrap().len(), 3, "{rest}");
    assert!(outcome("bob").0.starts_with("committed: "), "{rest}");
    assert!(outcome("eve").0.starts_with("committed: ") && eve.slip != bob.slip, "{rest}");
    assert_eq!(outcome("zoe"), ("still parked".to_owned(), json!("no such slip")));

    let again = admin(&world, &["replay", &id]).await.with(1);
    assert!(again.line(&format!("{id} 77 zoe ")).ends_with(" still parked no such slip"));
    let books = audit(&world).await;
    assert_eq!(books.packet(terms.id).claimed(), 3);
    assert_eq!(books.packet(terms.id).claims["ann"].2, ann.at.ms(), "the time of the grab");
}

/// The holds that wait, and the packets.
async fn backlog(world: &World) -> (u64, u64) {
    let found = admin(world, &["backlog", "--json"]).await.with(0).json();
    let (holds, due) = (found["holds"].as_u64().unwrap(), found["due"].as_u64().unwrap());
    let ages = [&found["oldest_hold_s"], &found["oldest_due_s"]];
    assert_eq!(ages.map(Value::is_u64), [holds > 0, due > 0], "{found}");
    (holds, due)
}

#[tokio::test]
async fn a_replay_finds_a_decision_that_was_made_meanwhile() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sam"), 1_000, 3)).await;
    let part = only_part(&terms);
    park(&process, part, "ann").await;
    let late = world.process();
    late.clock.set_ahead(Duration::from_hours(2));
    // In `ledger` mode a refund does not wait for holds. Redis misses the settlement.
    let keys = PartKeys::of(part);
    let held: String = world.redis(cmd("HGET").arg(&keys.part).arg("ann")).await;
    late.settle().await;
    let () = world.redis(cmd("HSET").arg(&keys.part).arg("ann").arg(held)).await;
    let () = world.redis(cmd("HINCRBY").arg(&keys.part).arg(fields::HELD_COUNT).arg(1)).await;
    let () = world.redis(cmd("ZADD").arg(&keys.pending).arg(1).arg(&keys.name)).await;
    let said = admin(&world, &["replay", &terms.id.to_string()]).await.with(0);
    assert!(said.line(&terms.id.to_string()).ends_with("void: the slip was refunded"), "{said:?}");
    assert_eq!(admin(&world, &["parked"]).await.with(0).text, "no parked holds\n");
    world.outbox_is_empty().await;
    assert_eq!(audit(&world).await.packet(terms.id).refunded(), 3);
}

#[tokio::test]
async fn a_rebuilt_packet_equals_the_ledger() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sam"), 10_000, 10)).await;
    let part = only_part(&terms);
    for user in users("u", 3) {
        process.grab(terms.id, &user).await.unwrap();
    }
    let keys = PartKeys::of(part);
    let () = world.redis(cmd("DEL").arg(&keys.part).arg(&keys.known)).await;
    let id = terms.id.to_string();
    let rebuilt = admin(&world, &["rebuild", &id]).await.with(0);
    let [before, after] = ["free 0, held 0, known 0, loaded false", "free 7, held 0, known 3, loaded true"];
    assert_eq!(rebuilt.line("0 "), format!("0 0 {before} {after}"));
    world.audit_hot(&terms, &audit(&world).await).await;
    let (held, _) = hold_only(&process, part, &[user("ann")]).await[0];

    let again = admin(&world, &["rebuild", &id]).await.with(0);
    let counts = "free 6, held 1, known 3, loaded true";
    assert_eq!(again.line("0 "), format!("0 0 {counts} {counts}"));
    assert!(world.hot_part(&terms, part).await.held.contains_key(&held), "holds stay");
    // A rollback that forgot a decision and freed its slip.
    let (slip, ..) = audit(&world).await.packet(terms.id).claims["u0"];
    world.forget_decision(&terms, part, slip, Some(&user("u0"))).await;
    let () = world.redis(cmd("LPUSH").arg(&keys.free).arg(slip)).await;
    let json = admin(&world, &["rebuild", &id, "--json"]).await.with(0).json();
    assert_eq!((&json[0]["before"]["free"], &json[0]["after"]["free"]), (&json!(7), &json!(6)));
    world.audit_hot(&terms, &audit(&world).await).await;
    process.settle().await;
    assert_eq!(audit(&world).await.packet(terms.id).claimed(), 4);
}

#[tokio::test]
async fn a_rebuild_deletes_only_the_key_that_has_the_wrong_type() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sam"), 10_000, 10)).await;
    let (part, id) = (only_part(&terms), terms.id.to_string());
    let PartKeys { name, part: hash, free, known, pending, tries, loading } = PartKeys::of(part);
    hold_only(&process, part, &[user("ann")]).await;
    // The hash is the last: the hold goes with it.
    for wrong in [&known, &free, &tries, &loading, &pending, &hash] {
        let () = world.redis(cmd("SET").arg(&loading).arg(2)).await;
        let () = world.redis(cmd("DEL").arg(&tries)).await;
        let () = world.redis(cmd("HSET").arg(&tries).arg("ann").arg(1)).await;
        let () = world.redis(cmd("SETBIT").arg(&known).arg(9).arg(0)).await;
        let () = world.redis(cmd("ZADD").arg(&pending).arg(7).arg(&name)).await;
        let () = world.redis(cmd("DEL").arg(wrong)).await;
        let () = world.redis(cmd("SADD").arg(wrong).arg("x")).await;
        let before = world.now_ms();
        let mended = admin(&world, &["rebuild", &id, "--json"]).await.with(0).json();
        assert_eq!(mended[0]["deleted_keys"], 1, "{wrong}: {mended}");
        for key in [&tries, &loading] {
            let exists: bool = world.redis(cmd("EXISTS").arg(key)).await;
            assert_eq!(exists, key != wrong, "{key} although {wrong} is wrong");
        }
        let place: Option<u64> = world.redis(cmd("ZSCORE").arg(&pending).arg(&name)).await;
        match wrong {
            _ if *wrong == hash => assert_eq!(place, None, "it holds nothing"),
            _ if *wrong == pending => {
                assert!((before..=world.now_ms()).contains(&place.unwrap()), "in the queue since {place:?}");
            }
            _ => assert_eq!(place, Some(7), "{wrong}: it keeps its place"),
        }
    }
}

#[tokio::test]
async fn a_rebuild_mends_keys_of_the_wrong_type_and_keeps_what_only_redis_knows() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sam"), 10_000, 10)).await;
    for user in users("u", 3) {
        process.grab(terms.id, &user).await.unwrap();
    }
    let (part, id) = (only_part(&terms), terms.id.to_string());
    let keys = PartKeys::of(part);
    hold_only(&process, part, &[user("ann")]).await;
    // The queue and what can be made again have a wrong type, the hash with the hold is whole.
    for key in [&keys.pending, &keys.tries, &keys.loading] {
        let () = world.redis(cmd("DEL").arg(key)).await;
        let () = world.redis(cmd("RPUSH").arg(key).arg("x")).await;
    }
    let () = world.redis(cmd("DEL").arg(&keys.known)).await;
    let () = world.redis(cmd("HSET").arg(&keys.known).arg("x").arg("y")).await;
    let shown = admin(&world, &["packet", &id]).await.with(2);
    assert!(shown.errors.starts_with("error: a key has the wrong type: `hongbao-admin rebuild` mends"), "{shown:?}");
    let mended = admin(&world, &["rebuild", &id]).await.with(0);
    let counts = |known: u32| format!("free 6, held 1, known {known}, loaded true");
    assert_eq!(mended.line("0 "), format!("0 4 {} {}", counts(0), counts(3)));
    assert_eq!(process.settle().await.persisted, 1, "the hold is in the queue again");
    world.audit_hot(&terms, &audit(&world).await).await;

    // The hash itself is gone, and with it nothing that the ledger lacks.
    let () = world.redis(cmd("SET").arg(&keys.part).arg("x")).await;
    let mended = admin(&world, &["rebuild", &id, "--json"]).await.with(0).json();
    assert_eq!((&mended[0]["deleted_keys"], &mended[0]["after"]["free"]), (&json!(1), &json!(6)));
    world.audit_hot(&terms, &audit(&world).await).await;
    let again = admin(&world, &["rebuild", &id]).await.with(0);
    let counts = "free 6, held 0, known 4, loaded true";
    assert_eq!(again.line("0 "), format!("0 0 {counts} {counts}"));
    let grabbed = process.grab(terms.id, &user("bob")).await.unwrap();
    assert!(matches!(grabbed, GrabOutcome::Grabbed { .. }), "{grabbed:?}");
}

#[tokio::test]
async fn a_packet_before_its_start_is_shown_and_loaded_with_it() {
    let world = World::single().await;
    let process = world.process();
    let starts_at = Timestamp::from_ms(world.now_ms()).after(Duration::from_hours(1));
    let starting = NewPacket { starts_at: Some(starts_at), ..packet(&user("sam"), 1_000, 5) };
    let id = process.send_funded(starting).await.id;
    world.flush().await;
    let shown = starts_at.to_string();
    assert_eq!(
        admin(&world, &["packet", &id.to_string()]).await.with(0).line("starts_at"),
        format!("starts_at {shown}")
    );
    let json = admin(&world, &["packet", &id.to_string(), "--json"]).await.with(0).json();
    assert_eq!((&json["starts_at"], &json["ack"]), (&json!(shown), &json!("ledger")));
    let rebuilt = admin(&world, &["rebuild", &id.to_string(), "--json"]).await.with(0).json();
    let [before, after] = ["before", "after"].map(|when| (&rebuilt[0][when]["loaded"], &rebuilt[0][when]["free"]));
    assert_eq!((before, after), ((&json!(false), &json!(0)), (&json!(true), &json!(5))));
    let early = process.grab(id, &user("ann")).await.unwrap();
    assert!(matches!(early, GrabOutcome::NotStarted { starts_at: at, .. } if at == starts_at), "{early:?}");
}

#[tokio::test]
async fn decisions_about_sending_are_listed_with_their_reasons() {
    let world = World::single().await;
    assert!(admin(&world, &["sending"]).await.with(0).text.contains("never paused"));
    let process = world.process();
    let reason = Some(&"bought accounts".parse().unwrap());
    process.wallets.decide_sending(true, Mandate { reason, ..Mandate::default() }).await.unwrap();
    assert_eq!(admin(&world, &["--json", "sending"]).await.with(1).json()[0]["reason"], "bought accounts");
    process.wallets.decide_sending(false, Mandate::default()).await.unwrap();
    let listed = admin(&world, &["--json", "sending"]).await.with(0).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["paused"]), (2, &json!(false)));
}

#[tokio::test]
async fn the_check_passes_on_a_table_in_use_and_its_items_are_no_part_of_the_ledger() {
    let world = World::single().await;
    let process = world.process();
    process.grab(process.send_funded(packet(&user("sam"), 1_000, 4)).await.id, &user("ann")).await.unwrap();
    let checked = admin(&world, &["ledger-check"]).await.with(0);
    for rule in ["creation", "claim-or-refund", "bounds", "repetition", "read-after-write", "queries", "all-or-nothing"]
    {
        assert_eq!(checked.line(rule), format!("{rule} ok"));
    }
    assert_eq!(checked.errors, format!("checking the table {} at {}\n", world.table(), world.dynamodb_url()));
    let audited = admin(&world, &["audit", "--json"]).await.with(0).json();
    assert_eq!((&audited["packets"], &audited["wallets"]), (&json!(1), &json!(2)));
    let day = Timestamp::from_ms(world.now_ms()).to_string()[..10].to_owned();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("journal").display().to_string();
    let written = ["journal", "--unfinished", "--day-zone", "UTC", "--day", &day, "--output", &output];
    admin(&world, &written).await.with(0);

    let missing = admin(&world, &["ledger-check", "--table", "nowhere"]).await.with(2);
    let place = format!("the table nowhere at {}", world.dynamodb_url());
    let begins = format!("checking {place}\nerror: {place}: a store did not answer: ");
    assert!(missing.errors.starts_with(&begins), "{missing:?}");
}
