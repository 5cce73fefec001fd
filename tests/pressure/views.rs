//! Views of a large packet while it changes. The ledger is in memory, because the embedded one would take minutes to fill.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use redis::cmd;
use shared::domain::{AckMode, Amount, DayZone, Limits};
use shared::ledger::Ledger;
use shared::memory::MemoryTable;
use shared::ports::{Clock, System};
use shared::redis::test_server::TestServer;
use shared::redis::{Connection, RedisConfig, RedisStore};
use shared::service::{Asker, GrabOutcome, GrabSlip, SendOutcome, SendPacket, SendPolicy, Stores, ViewPackets};
use tests::{packet, user};

const SLIPS: u32 = 100_000;
const CLAIMED: usize = 70_000;
const VIEWS: usize = 200;
/// Claims between two views.
const CHANGES: usize = 10;
const EVERY: Duration = Duration::from_millis(100);
const GRABS_AT_ONCE: usize = 64;

/// The goals: how long the first view of a process may take, and the median.
const FIRST_MAX: Duration = Duration::from_millis(300);
const MEDIAN_MAX: Duration = Duration::from_millis(100);

/// Prints how long views take. Returns whether the goals are reached.
///
/// # Panics
/// If a view shows another number of claims than there are.
pub async fn run() -> bool {
    let server = TestServer::start(&[]).await;
    let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
    let process = || {
        let hot = Arc::new(RedisStore::new(Connection::new(&RedisConfig::new(server.url())).unwrap()));
        Stores::new(Arc::clone(&ledger), hot, Arc::new(System), Arc::new(System))
    };
    let (writer, sender) = (process(), user("sender"));
    let policy = SendPolicy {
        currency: "CNY".to_owned(),
        ack: AckMode::Ledger,
        limits: Limits::default(),
        daily_max: None,
        day_zone: DayZone::UTC,
    };
    let total = u64::from(SLIPS) * 100;
    ledger.deposit(&sender, &"d".parse().unwrap(), Amount::new(total), None, System.now()).await.unwrap();
    let send = SendPacket::new(writer.clone(), policy);
    let outcome = send.send(packet(&sender, total, SLIPS), &"k".parse().unwrap()).await.unwrap();
    let SendOutcome::Sent(terms) = outcome else { panic!("{outcome:?}") };
    let grab = Arc::new(GrabSlip::new(writer, "CNY".to_owned()));
    let grab_all = async |from: usize, to: usize| {
        let grabs = (from..to).map(|n| {
            let (grab, id) = (Arc::clone(&grab), terms.id);
            async move { grab.grab(id, &user(&format!("user{n:08}")), None, &Asker::Operator).await }
        });
        let grabbed: Vec<_> = stream::iter(grabs).buffer_unordered(GRABS_AT_ONCE).collect().await;
        assert!(grabbed.iter().all(|grabbed| matches!(grabbed, Ok(GrabOutcome::Grabbed { .. }))), "a grab failed");
    };
    println!("a packet of {SLIPS} slips, {CLAIMED} of them claimed; {CHANGES} more before each view");
    grab_all(0, CLAIMED).await;

    let view = ViewPackets::new(process());
    // Bytes that Redis has sent_bytes, and those of the answer that says so.
    let sent_bytes = async || {
        let info: String = server.command(cmd("INFO").arg("stats")).await;
        let bytes = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")?.parse::<u64>().ok());
        (bytes.unwrap(), info.len() as u64)
    };
    let (mut took, mut claimed, mut most) = (Vec::new(), CLAIMED, 0);
    let mut ticks = tokio::time::interval(EVERY);
    for _ in 0..VIEWS {
        ticks.tick().await;
        grab_all(claimed, claimed + CHANGES).await;
        claimed += CHANGES;
        let (before, of_info) = sent_bytes().await;
        let begun = Instant::now();
        let seen = view.packet(terms.id, &sender, &Asker::Operator).await.unwrap();
        took.push(begun.elapsed());
        most = most.max(sent_bytes().await.0 - before - of_info);
        // A part that is not reconciled yet counts the last claims later.
        let shown = seen.summary.claimed_count as usize;
        assert!((claimed - CHANGES..=claimed).contains(&shown), "{shown} of {claimed}");
    }
    println!("Redis sends at most {most} bytes for a view");
    let first = took.remove(0);
    took.sort();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!("the first view {first:.0?}; then p50 {:.0?}, p99 {:.0?}, longest {:.0?}", at(50), at(99), at(100));
    first <= FIRST_MAX && at(50) <= MEDIAN_MAX
}
