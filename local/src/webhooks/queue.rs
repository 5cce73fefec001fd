//! A small SQS: messages that are hidden while they are tried, and dead letters. Before them, the changes that may become
//! messages.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::{Attributes, Batch, Queued, Webhook};
use rusqlite::{Connection, params};
use shared::domain::Timestamp;
use shared::ledger::Ledger;
use shared::ports::{Clock, Key, Table};

/// How long a received message is hidden: longer than any try takes.
const HIDDEN: Duration = Duration::from_mins(1);
/// When a change is looked at first if its transaction is not answered, and how much later at least each time after.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// How old a change gets that the ledger does not show: longer than a transaction can take.
const CHANGE_AGE_MAX: Duration = Duration::from_mins(1);

const SCHEMA: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS changes (
    id INTEGER PRIMARY KEY, pk TEXT NOT NULL, sk TEXT NOT NULL, part INTEGER NOT NULL,
    since_ms INTEGER NOT NULL, look_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS changes_by_look ON changes (look_ms);
CREATE TABLE IF NOT EXISTS messages (
    id TEXT PRIMARY KEY, body TEXT NOT NULL, receives INTEGER NOT NULL, visible_ms INTEGER NOT NULL, is_dead INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (is_dead, visible_ms);
UPDATE changes SET look_ms = 0;
UPDATE messages SET visible_ms = 0, receives = CASE is_dead WHEN 1 THEN 0 ELSE receives END, is_dead = 0;
";

/// What a transaction does to an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// It writes the item.
    Insert,
    /// It closes the packet.
    Close,
    /// It settles the packet.
    Settle,
}

/// A change that was noted before its transaction was sent.
#[derive(Debug)]
pub struct Noted {
    id: i64,
    /// The item.
    pub key: Key,
    /// What the transaction does to it.
    pub part: Part,
    since: Timestamp,
}

/// What the ledger says of a change.
#[derive(Debug)]
pub struct Verdict {
    /// The change.
    pub noted: Noted,
    /// Its events by id; `None`: the ledger does not show the change.
    pub messages: Option<Vec<(String, String)>>,
}

/// The queue's file can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct QueueError(#[from] rusqlite::Error);

/// The queue.
pub struct Queue {
    connection: Mutex<Connection>,
    clock: Arc<dyn Clock>,
}

impl Queue {
    /// Opens the queue in `file`, or an empty one in memory. Hidden messages and dead letters can be received again.
    pub fn open(file: Option<&Path>, clock: Arc<dyn Clock>) -> Result<Self, QueueError> {
        let connection = match file {
            Some(file) => Connection::open(file)?,
            None => Connection::open_in_memory()?,
        };
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Mutex::new(connection), clock })
    }

    /// Notes changes that a transaction is about to make, and names them.
    pub fn note(&self, changes: &[(Key, Part)]) -> Result<Vec<i64>, QueueError> {
        let now = self.clock.now();
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let mut ids = Vec::with_capacity(changes.len());
        for (key, part) in changes {
            let mut insert = transaction
                .prepare_cached("INSERT INTO changes (pk, sk, part, since_ms, look_ms) VALUES (?1, ?2, ?3, ?4, ?5)")?;
            insert.execute(params![key.pk, key.sk, *part as i64, ms(now), ms(now.after(LOOK_AFTER))])?;
            ids.push(transaction.last_insert_rowid());
        }
        transaction.commit()?;
        Ok(ids)
    }

    /// It is time to look at these changes: their transaction was answered.
    pub fn look_now(&self, ids: &[i64]) -> Result<(), QueueError> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for id in ids {
            transaction.prepare_cached("UPDATE changes SET look_ms = 0 WHERE id = ?1")?.execute([id])?;
        }
        Ok(transaction.commit()?)
    }

    /// Up to `limit` noted changes that it is time to look at.
    pub fn due_changes(&self, limit: usize) -> Result<Vec<Noted>, QueueError> {
        let connection = self.lock();
        let mut select = connection.prepare_cached(
            "SELECT id, pk, sk, part, since_ms FROM changes WHERE look_ms <= ?1 ORDER BY look_ms, id LIMIT ?2",
        )?;
        let rows = select.query_map(params![ms(self.clock.now()), count(limit)], |row| {
            let part = match row.get(3)? {
                0 => Part::Insert,
                1 => Part::Close,
                _ => Part::Settle,
            };
            let key = Key { pk: row.get(1)?, sk: row.get(2)? };
            Ok(Noted { id: row.get(0)?, key, part, since: moment(row.get(4)?) })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether any change is noted.
    pub fn has_changes(&self) -> Result<bool, QueueError> {
        Ok(self.lock().query_row("SELECT EXISTS (SELECT 1 FROM changes)", [], |row| row.get(0))?)
    }

    /// Queues the events of changes that the ledger shows, and forgets these changes. One that it does not show is looked at again, later each time.
    pub fn apply(&self, verdicts: &[Verdict]) -> Result<(), QueueError> {
        let now = self.clock.now();
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for Verdict { noted, messages } in verdicts {
            let age = now.since(noted.since);
            for (id, body) in messages.iter().flatten() {
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO messages (id, body, receives, visible_ms, is_dead) VALUES (?1, ?2, 0, ?3, 0)
                     ON CONFLICT (id) DO NOTHING",
                )?;
                insert.execute(params![id, body, ms(now)])?;
            }
            if messages.is_some() || age > CHANGE_AGE_MAX {
                transaction.prepare_cached("DELETE FROM changes WHERE id = ?1")?.execute([noted.id])?;
            } else {
                let mut update = transaction.prepare_cached("UPDATE changes SET look_ms = ?2 WHERE id = ?1")?;
                update.execute(params![noted.id, ms(now.after(LOOK_AFTER.max(age / 2)))])?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Receives up to `limit` messages and hides them.
    pub fn receive(&self, limit: usize) -> Result<Batch, QueueError> {
        let now = self.clock.now();
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let found: Vec<(String, String, u32)> = {
            let mut select = transaction.prepare_cached(
                "SELECT id, body, receives FROM messages WHERE is_dead = 0 AND visible_ms <= ?1 ORDER BY visible_ms LIMIT ?2",
            )?;
            let rows =
                select.query_map(params![ms(now), count(limit)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut records = Vec::with_capacity(found.len());
        for (id, body, receives) in found {
            let mut hide = transaction
                .prepare_cached("UPDATE messages SET receives = receives + 1, visible_ms = ?2 WHERE id = ?1")?;
            hide.execute(params![id, ms(now.after(HIDDEN))])?;
            let attributes = Attributes { approximate_receive_count: (receives + 1).to_string() };
            records.push(Queued { receipt_handle: id.clone(), message_id: id, body, attributes });
        }
        transaction.commit()?;
        Ok(Batch { records })
    }

    /// Puts messages into the queue, by their ids, or lets those that wait there or are dead be received at once.
    pub fn put(&self, messages: &[(String, String)]) -> Result<(), QueueError> {
        let now = self.clock.now();
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for (id, body) in messages {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO messages (id, body, receives, visible_ms, is_dead) VALUES (?1, ?2, 0, ?3, 0)
                 ON CONFLICT (id) DO UPDATE SET receives = 0, visible_ms = ?3, is_dead = 0",
            )?;
            insert.execute(params![id, body, ms(now)])?;
        }
        Ok(transaction.commit()?)
    }

    /// Lets the dead letters be received again. Returns how many there were.
    pub fn revive(&self) -> Result<usize, QueueError> {
        let revive = "UPDATE messages SET receives = 0, visible_ms = ?1, is_dead = 0 WHERE is_dead = 1";
        Ok(self.lock().execute(revive, [ms(self.clock.now())])?)
    }

    /// How many messages can be received, how many are hidden, and how many are dead.
    pub fn counts(&self) -> Result<[u64; 3], QueueError> {
        let count = "SELECT COUNT(*) FILTER (WHERE is_dead = 0 AND visible_ms <= ?1),
                            COUNT(*) FILTER (WHERE is_dead = 0 AND visible_ms > ?1), COUNT(*) FILTER (WHERE is_dead = 1) FROM messages";
        let counts = self
            .lock()
            .query_row(count, [ms(self.clock.now())], |row| Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?]))?;
        Ok(counts.map(|count| count.try_into().unwrap_or_default()))
    }

    /// Gives a batch to the function, and deletes what it delivered.
    pub async fn delivered<T: Table>(&self, webhook: &Webhook, ledger: &Ledger<T>, batch: Batch) {
        let ids: Vec<String> = batch.records.iter().map(|queued| queued.message_id.clone()).collect();
        let answer = notify::handle(webhook, ledger, self, batch, &*self.clock).await.answer;
        let stay: HashSet<String> =
            answer.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
        if let Err(error) = self.delete(ids.iter().filter(|id| !stay.contains(*id))) {
            tracing::warn!(error = shared::error_chain(&error), "delivered webhooks stay in the queue");
        }
    }

    fn delete<'a>(&self, ids: impl Iterator<Item = &'a String>) -> Result<(), QueueError> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for id in ids {
            transaction.prepare_cached("DELETE FROM messages WHERE id = ?1 AND is_dead = 0")?.execute([id])?;
        }
        Ok(transaction.commit()?)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl notify::Queue for Queue {
    async fn hide(&self, queued: &Queued, pause: Duration) -> Result<(), notify::QueueError> {
        let until = ms(self.clock.now().after(pause));
        self.lock().execute("UPDATE messages SET visible_ms = ?2 WHERE id = ?1", params![queued.message_id, until])?;
        Ok(())
    }

    /// The next start tries dead letters again.
    async fn set_aside(&self, queued: &Queued) -> Result<(), notify::QueueError> {
        self.lock().execute("UPDATE messages SET is_dead = 1 WHERE id = ?1", [&queued.message_id])?;
        Ok(())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

fn ms(at: Timestamp) -> i64 {
    i64::try_from(at.ms()).unwrap_or(i64::MAX)
}

fn moment(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or_default())
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
