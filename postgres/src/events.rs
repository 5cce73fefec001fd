//! The events of a ledger on `PostgreSQL`. A trigger notes each change that may be one, in the change's own transaction. From there they
//! go into a queue, as the function `publish` puts them into SQS on AWS.

use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use shared::ledger::keys::{PK, SK};
use shared::ports::TableError;
use shared::timeouts;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use crate::Database;
use crate::failure::failed;
use crate::table::Attributes;

/// How many old changes one statement forgets.
const FORGET_AT_ONCE: i64 = 5_000;

/// A message of the queue.
#[derive(Clone, Debug)]
pub struct Message {
    /// A webhook's id.
    pub id: String,
    /// An event as JSON.
    pub body: String,
    /// How often it was received, this time included.
    pub receives: i32,
}

/// What is to be published, and the queue of what is to be delivered.
#[derive(Clone, Debug)]
pub struct Events(Database);

impl Events {
    /// The events of a ledger.
    pub const fn new(database: Database) -> Self {
        Self(database)
    }

    /// Up to `limit` changes that are not published yet, in their order: each with its number, as a record of the stream of a table of
    /// `DynamoDB`.
    pub async fn changes(&self, limit: i64) -> Result<Vec<(i64, Value)>, TableError> {
        let statement = "SELECT id, pk, sk, is_new, item FROM {schema}.changes ORDER BY id LIMIT $1";
        let rows = self.run(statement, &[&limit]).await?;
        rows.iter().map(record).collect::<Result<_, _>>().map_err(|error| TableError::Refused(error.into()))
    }

    /// Puts messages into the queue, and forgets the changes that they come from: both or neither. `all` are the numbers
    /// of all these changes. Another process may do the same at once.
    pub async fn publish(&self, messages: &[(i64, String, String)], all: &[i64]) -> Result<(), TableError> {
        let numbers: Vec<i64> = messages.iter().map(|(number, ..)| *number).collect();
        let ids: Vec<&str> = messages.iter().map(|(_, id, _)| &**id).collect();
        let bodies: Vec<&str> = messages.iter().map(|(.., body)| &**body).collect();
        let statement = "WITH gone AS (DELETE FROM {schema}.changes WHERE id = ANY($1) RETURNING id)
            INSERT INTO {schema}.webhooks (id, body)
            SELECT given.id, body FROM unnest($2::bigint[], $3::text[], $4::text[]) AS given (number, id, body)
            JOIN gone ON gone.id = number ORDER BY number ON CONFLICT (id) DO NOTHING";
        self.run(statement, &[&all, &numbers, &ids, &bodies]).await.map(drop)
    }

    /// Receives up to `limit` messages, and hides them for a time.
    pub async fn receive(&self, limit: i64, hidden: Duration) -> Result<Vec<Message>, TableError> {
        let statement = "UPDATE {schema}.webhooks SET receives = receives + 1,
                visible_at = clock_timestamp() + $2 * interval '1 second'
            WHERE id IN (SELECT id FROM {schema}.webhooks WHERE NOT is_dead AND visible_at <= clock_timestamp()
                ORDER BY visible_at LIMIT $1 FOR UPDATE SKIP LOCKED)
            RETURNING id, body, receives, number";
        let mut rows = self.run(statement, &[&limit, &hidden.as_secs_f64()]).await?;
        rows.sort_by_key(|row| row.try_get::<_, i64>(3).unwrap_or_default());
        let message = |row: &Row| Ok(Message { id: row.try_get(0)?, body: row.try_get(1)?, receives: row.try_get(2)? });
        let messages: Result<Vec<Message>, tokio_postgres::Error> = rows.iter().map(message).collect();
        messages.map_err(|error| TableError::Refused(error.into()))
    }

    /// Hides a message for a time.
    pub async fn hide(&self, id: &str, pause: Duration) -> Result<(), TableError> {
        let statement =
            "UPDATE {schema}.webhooks SET visible_at = clock_timestamp() + $2 * interval '1 second' WHERE id = $1";
        self.run(statement, &[&id, &pause.as_secs_f64()]).await.map(drop)
    }

    /// Keeps a message, but receives it no more.
    pub async fn set_aside(&self, id: &str) -> Result<(), TableError> {
        self.run("UPDATE {schema}.webhooks SET is_dead = true WHERE id = $1", &[&id]).await.map(drop)
    }

    /// Deletes messages that were delivered.
    pub async fn delete(&self, ids: &[&str]) -> Result<(), TableError> {
        self.run("DELETE FROM {schema}.webhooks WHERE id = ANY($1) AND NOT is_dead", &[&ids]).await.map(drop)
    }

    /// How many messages are dead, and how long the oldest of the others has waited.
    pub async fn waiting(&self) -> Result<(i64, Duration), TableError> {
        let statement = "SELECT count(*) FILTER (WHERE is_dead),
            coalesce(extract(epoch FROM clock_timestamp() - min(at) FILTER (WHERE NOT is_dead)), 0)::float8 FROM {schema}.webhooks";
        let rows = self.run(statement, &[]).await?;
        let read = |row: &Row| Ok((row.try_get(0)?, Duration::try_from_secs_f64(row.try_get(1)?).unwrap_or_default()));
        let read: Result<(i64, Duration), tokio_postgres::Error> = rows.first().map_or(Ok((0, Duration::ZERO)), read);
        read.map_err(|error| TableError::Refused(error.into()))
    }

    /// Forgets changes that nobody published within a week.
    pub async fn forget_old_changes(&self) -> Result<(), TableError> {
        let statement = "DELETE FROM {schema}.changes WHERE id IN
            (SELECT id FROM {schema}.changes WHERE at < now() - interval '7 days' ORDER BY id LIMIT $1) RETURNING 1";
        while self.run(statement, &[&FORGET_AT_ONCE]).await?.len()
            == usize::try_from(FORGET_AT_ONCE).unwrap_or_default()
        {}
        Ok(())
    }

    async fn run(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, TableError> {
        let statement = statement.replace("{schema}", &self.0.quoted_schema());
        let mut connection = self.0.connection().await.map_err(failed)?;
        Ok(connection.query(timeouts::TRY, &statement, parameters).await?)
    }
}

fn record(row: &Row) -> Result<(i64, Value), tokio_postgres::Error> {
    let (number, pk, sk): (i64, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let name = if row.try_get(3)? { "INSERT" } else { "MODIFY" };
    let Json(mut image): Json<Attributes> = row.try_get(4)?;
    image.insert(PK.to_owned(), AttributeValue::S(pk.clone()));
    image.insert(SK.to_owned(), AttributeValue::S(sk.clone()));
    let keys = json!({PK: {"S": pk}, SK: {"S": sk}});
    let body = json!({"Keys": keys, "NewImage": image, "SequenceNumber": number.to_string()});
    Ok((number, json!({"eventID": number.to_string(), "eventName": name, "dynamodb": body})))
}
