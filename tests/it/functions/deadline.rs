//! Settle when its time is up, or it dies, in the middle of its work.

use std::time::Duration;

use tests::relay::Relay;

use super::*;

/// The function's time-out in seconds: six more than the margin that settle keeps.
const TIMEOUT_S: &str = "16";
/// What a transaction takes, so that no run can bring all to the ledger: ten claims in each, four at once and six seconds make 120
/// or less.
const SLOW: Duration = Duration::from_secs(2);
const SLIPS: u64 = 160;

/// A packet whose slips are all promised on the word of Redis, and the functions over it.
struct Promised {
    stores: Stores,
    relay: Relay,
    settle: Function,
}

impl Promised {
    async fn new() -> Self {
        let stores = Stores::start().await;
        let relay = Relay::start(stores.dynamodb.url()).await;
        let ack = [("GRAB_ACK", "redis")];
        let slow_ledger = [("AWS_ENDPOINT_URL_DYNAMODB", &*relay.url()), ("AWS_LAMBDA_FUNCTION_TIMEOUT", TIMEOUT_S)];
        let (wallet, send, grab, settle) = futures::join!(
            stores.function("wallet", &[]),
            stores.function("send", &ack),
            stores.function("grab", &[]),
            stores.function("settle", &slow_ledger),
        );
        wallet.answer(&sample("wallet", "")).await.expect(201);
        let mut event = sample("send", "");
        event["body"] = json!({"split": "random", "total_amount": 10_000, "count": SLIPS}).to_string().into();
        let packet = send.answer(&event).await.expect(201)["packet_id"].as_str().unwrap().to_owned();
        for n in 0..SLIPS {
            let mut event = sample("grab", &packet);
            event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = format!("u{n}").into();
            assert_eq!(grab.answer(&event).await.expect(200)["outcome"], "grabbed");
        }
        // The process is there before its time is taken.
        let warm = settle.invoke(br#"{"partitions": [0, 0]}"#).await;
        assert_eq!(warm.get("errorType"), None, "{warm}");
        Self { stores, relay, settle }
    }

    /// What the audit says.
    async fn audit(&self) -> Value {
        self.stores.function("audit", &[]).await.invoke(br#"{"full": true}"#).await
    }

    /// The next runs bring the rest to the ledger, and everything is there once. Returns how much that was.
    async fn is_completed(&self) -> u64 {
        let mut persisted = 0;
        // Mostly one; a busy machine may not do all in the two seconds of one.
        poll("the rest", async || {
            let report = self.settle.invoke(b"{}").await;
            assert_eq!(report["parked"], 0, "{report}");
            persisted += report["persisted"].as_u64().unwrap();
            (report["outbox_left"] == 0).then_some(())
        })
        .await;
        let audit = self.audit().await;
        assert_eq!((&audit["imbalance_count"], &audit["in_slips"]), (&json!(0), &json!(0)), "{audit}");
        assert_eq!(audit["in_wallets"], 100_000, "{audit}");
        // Alice's deposit and her packet, and a claim for each slip.
        assert_eq!(audit["movements"], json!(2 + SLIPS), "{audit}");
        persisted
    }
}

#[tokio::test]
async fn a_settle_that_runs_out_of_time_says_what_is_left_and_the_next_completes_it() {
    let promised = Promised::new().await;
    promised.relay.delay_transactions(SLOW);
    let report = promised.settle.invoke(b"{}").await;
    let persisted = report["persisted"].as_u64().unwrap_or_else(|| panic!("{report} {}", promised.settle.log()));
    assert!((1..SLIPS).contains(&persisted), "{report}");
    // A machine that stalls while it counts does not say how much is left.
    assert!([json!(SLIPS - persisted), Value::Null].contains(&report["outbox_left"]), "{report}");
    let audit = promised.audit().await;
    assert_eq!((&audit["imbalance_count"], &audit["undecided_count"]), (&json!(0), &json!(0)), "{audit}");

    promised.relay.delay_transactions(Duration::ZERO);
    assert_eq!(promised.is_completed().await, SLIPS - persisted);
}

#[tokio::test]
async fn a_settle_that_dies_in_the_middle_is_completed_by_the_next() {
    let promised = Promised::new().await;
    let before = promised.relay.passed().len();
    promised.relay.delay_transactions(SLOW);
    let transactions = || {
        let passed = promised.relay.passed();
        passed[before..].iter().filter(|passed| passed.operation == "TransactWriteItems").count()
    };
    let dies = async {
        poll("some claims", async || (transactions() >= 8).then_some(())).await;
        promised.settle.kill();
    };
    let (failure, ()) = futures::join!(promised.settle.invoke(b"{}"), dies);
    assert!(failure["errorType"].is_string(), "{failure}");
    promised.relay.delay_transactions(Duration::ZERO);
    // What was under way is committed meanwhile, although nobody waits for it any more.
    assert!(promised.is_completed().await <= SLIPS - 8);
}
