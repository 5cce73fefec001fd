//! A process of this engine: Redis is real, and shared by all processes. The ledger is in memory, and each process has its own, so
//! that no figure has a database in it.
//!
//! All processes send the same packet into their ledgers, but only the first one into Redis. Redis gives each slip to one user,
//! and a user asks one process only. So the ledgers never contradict each other.

use std::sync::Arc;

use shared::domain::{AckMode, IdempotencyKey, Limits, MAX_BALANCE, PacketId, RequestKey, Terms, Timestamp};
use shared::ledger::Ledger;
use shared::memory::{MemoryHot, MemoryTable};
use shared::ports::{Clock, HotStore, System};
use shared::redis::{Connection, RedisConfig, RedisStore};
use shared::service::{GrabSlip, SendOutcome, SendPacket, SendPolicy, Stores};

use crate::ours::{SENDER, new_packet};
use crate::spread::{SEED, Seeded};
use crate::{BoxError, RESPONSE_TIMEOUT};

const CURRENCY: &str = "CNY";

/// A clock that stands still, so that all processes send the same packet.
struct Still(Timestamp);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// A connected hot store on a cluster.
pub async fn redis(urls: &str) -> Result<Arc<RedisStore>, BoxError> {
    let config = RedisConfig {
        cluster: true,
        connect_timeout: RESPONSE_TIMEOUT,
        response_timeout: RESPONSE_TIMEOUT,
        ..RedisConfig::new(urls)
    };
    let store = RedisStore::new(Connection::new(&config)?);
    store.connect().await?;
    Ok(Arc::new(store))
}

/// Sends the packet of a rush into a new ledger and into `hot`. The same `at` gives the same packet.
pub async fn send<H: HotStore>(
    hot: Arc<H>,
    slips: u32,
    at: Timestamp,
) -> Result<(Ledger<MemoryTable>, Terms), BoxError> {
    let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
    let (deposit, key): (RequestKey, IdempotencyKey) = ("deposit".parse()?, "key".parse()?);
    ledger.deposit(&SENDER.parse()?, &deposit, MAX_BALANCE, None, at).await?;
    let stores = Stores::new(Arc::clone(&ledger), hot, Arc::new(Still(at)), Arc::new(Seeded::new(SEED)));
    let policy = SendPolicy {
        currency: CURRENCY.to_owned(),
        ack: AckMode::Ledger,
        limits: Limits::default(),
        daily_limit: None,
    };
    let sent = SendPacket::new(stores, policy).send(new_packet(slips)?, &key).await?;
    let SendOutcome::Sent(terms) = sent else { return Err(format!("not sent: {sent:?}").into()) };
    let ledger = Arc::into_inner(ledger).ok_or("the ledger is still in use")?;
    Ok((ledger, Arc::unwrap_or_clone(terms)))
}

/// The use case of a grab over a cluster, and the packet. Terms and amounts are read, as a process does once for its first grab.
pub async fn start(
    urls: &str,
    slips: u32,
    at: Timestamp,
) -> Result<(GrabSlip<MemoryTable, RedisStore>, PacketId), BoxError> {
    let (ledger, terms) = send(Arc::new(MemoryHot::in_memory(Arc::new(System))), slips, at).await?;
    let stores = Stores::new(Arc::new(ledger), redis(urls).await?, Arc::new(System), Arc::new(System));
    stores.packets.terms(terms.id).await?;
    for part in terms.id.parts() {
        stores.packets.amounts(part).await?;
    }
    Ok((GrabSlip::new(stores, CURRENCY.to_owned()), terms.id))
}
