//! Runs of settle that end early: by their deadline or by a kill.

use std::time::Duration;

use tests::relay::Relay;

use super::*;

/// The function's timeout in seconds: six more than settle's margin.
const TIMEOUT_S: &str = "16";
/// The duration of a transaction, chosen so that no run can persist everything. Ten claims each, four transactions at
/// once, six seconds: at most 120 claims.
const SLOW: Duration = Duration::from_secs(2);
const SLIPS: u64 = 160;

/// A packet in `redis` mode whose slips are all held, with the functions over it.
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
        // Starts the process before its time is measured.
        let warm = settle.invoke(br#"{"partitions": [0, 0]}"#).await;
        assert_eq!(warm.get("errorType"), None, "{warm}");
        Self { stores, relay, settle }
    }

    /// The audit's report.
    async fn audit(&self) -> Value {
        self.stores.function("audit", &[]).await.invoke(br#"{"full": true}"#).await
    }

    /// The next runs persist the remaining holds, each exactly once. Returns their number.
    async fn is_completed(&self) -> u64 {
        let mut persisted = 0;
        // Usually one run. A busy machine may not finish in the two seconds of a run.
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
async fn a_run_out_of_time_reports_what_is_left_and_the_next_run_completes_it() {
    let promised = Promised::new().await;
    promised.relay.delay_transactions(SLOW);
    let report = promised.settle.invoke(b"{}").await;
    let persisted = report["persisted"].as_u64().unwrap_or_else(|| panic!("{report} {}", promised.settle.log()));
    assert!((1..SLIPS).contains(&persisted), "{report}");
    // A machine that stalls during the count leaves the number out.
    assert!([json!(SLIPS - persisted), Value::Null].contains(&report["outbox_left"]), "{report}");
    let audit = promised.audit().await;
    assert_eq!((&audit["imbalance_count"], &audit["unjudged_count"]), (&json!(0), &json!(0)), "{audit}");

    promised.relay.delay_transactions(Duration::ZERO);
    assert_eq!(promised.is_completed().await, SLIPS - persisted);
}

#[tokio::test]
async fn a_killed_run_is_completed_by_the_next() {
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
    // Transactions that were in flight are committed meanwhile although their process is gone.
    assert!(promised.is_completed().await <= SLIPS - 8);
}
