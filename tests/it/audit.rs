//! The audit itself: whatever is wrong in the ledger, it finds it.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use tests::{Promises, World, audit, packet, user};

/// What is done to an item behind the ledger's back.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    /// A number is one more.
    More(&'static str),
    /// The item is gone.
    Gone,
    /// There is another one under this sort key.
    Copied(&'static str),
    /// An attribute says something else.
    Says(&'static str, &'static str),
}

use Tampering::{Copied, Gone, More, Says};

/// A ledger with a deposit, a withdrawal, and two packets: one settled with claims and a refund, one under way.
async fn ledger() -> World {
    let world = World::single().await;
    let process = world.process();
    let promises = Promises::default();
    let over = process.send_funded(packet(&user("sam"), 1_000, 10)).await;
    for name in ["ann", "bob"] {
        promises.grab(&process, over.id, &user(name)).await.unwrap();
    }
    let late = world.process();
    late.clock.set_ahead(Duration::from_hours(2));
    late.settle().await;
    let open = process.send_funded(packet(&user("tom"), 1_000, 10)).await;
    promises.grab(&process, open.id, &user("eve")).await.unwrap();
    promises.are_kept(&audit(&world).await);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finds_whatever_is_wrong() {
    let world = std::sync::Arc::new(ledger().await);
    let cases = [
        ("USER#ann", "WALLET", vec![More("balance"), More("claim_count"), More("claim_amount"), Gone]),
        ("USER#sam", "WALLET", vec![More("balance"), More("sent_count"), More("sent_amount"), Gone]),
        ("USER#sam", "DEPOSIT#", vec![More("amount"), Gone, Copied("WITHDRAW#x")]),
        ("USER#sam", "SENT#", vec![More("amount"), More("at"), Gone]),
        ("USER#sam", "KEY#", vec![Gone, Copied("KEY#x")]),
        ("USER#sam", "REFUND#", vec![More("amount"), More("slip_count"), More("at"), Gone]),
        ("USER#ann", "CLAIM#", vec![More("amount"), More("at"), More("slip"), Says("greeting", "x"), Gone]),
        ("SLIPS#", "", vec![More("amount"), More("at"), More("slip"), Says("user_id", "zoe"), Gone, Copied("000077")]),
        ("PACKET#", "META", vec![More("total_amount"), More("slip_count"), Says("status", "half"), Gone]),
        ("PART#", "AMOUNTS", vec![Gone]),
    ];
    let all = world.dynamodb.scan().table_name(world.table()).send().await.unwrap().items.unwrap();
    let text = |value: &AttributeValue| value.as_s().unwrap().clone();
    let mut tampered = 0;
    for (pk, sk, tamperings) in cases {
        let matching = all.iter().filter(|item| text(&item["PK"]).starts_with(pk) && text(&item["SK"]).starts_with(sk));
        let mut matched = 0;
        for item in matching {
            matched += 1;
            for tampering in &tamperings {
                let mut changed = item.clone();
                match tampering {
                    More(name) => {
                        let Some(number) = item.get(*name) else { continue };
                        let number: u64 = number.as_n().unwrap().parse().unwrap();
                        changed.insert((*name).to_owned(), AttributeValue::N((number + 1).to_string()));
                    }
                    Copied(sk) => drop(changed.insert("SK".to_owned(), AttributeValue::S((*sk).to_owned()))),
                    Says(name, what) => drop(changed.insert((*name).to_owned(), AttributeValue::S((*what).to_owned()))),
                    Gone => {}
                }
                if matches!(tampering, Gone) {
                    delete(&world, item).await;
                } else {
                    put(&world, &changed).await;
                }
                let audited = {
                    let world = std::sync::Arc::clone(&world);
                    tokio::spawn(async move { drop(audit(&world).await) })
                };
                assert!(audited.await.is_err(), "{tampering:?} of {item:?} goes unnoticed");
                delete(&world, &changed).await;
                put(&world, item).await;
                tampered += 1;
            }
        }
        assert!(matched > 0, "no {pk} / {sk}");
    }
    println!("{tampered} kinds of tampering");
    audit(&world).await;
}

type Item = std::collections::HashMap<String, AttributeValue>;

async fn put(world: &World, item: &Item) {
    world.dynamodb.put_item().table_name(world.table()).set_item(Some(item.clone())).send().await.unwrap();
}

async fn delete(world: &World, item: &Item) {
    let delete = world.dynamodb.delete_item().table_name(world.table());
    delete.key("PK", item["PK"].clone()).key("SK", item["SK"].clone()).send().await.unwrap();
}
