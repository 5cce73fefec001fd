//! The ledger's content, after the audit found it in order.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use audit::{Auditor, Progress, Report, Rereads};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::domain::PacketId;
use tokio::time::Instant;

use crate::world::World;

/// How long an audit may take.
const AUDIT_TIMEOUT: Duration = Duration::from_hours(1);

type Attributes = HashMap<String, AttributeValue>;

/// (slip, amount in minor units, time in ms).
pub type Claimed = (u32, u64, u64);

/// The ledger's content.
#[derive(Debug, Default)]
pub struct Books {
    /// By id.
    pub packets: BTreeMap<String, PacketBooks>,
    /// Balances by user.
    pub balances: BTreeMap<String, u64>,
}

/// A packet.
#[derive(Debug, Default)]
pub struct PacketBooks {
    /// The user who paid.
    pub sender: String,
    /// Number of slips.
    pub slips: usize,
    /// Whether it is marked as settled.
    pub settled: bool,
    /// Slip → its decision.
    pub decisions: BTreeMap<u32, DecisionBooks>,
    /// User → their claim.
    pub claims: BTreeMap<String, Claimed>,
}

/// A slip decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecisionBooks {
    /// The owner; `None`: refunded.
    pub user: Option<String>,
    /// The slip's amount.
    pub amount: u64,
    /// When it was decided, in ms.
    pub at: u64,
}

impl Books {
    /// A packet that exists.
    pub fn packet(&self, id: PacketId) -> &PacketBooks {
        self.packets.get(&id.to_string()).unwrap_or_else(|| panic!("the ledger has no packet {id}"))
    }

    /// A user's balance.
    pub fn balance(&self, user: &str) -> u64 {
        self.balances.get(user).copied().unwrap_or(0)
    }
}

impl PacketBooks {
    /// Number of claimed slips.
    pub fn claimed(&self) -> usize {
        self.claims.len()
    }

    /// Number of refunded slips.
    pub fn refunded(&self) -> usize {
        self.decisions.len() - self.claims.len()
    }

    /// Number of undecided slips.
    pub fn undecided(&self) -> usize {
        self.slips - self.decisions.len()
    }
}

/// The auditor of a world's ledger.
pub fn auditor(world: &World) -> Auditor {
    auditor_of(&world.dynamodb, world.table())
}

/// The tables of tests apply a transaction at once, so that longer waits would find no more.
fn auditor_of(client: &Client, table: &str) -> Auditor {
    let rereads = Rereads { pauses: vec![Duration::from_millis(5); 20], confirmations: 2 };
    Auditor::new(client.clone(), table.to_owned()).with_rereads(rereads)
}

/// The audit's full report on a world's ledger.
pub async fn full_report(world: &World) -> Report {
    report_of(&world.dynamodb, world.table()).await
}

async fn report_of(client: &Client, table: &str) -> Report {
    let deadline = Instant::now() + AUDIT_TIMEOUT;
    let progress = auditor_of(client, table).run(Progress::full(4).unwrap(), deadline).await.unwrap();
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
    let report = report_of(client, table).await;
    assert!(report.is_balanced(), "{report:#?}");
    let books = Books::read(client, table).await;
    let of = report.figures;
    assert_eq!((of.packets, of.wallets), (books.packets.len() as u64, books.balances.len() as u64), "{of:?}");
    assert_eq!(of.in_wallets, books.balances.values().sum::<u64>(), "{of:?}");
    assert_eq!(of.deposited, of.withdrawn + of.in_wallets + of.in_pending + of.in_slips, "conservation: {of:?}");
    books
}

/// Items of a page of the table.
const PAGE_ITEMS: i32 = 2_000;

impl Books {
    /// Reads a ledger that is known to be in order.
    async fn read(client: &Client, table: &str) -> Self {
        let mut books = Self::default();
        let mut start = None;
        loop {
            // Without a limit the embedded database reads the whole rest of the table for each page.
            let request = client.scan().table_name(table).consistent_read(true).limit(PAGE_ITEMS);
            let page = request.set_exclusive_start_key(start).send().await.unwrap();
            for item in page.items.unwrap_or_default() {
                books.enter(&item);
            }
            start = page.last_evaluated_key;
            if start.is_none() {
                return books;
            }
        }
    }

    fn enter(&mut self, item: &Attributes) {
        let (pk, sk) = (text(item, "PK"), text(item, "SK"));
        let key: Vec<&str> = pk.split('#').chain(sk.split('#')).collect();
        match key[..] {
            ["PACKET", id, "META"] => {
                let packet = self.packets.entry(id.to_owned()).or_default();
                packet.sender = text(item, "sender_id");
                packet.slips = usize::try_from(number(item, "slip_count")).unwrap();
                // A closed packet has no status until it is settled.
                packet.settled = item.contains_key("status") && text(item, "status") == "settled";
            }
            ["SLIPS", id, _, slip] => {
                let user = item.contains_key("user_id").then(|| text(item, "user_id"));
                let decision = DecisionBooks { user, amount: number(item, "amount"), at: number(item, "at") };
                self.packets.entry(id.to_owned()).or_default().decisions.insert(slip.parse().unwrap(), decision);
            }
            ["USER", user, "CLAIM", id] => {
                let slip = u32::try_from(number(item, "slip")).unwrap();
                let claim = (slip, number(item, "amount"), number(item, "at"));
                self.packets.entry(id.to_owned()).or_default().claims.insert(user.to_owned(), claim);
            }
            ["USER", user, "WALLET"] => {
                // A user may be suspended before they have had money.
                let balance = if item.contains_key("balance") { number(item, "balance") } else { 0 };
                self.balances.insert(user.to_owned(), balance);
            }
            _ => {}
        }
    }
}

fn text(item: &Attributes, name: &str) -> String {
    item[name].as_s().unwrap().clone()
}

fn number(item: &Attributes, name: &str) -> u64 {
    item[name].as_n().unwrap().parse().unwrap()
}
