//! The ledger's content, after the audit found it in order.

use std::sync::Arc;
use std::time::Duration;

use audit::{Auditor, Only, Progress, Reader, Report, Rereads, Source, key_of};
use aws_sdk_dynamodb::Client;
use futures::TryStreamExt;
use tokio::time::Instant;

use crate::world::World;

pub use audit::books::{Books, PacketBooks};

/// How long an audit may take.
const AUDIT_TIMEOUT: Duration = Duration::from_hours(1);

/// The auditor of a world's ledger.
pub fn auditor(world: &World) -> Auditor {
    auditor_of(Reader::new(world.dynamodb.clone(), world.table().to_owned()))
}

/// The tables of tests apply a transaction at once, so that longer waits would find no more.
fn auditor_of(reader: impl Source + 'static) -> Auditor {
    let rereads = Rereads { pauses: vec![Duration::from_millis(5); 20], confirmations: 2 };
    Auditor::over(Arc::new(reader)).with_rereads(rereads)
}

/// The audit's full report on a world's ledger.
pub async fn full_report(world: &World) -> Report {
    report_of(auditor(world)).await
}

async fn report_of(auditor: Auditor) -> Report {
    let deadline = Instant::now() + AUDIT_TIMEOUT;
    let progress = auditor.run(Progress::full(4).unwrap(), deadline).await.unwrap();
    assert!(progress.is_done(), "the audit takes too long");
    progress.report().clone()
}

/// Audits a ledger without unfinished work, and reads its content.
///
/// # Panics
/// If anything is wrong.
pub async fn audit(world: &World) -> Books {
    audit_table(&world.dynamodb, world.table()).await
}

/// [`audit()`] of a table by name.
///
/// # Panics
/// If anything is wrong.
pub async fn audit_table(client: &Client, table: &str) -> Books {
    audit_source(Reader::new(client.clone(), table.to_owned())).await
}

/// [`audit()`] of a ledger of any kind.
///
/// # Panics
/// If anything is wrong.
pub async fn audit_source(reader: impl Source + Clone + 'static) -> Books {
    let report = report_of(auditor_of(reader.clone())).await;
    assert!(report.is_balanced(), "{report:#?}");
    let (mut books, source): (_, &dyn Source) = (Books::default(), &reader);
    let mut pages = source.all(1, Only::Whole);
    while let Some(items) = pages.try_next().await.unwrap() {
        for item in &items {
            books.enter(&key_of(item).unwrap(), item).unwrap();
        }
    }
    let of = report.figures;
    assert_eq!((of.packets, of.wallets), (books.packets.len() as u64, books.balances.len() as u64), "{of:?}");
    assert_eq!(of.in_wallets, books.balances.values().sum::<u64>(), "{of:?}");
    assert_eq!(of.deposited, of.withdrawn + of.in_wallets + of.in_pending + of.in_slips, "conservation: {of:?}");
    books
}
