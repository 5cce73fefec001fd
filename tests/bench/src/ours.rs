//! This engine: its use case of a grab, over a real Redis and a real `DynamoDB` API.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use shared::config::Config;
use shared::domain::{
    Amount, Claim, IdempotencyKey, Labels, MAX_BALANCE, PacketId, PartId, RequestKey, Split, Timestamp, UserId,
};
use shared::dynamodb::{SdkTable, create_table};
use shared::ports::{Clock, GrabAnswer, Grabber, HotStore, System, Table};
use shared::redis::{Connection, RedisConfig, RedisStore};
use shared::service::{GrabOutcome, GrabSlip, NewPacket, SendOutcome, SendPacket, Stores, Voucher};
use shared::wiring::{self, Environment, Wiring};

use crate::BoxError;
use crate::clients::Grabs;
use crate::lab::Lab;
use crate::rush::{Got, Rush};

/// A key of tickets.
pub const TICKET_KEY: &str = r#"{"kty":"oct","kid":"bench","k":"PYbn25y-McoGFfH72cvSQG_cjLHINbaqjMUQ0RBIIGU"}"#;
const SENDER: &str = "sender";
const SENDS_AT_ONCE: usize = 16;

/// The engine over its two stores, and the packets of the rush.
pub struct Engine<T: Table = SdkTable> {
    wiring: Wiring<T>,
    send: SendPacket<T, RedisStore>,
    packets: RwLock<Vec<PacketId>>,
    next_key: AtomicU64,
}

impl Engine {
    /// An engine over the stores of a lab, with the table of a workload. `ack` is its acknowledgement mode.
    pub async fn new(lab: &Lab, workload: &str, ack: &str) -> Result<Arc<Self>, BoxError> {
        let (client, table) = (wiring::dynamodb_at(&lab.dynamodb_url()), format!("workload-{workload}"));
        create_table(&client, &table).await?;
        Self::over(lab, SdkTable::new(client, table).without_tokens(), ack).await
    }
}

impl<T: Table> Engine<T> {
    /// An engine over the Redis of a lab and a table that is empty.
    pub async fn over(lab: &Lab, table: T, ack: &str) -> Result<Arc<Self>, BoxError> {
        let config = Config::for_both_stores(|name| match name {
            "TABLE_NAME" => Some("unused".to_owned()),
            "REDIS_URL" => Some(lab.redis_config().url),
            "GRAB_ACK" => Some(ack.to_owned()),
            "TICKET_KEYS" => Some(format!(r#"{{"keys": [{TICKET_KEY}]}}"#)),
            "REDIS_CONNECT_TIMEOUT_MS" | "REDIS_RESPONSE_TIMEOUT_MS" => {
                Some(crate::RESPONSE_TIMEOUT.as_millis().to_string())
            }
            _ => None,
        })?;
        let server = wiring::redis(&config)?;
        let wiring = Wiring::over(table, server, config, Environment::default());
        let deposit: RequestKey = "deposit".parse()?;
        wiring.stores().ledger.deposit(&SENDER.parse()?, &deposit, MAX_BALANCE, None, System.now()).await?;
        let send = wiring.send_packet();
        Ok(Arc::new(Self { wiring, send, packets: RwLock::default(), next_key: AtomicU64::new(0) }))
    }

    fn stores(&self) -> &Stores<T, RedisStore> {
        self.wiring.stores()
    }

    /// Its use case of a grab, as the local stack runs it.
    #[must_use]
    pub fn grab_slip(&self) -> GrabSlip<T, RedisStore> {
        self.wiring.grab_slip().never_frozen()
    }

    /// The packet of the rush with this index.
    pub fn packet(&self, packet: usize) -> PacketId {
        self.packets.read().unwrap_or_else(PoisonError::into_inner)[packet]
    }

    /// Sends the packets of a rush.
    pub async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.fill_with(rush, false).await
    }

    /// The same, of packets that want tickets or not.
    pub async fn fill_with(&self, rush: &Rush, wants_ticket: bool) -> Result<(), BoxError> {
        let send = |_| async { self.send(rush.slips, wants_ticket).await };
        let packets = stream::iter(0..rush.packets).map(send).buffer_unordered(SENDS_AT_ONCE).try_collect().await?;
        *self.packets.write().unwrap_or_else(PoisonError::into_inner) = packets;
        Ok(())
    }

    /// Sends one packet and reads its terms and amounts, as a process does once for the first grab.
    async fn send(&self, slips: u32, wants_ticket: bool) -> Result<PacketId, BoxError> {
        let packet = NewPacket {
            sender: SENDER.parse()?,
            split: Split::Random,
            total: Amount::new(u64::from(slips) * 100),
            count: slips,
            greeting: String::new(),
            starts_at: None,
            expires_in: Duration::from_hours(1),
            passphrase: None,
            recipients: None,
            wants_ticket,
            limit: None,
            labels: Labels::default(),
        };
        let key: IdempotencyKey = format!("key-{}", self.next_key.fetch_add(1, Ordering::Relaxed)).parse()?;
        let sent = self.send.send(packet, &key).await?;
        let SendOutcome::Sent(terms) = sent else { return Err(format!("not sent: {sent:?}").into()) };
        let packets = &self.stores().packets;
        packets.terms(terms.id).await?;
        for part in terms.id.parts() {
            packets.amounts(part).await?;
        }
        Ok(terms.id)
    }
}

/// The use case in a process that serves many requests at once: concurrent grabs are collected.
pub struct Collected<T: Table = SdkTable> {
    engine: Arc<Engine<T>>,
    grab: GrabSlip<T, RedisStore>,
}

impl<T: Table> Collected<T> {
    /// The use case of an engine.
    #[must_use]
    pub fn new(engine: &Arc<Engine<T>>) -> Arc<Self> {
        Arc::new(Self { grab: engine.grab_slip(), engine: Arc::clone(engine) })
    }
}

impl<T: Table> Grabs for Collected<T> {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let user: UserId = user.parse()?;
        match self.grab.grab(self.engine.packet(packet), &user, None, &Voucher::Operator).await? {
            GrabOutcome::Grabbed { claim, .. } => Ok(Got::Slip(claim.slip.into())),
            GrabOutcome::SoldOut => Ok(Got::Nothing),
            other => Err(format!("a grab ended with {other:?}").into()),
        }
    }
}

/// The script with one user per call, as in a function that serves one request at a time, over one or several connections.
pub struct OneUser {
    engine: Arc<Engine>,
    /// Each connection as often as it may take another call.
    free: Mutex<Vec<Arc<RedisStore>>>,
}

impl OneUser {
    /// The script of an engine, with so many calls in flight on each connection.
    pub async fn new(
        engine: &Arc<Engine>,
        redis: &RedisConfig,
        connections: usize,
        in_flight: usize,
    ) -> Result<Arc<Self>, BoxError> {
        let mut free = Vec::new();
        for _ in 0..connections {
            let store = Arc::new(RedisStore::new(Connection::new(redis)?));
            store.connect().await?;
            free.extend(std::iter::repeat_n(store, in_flight));
        }
        Ok(Arc::new(Self { engine: Arc::clone(engine), free: Mutex::new(free) }))
    }

    async fn ask(hot: &RedisStore, packet: PacketId, user: &str) -> Result<Got, BoxError> {
        let user: UserId = user.parse()?;
        for part in PartId::probe_order(packet, &user) {
            let grabber = Grabber { user: user.clone(), passphrase: None };
            let found = hot.grab(part, &[grabber]).await?;
            match found.as_deref() {
                Some([GrabAnswer::Held { slip, .. }]) => return Ok(Got::Slip((*slip).into())),
                Some([GrabAnswer::SoldOut { .. }]) => {}
                other => return Err(format!("a grab ended with {other:?}").into()),
            }
        }
        Ok(Got::Nothing)
    }
}

impl Grabs for OneUser {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let store = free().pop().ok_or("more calls than the connections take")?;
        let got = Self::ask(&store, self.engine.packet(packet), user).await;
        free().push(store);
        got
    }
}

/// Only the transaction of a claim, without Redis.
pub struct BareClaims(pub Arc<Engine>);

impl Grabs for BareClaims {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.0.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let stores = self.0.stores();
        let terms = stores.packets.terms(self.0.packet(packet)).await?.ok_or("a packet that was sent")?;
        let slip: u32 = user.rsplit('-').next().unwrap_or_default().parse()?;
        let claim = Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) };
        stores.ledger.claim(&terms, &user.parse()?, &claim, None).await?;
        Ok(Got::Slip(slip.into()))
    }
}
