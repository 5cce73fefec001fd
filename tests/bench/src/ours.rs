//! This engine: its use case of a grab, over a real Redis and a real `DynamoDB` API.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use shared::config::Config;
use shared::domain::{Amount, IdempotencyKey, MAX_BALANCE, PacketId, PartId, RequestKey, Split, Timestamp, UserId};
use shared::dynamodb::{SdkTable, create_table};
use shared::ports::{Clock, Entropy, GrabAnswer, Grabber, HotStore, System};
use shared::redis::{Connection, RedisConfig, RedisStore};
use shared::service::{GrabOutcome, GrabSlip, NewPacket, SendOutcome, SendPacket, Settle, Stores};
use shared::wiring::{self, Wiring};

use crate::BoxError;
use crate::concurrent::Grabs;
use crate::rush::{Got, Rush};
use crate::spread::Seeded;

pub const SENDER: &str = "sender";
const PACKET_EXPIRES_IN: Duration = Duration::from_hours(1);
const SENDS_AT_ONCE: usize = 16;

/// The engine over its two stores, and the packets of the rush.
pub struct Engine {
    wiring: Wiring,
    send: SendPacket<SdkTable, RedisStore>,
    packets: RwLock<Vec<PacketId>>,
    next_key: AtomicU64,
    connection: Connection,
}

impl Engine {
    /// An engine over a Redis and a new table. `ack` is its acknowledgement mode.
    pub async fn new(redis_url: &str, dynamodb_url: &str, table: &str, ack: &str) -> Result<Self, BoxError> {
        Self::over(&RedisConfig::new(redis_url), dynamodb_url, table, ack, Arc::new(System)).await
    }

    /// An engine over a Redis cluster and a new table, acknowledged by Redis. The seed determines the packets' ids.
    pub async fn on_cluster(urls: String, dynamodb_url: &str, table: &str, seed: u64) -> Result<Self, BoxError> {
        let redis = RedisConfig { cluster: true, ..RedisConfig::new(urls) };
        Self::over(&redis, dynamodb_url, table, "redis", Arc::new(Seeded::new(seed))).await
    }

    async fn over(
        redis: &RedisConfig,
        dynamodb_url: &str,
        table: &str,
        ack: &str,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, BoxError> {
        let client = wiring::dynamodb_at(dynamodb_url);
        create_table(&client, table).await?;
        let config = Config::for_both_stores(|name| match name {
            "TABLE_NAME" => Some(table.to_owned()),
            "REDIS_URL" => Some(redis.url.clone()),
            "REDIS_CLUSTER" => Some(redis.cluster.to_string()),
            "GRAB_ACK" => Some(ack.to_owned()),
            "REDIS_CONNECT_TIMEOUT_MS" | "REDIS_RESPONSE_TIMEOUT_MS" => {
                Some(crate::RESPONSE_TIMEOUT.as_millis().to_string())
            }
            _ => None,
        })?;
        let policy = config.policy.clone();
        let wiring = Wiring::over(SdkTable::new(client, table.to_owned()).without_tokens(), config)?;
        let send = SendPacket::new(Stores { entropy, ..wiring.stores().clone() }, policy);
        let connection = Connection::new(redis)?;
        let engine = Self { wiring, send, packets: RwLock::default(), next_key: AtomicU64::new(0), connection };
        let deposit: RequestKey = "deposit".parse()?;
        let ledger = &engine.wiring.stores().ledger;
        ledger.deposit(&SENDER.parse()?, &deposit, MAX_BALANCE, None, System.now()).await?;
        Ok(engine)
    }

    /// Both stores.
    #[must_use]
    pub const fn stores(&self) -> &Stores<SdkTable, RedisStore> {
        self.wiring.stores()
    }

    /// Its settle.
    #[must_use]
    pub fn settle(&self) -> Settle<SdkTable, RedisStore> {
        self.wiring.settle()
    }

    /// A connection to its Redis, of the same kind as its own.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Its use case of a grab, as the local stack runs it.
    #[must_use]
    pub fn grab_slip(&self) -> GrabSlip<SdkTable, RedisStore> {
        self.wiring.grab_slip().running_on()
    }

    /// The packet of the rush with this index.
    pub fn packet(&self, packet: usize) -> PacketId {
        self.packets.read().unwrap_or_else(PoisonError::into_inner)[packet]
    }

    /// Sends the packets of a rush.
    pub async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        let send = |_| async { self.send(rush.slips).await };
        let packets = stream::iter(0..rush.packets).map(send).buffer_unordered(SENDS_AT_ONCE).try_collect().await?;
        *self.packets.write().unwrap_or_else(PoisonError::into_inner) = packets;
        Ok(())
    }

    /// Sends one packet and reads its terms and amounts, as a process does once for the first grab.
    pub async fn send(&self, slips: u32) -> Result<PacketId, BoxError> {
        let id = self.send_only(slips).await?;
        self.read(id).await
    }

    /// The same for a packet that starts later.
    pub async fn send_starting(&self, slips: u32, starts_at: Timestamp) -> Result<PacketId, BoxError> {
        let id = self.send_new(NewPacket { starts_at: Some(starts_at), ..new_packet(slips)? }).await?;
        self.read(id).await
    }

    async fn read(&self, id: PacketId) -> Result<PacketId, BoxError> {
        let packets = &self.stores().packets;
        packets.terms(id).await?;
        for part in id.parts() {
            packets.amounts(part).await?;
        }
        Ok(id)
    }

    /// Sends one packet.
    pub async fn send_only(&self, slips: u32) -> Result<PacketId, BoxError> {
        self.send_new(new_packet(slips)?).await
    }

    async fn send_new(&self, packet: NewPacket) -> Result<PacketId, BoxError> {
        let key: IdempotencyKey = format!("key-{}", self.next_key.fetch_add(1, Ordering::Relaxed)).parse()?;
        match self.send.send(packet, &key).await? {
            SendOutcome::Sent(terms) => Ok(terms.id),
            other => Err(format!("not sent: {other:?}").into()),
        }
    }
}

/// A packet of so many slips.
pub fn new_packet(slips: u32) -> Result<NewPacket, BoxError> {
    Ok(NewPacket {
        sender: SENDER.parse()?,
        split: Split::Random,
        total: Amount::new(u64::from(slips) * 100),
        count: slips,
        greeting: String::new(),
        starts_at: None,
        expires_in: PACKET_EXPIRES_IN,
        passphrase: None,
        recipients: None,
        labels: shared::domain::Labels::default(),
    })
}

/// The use case in a process that serves many requests at once: concurrent grabs are collected.
pub struct Collected {
    engine: Arc<Engine>,
    grab: GrabSlip<SdkTable, RedisStore>,
}

impl Collected {
    /// The use case of an engine.
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { grab: engine.grab_slip(), engine }
    }
}

impl Grabs for Collected {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let user: UserId = user.parse()?;
        match self.grab.grab(self.engine.packet(packet), &user, None).await? {
            GrabOutcome::Grabbed { claim, .. } => Ok(Got::Slip(claim.slip.into())),
            GrabOutcome::SoldOut => Ok(Got::Nothing),
            other => Err(format!("a grab ended with {other:?}").into()),
        }
    }
}

/// The script with one user per call, as in a function that serves one request at a time.
pub struct OneByOne {
    engine: Arc<Engine>,
}

impl OneByOne {
    /// The script of an engine.
    #[must_use]
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

impl Grabs for OneByOne {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        one_user_a_call(&self.engine.stores().hot, self.engine.packet(packet), user).await
    }
}

/// A grab by nothing more than the script, with one user a call: asks part after part.
pub async fn one_user_a_call(hot: &RedisStore, packet: PacketId, user: &str) -> Result<Got, BoxError> {
    let user: UserId = user.parse()?;
    for part in PartId::probe_order(packet, &user) {
        let grabber = Grabber { user: user.clone(), passphrase: None };
        let found = hot.grab(part, &[grabber]).await?;
        match found.as_deref() {
            Some([GrabAnswer::Held { slip, .. }]) => return Ok(Got::Slip((*slip).into())),
            Some([GrabAnswer::Nothing { .. }]) => {}
            other => return Err(format!("a grab ended with {other:?}").into()),
        }
    }
    Ok(Got::Nothing)
}
