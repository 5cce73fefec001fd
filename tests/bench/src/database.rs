//! The designs that go to the database at each grab. Conditional writes stand for row locks and version columns.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ReturnValue, ScalarAttributeType,
};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, cmd};

use crate::BoxError;
use crate::concurrent::Grabs;
use crate::rush::{Got, Rush};

const TABLE: &str = "designs";
/// Tries of an optimistic design before it answers that the user has lost.
const TRIES: usize = 10;
/// The pause between two tries for a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// A design with a database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// One distributed lock per packet, around reading and writing its row.
    Lock,
    /// The packet's row has a version.
    Optimistic,
    /// The packet's row is locked while it is changed.
    Pessimistic,
    /// One row per slip, which a user takes if it is still free.
    SlipOptimistic,
    /// A slip from a list in Redis, then the row. A crash in between loses the slip.
    QueueThenDatabase,
    /// A slip and a record in Redis; a consumer writes the row.
    QueueAsync,
}

impl Way {
    /// All designs, in the order of the report.
    pub const ALL: [Self; 6] = [
        Self::Lock,
        Self::Optimistic,
        Self::Pessimistic,
        Self::SlipOptimistic,
        Self::QueueThenDatabase,
        Self::QueueAsync,
    ];

    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lock => "db-lock",
            Self::Optimistic => "db-optimistic",
            Self::Pessimistic => "db-pessimistic",
            Self::SlipOptimistic => "db-slip-optimistic",
            Self::QueueThenDatabase => "queue-then-db",
            Self::QueueAsync => "queue-async",
        }
    }
}

type Row = HashMap<String, AttributeValue>;

/// A design over a database and a Redis.
pub struct Database {
    way: Way,
    db: Client,
    redis: MultiplexedConnection,
    next: AtomicU64,
}

impl Database {
    /// A design over the table that [`Self::create_table`] creates.
    pub async fn new(way: Way, db: Client, redis_url: &str) -> Result<Self, BoxError> {
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(crate::RESPONSE_TIMEOUT));
        let redis = redis::Client::open(redis_url)?.get_multiplexed_async_connection_with_config(&patient).await?;
        Ok(Self { way, db, redis, next: AtomicU64::new(0) })
    }

    /// Creates the table of these designs.
    pub async fn create_table(db: &Client) -> Result<(), BoxError> {
        let mut create = db.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
        for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
            create = create
                .key_schema(KeySchemaElement::builder().attribute_name(name).key_type(kind).build()?)
                .attribute_definitions(
                    AttributeDefinition::builder()
                        .attribute_name(name)
                        .attribute_type(ScalarAttributeType::S)
                        .build()?,
                );
        }
        create.send().await?;
        Ok(())
    }

    async fn put(&self, pk: &str, sk: &str, fields: &[(&str, AttributeValue)]) -> Result<(), BoxError> {
        let mut put = self.db.put_item().table_name(TABLE).item("pk", text(pk)).item("sk", text(sk));
        for (name, value) in fields {
            put = put.item(*name, value.clone());
        }
        put.send().await?;
        Ok(())
    }

    async fn packet(&self, packet: usize) -> Result<Row, BoxError> {
        let get = self.db.get_item().table_name(TABLE).key("pk", text(&row(packet))).key("sk", text("packet"));
        Ok(get.consistent_read(true).send().await?.item.unwrap_or_default())
    }

    /// Changes a row if `condition` holds, and returns the changed row. Returns `None` if it does not hold.
    async fn update(
        &self,
        (pk, sk): (&str, &str),
        expression: &str,
        condition: Option<&str>,
        values: &[(&str, AttributeValue)],
    ) -> Result<Option<Row>, BoxError> {
        let mut update = self.db.update_item().table_name(TABLE).key("pk", text(pk)).key("sk", text(sk));
        for (name, value) in values {
            update = update.expression_attribute_values(*name, value.clone());
        }
        let update = update.update_expression(expression).set_condition_expression(condition.map(str::to_owned));
        match update.return_values(ReturnValue::AllNew).send().await {
            Ok(done) => Ok(Some(done.attributes.unwrap_or_default())),
            Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn record(&self, packet: usize, user: &str, slip: u64) -> Result<(), BoxError> {
        self.put(&row(packet), &format!("claim {user}"), &[("slip", number(slip))]).await
    }

    fn slip(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn lock(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let (mut redis, lock) = (self.redis.clone(), format!("lock:{packet}"));
        loop {
            let mut set = cmd("SET");
            set.arg(&lock).arg(user).arg("NX").arg("PX").arg(3_000);
            if set.query_async::<Option<String>>(&mut redis).await?.is_some() {
                break;
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        let left = left(&self.packet(packet).await?)?;
        let got = if left == 0 {
            Got::Nothing
        } else {
            let slip = self.slip();
            self.record(packet, user, slip).await?;
            let values = [(":left", number(left - 1))];
            self.update((&row(packet), "packet"), "SET left_ = :left", None, &values).await?;
            Got::Slip(slip)
        };
        cmd("DEL").arg(&lock).exec_async(&mut redis).await?;
        Ok(got)
    }

    async fn optimistic(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        for _ in 0..TRIES {
            let seen = left(&self.packet(packet).await?)?;
            if seen == 0 {
                return Ok(Got::Nothing);
            }
            // The counter only falls, so it is its own version.
            let values = [(":left", number(seen - 1)), (":seen", number(seen))];
            let changed =
                self.update((&row(packet), "packet"), "SET left_ = :left", Some("left_ = :seen"), &values).await?;
            if changed.is_some() {
                let slip = self.slip();
                self.record(packet, user, slip).await?;
                return Ok(Got::Slip(slip));
            }
        }
        Ok(Got::Nothing)
    }

    async fn pessimistic(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let key = row(packet);
        let locked = loop {
            let values = [(":me", text(user))];
            let condition = Some("attribute_not_exists(locked_by)");
            if let Some(row) = self.update((&key, "packet"), "SET locked_by = :me", condition, &values).await? {
                break row;
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        };
        let left = left(&locked)?;
        if left == 0 {
            self.update((&key, "packet"), "REMOVE locked_by", None, &[]).await?;
            return Ok(Got::Nothing);
        }
        let slip = self.slip();
        self.record(packet, user, slip).await?;
        let values = [(":left", number(left - 1))];
        self.update((&key, "packet"), "SET left_ = :left REMOVE locked_by", None, &values).await?;
        Ok(Got::Slip(slip))
    }

    async fn slip_optimistic(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        for _ in 0..TRIES {
            let free = self
                .db
                .query()
                .table_name(TABLE)
                .key_condition_expression("pk = :pk AND begins_with(sk, :slip)")
                .filter_expression("attribute_not_exists(owner_)")
                .expression_attribute_values(":pk", text(&row(packet)))
                .expression_attribute_values(":slip", text("slip "))
                .consistent_read(true)
                .send()
                .await?
                .items
                .unwrap_or_default();
            if free.is_empty() {
                return Ok(Got::Nothing);
            }
            // As good as random: users who arrive together choose different slips.
            let chosen = &free[usize::try_from(self.slip())? % free.len()];
            let Some(sk) = chosen.get("sk").and_then(|sk| sk.as_s().ok()) else { continue };
            let values = [(":me", text(user))];
            let condition = Some("attribute_not_exists(owner_)");
            if self.update((&row(packet), sk), "SET owner_ = :me", condition, &values).await?.is_some() {
                return Ok(Got::Slip(sk.trim_start_matches("slip ").parse()?));
            }
        }
        Ok(Got::Nothing)
    }

    async fn queue_then_database(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let slip: Option<u64> = cmd("RPOP").arg(format!("queue:{packet}")).query_async(&mut self.redis.clone()).await?;
        let Some(slip) = slip else { return Ok(Got::Nothing) };
        self.record(packet, user, slip).await?;
        Ok(Got::Slip(slip))
    }

    async fn queue_async(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let mut redis = self.redis.clone();
        let slip: Option<u64> = cmd("RPOP").arg(format!("queue:{packet}")).query_async(&mut redis).await?;
        let Some(slip) = slip else { return Ok(Got::Nothing) };
        cmd("LPUSH").arg("records").arg(format!("{packet} {user} {slip}")).exec_async(&mut redis).await?;
        Ok(Got::Slip(slip))
    }

    /// The consumer of [`Way::QueueAsync`]: writes all records that are left.
    async fn consume(&self) -> Result<(), BoxError> {
        let mut redis = self.redis.clone();
        loop {
            let record: Option<String> = cmd("RPOPLPUSH").arg("records").arg("backup").query_async(&mut redis).await?;
            let Some(record) = record else { return Ok(()) };
            let mut fields = record.split(' ');
            let (Some(packet), Some(user), Some(slip)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(format!("not a record: {record}").into());
            };
            self.record(packet.parse()?, user, slip.parse()?).await?;
            cmd("LREM").arg("backup").arg(1).arg(&record).exec_async(&mut redis).await?;
        }
    }
}

impl Grabs for Database {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        for packet in 0..rush.packets {
            self.put(&row(packet), "packet", &[("left_", number(rush.slips.into()))]).await?;
            let slips: Vec<u32> = (0..rush.slips).collect();
            match self.way {
                Way::QueueThenDatabase | Way::QueueAsync => {
                    let key = format!("queue:{packet}");
                    cmd("LPUSH").arg(key).arg(slips).exec_async(&mut self.redis.clone()).await?;
                }
                Way::SlipOptimistic => {
                    for slip in slips {
                        self.put(&row(packet), &format!("slip {slip}"), &[]).await?;
                    }
                }
                Way::Lock | Way::Optimistic | Way::Pessimistic => {}
            }
        }
        Ok(())
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        match self.way {
            Way::Lock => self.lock(packet, user).await,
            Way::Optimistic => self.optimistic(packet, user).await,
            Way::Pessimistic => self.pessimistic(packet, user).await,
            Way::SlipOptimistic => self.slip_optimistic(packet, user).await,
            Way::QueueThenDatabase => self.queue_then_database(packet, user).await,
            Way::QueueAsync => self.queue_async(packet, user).await,
        }
    }

    async fn finish(&self) -> Result<(), BoxError> {
        match self.way {
            Way::QueueAsync => self.consume().await,
            _ => Ok(()),
        }
    }
}

fn row(packet: usize) -> String {
    format!("packet {packet}")
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn left(row: &Row) -> Result<u64, BoxError> {
    let left = row.get("left_").and_then(|left| left.as_n().ok());
    Ok(left.ok_or("a packet without a counter")?.parse()?)
}
