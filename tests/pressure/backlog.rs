//! An outbox of many holds, as a rush leaves it that Redis acknowledged while the table was down.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use shared::config::Config;
use shared::domain::{Amount, PartId, RequestKey, Split, UserId};
use shared::dynamodb::SdkTable;
use shared::ports::{GrabAnswer, Grabber, HotStore};
use shared::redis::{Connection, RedisConfig, RedisStore};
use shared::service::{NewPacket, SendOutcome};
use shared::wiring::{self, Environment, Wiring};
use tests::program::resident_mb;

/// The time limit of the scheduled function.
const RUN: Duration = Duration::from_secs(45);
const SLIPS_PER_PACKET: u32 = 100_000;
const PARTS_AT_ONCE: usize = 16;
/// Users in one call of the script.
const BATCH: usize = 64;

#[derive(clap::Args)]
pub struct Options {
    /// The number of holds to persist
    #[arg(long, default_value_t = 1_000_000)]
    holds: u32,
}

/// Returns whether nothing is lost.
pub async fn run(options: &Options) -> bool {
    let local = crate::start_local();
    let (Some(redis_url), Some(dynamodb_url)) = (&local.redis_url, &local.dynamodb_url) else { panic!("no stores") };
    let settings = |name: &str| match name {
        "TABLE_NAME" => Some("hongbao".to_owned()),
        "REDIS_URL" => Some(redis_url.clone()),
        "GRAB_ACK" => Some("redis".to_owned()),
        "REDIS_RESPONSE_TIMEOUT_MS" => Some("5000".to_owned()),
        _ => None,
    };
    let config = Config::for_both_stores(settings).unwrap();
    let table = SdkTable::new(wiring::dynamodb_at(dynamodb_url), config.table.clone()).without_tokens();
    let server = wiring::redis(&config).unwrap();
    let all = Wiring::over(table, server, config, Environment::default());
    let hot = RedisStore::new(Connection::new(&RedisConfig::new(redis_url)).unwrap());

    let begun = Instant::now();
    let parts = send(&all, options.holds).await;
    stream::iter(parts).for_each_concurrent(PARTS_AT_ONCE, |(part, count)| hold_all(&hot, part, count)).await;
    println!("{} holds made in {:.0?}", options.holds, begun.elapsed());

    let settle = all.settle();
    let (begun, mut persisted, mut memory) = (Instant::now(), 0, 0);
    loop {
        let run = Instant::now();
        let report = settle.run(0..=255, tokio::time::Instant::now() + RUN).await.unwrap();
        persisted += report.persisted;
        memory = memory.max(resident_mb(std::process::id()));
        println!(
            "a run of {:.0?}: {} persisted, {:?} left, the oldest is {:?} ms old; this process takes {memory} MB",
            run.elapsed(),
            report.persisted,
            report.outbox_left,
            report.oldest_outbox_ms
        );
        if report.outbox_left == Some(0) {
            break;
        }
        assert!(report.persisted > 0, "settle makes no progress");
    }
    let rate = u128::from(options.holds) * 1_000 / begun.elapsed().as_millis();
    println!("settled in {:.0?}: {rate} holds/s, at most {memory} MB", begun.elapsed());
    persisted == u64::from(options.holds)
}

/// Sends packets of this many slips in total, and returns their parts.
async fn send(all: &Wiring, slips: u32) -> Vec<(PartId, u32)> {
    let sender: UserId = "sender".parse().unwrap();
    let (wallets, send) = (all.ledger_wiring().wallets(), all.send_packet());
    let deposit: RequestKey = "deposit".parse().unwrap();
    wallets.deposit(&sender, &deposit, Amount::new(u64::from(slips) * 100), None).await.unwrap();
    let mut parts = Vec::new();
    let mut left = slips;
    while left > 0 {
        let count = left.min(SLIPS_PER_PACKET);
        let packet = NewPacket {
            sender: sender.clone(),
            split: Split::Random,
            total: Amount::new(u64::from(count) * 100),
            count,
            greeting: String::new(),
            starts_at: None,
            expires_in: Duration::from_hours(24),
            passphrase: None,
            recipients: None,
            wants_ticket: false,
            limit: None,
            labels: shared::domain::Labels::default(),
        };
        match send.send(packet, &format!("key-{left}").parse().unwrap()).await.unwrap() {
            SendOutcome::Sent(terms) => parts.extend(terms.id.parts().map(|part| (part, terms.count))),
            other => panic!("not sent: {other:?}"),
        }
        left -= count;
    }
    parts
}

/// Holds every slip of a part, each for another user, without a claim.
async fn hold_all(hot: &RedisStore, part: PartId, count: u32) {
    let slips: Vec<u32> = part.slips(count).collect();
    for batch in slips.chunks(BATCH) {
        let grabber = |slip| Grabber { user: format!("{part}-{slip}").parse().unwrap(), passphrase: None };
        let grabbers: Vec<Grabber> = batch.iter().map(grabber).collect();
        let found = hot.grab(part, &grabbers).await.unwrap().unwrap();
        assert!(found.iter().all(|found| matches!(found, GrabAnswer::Held { fresh: true, .. })), "{found:?}");
    }
}
