//! A small SQS: messages that are hidden while they are tried, and dead letters.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use notify::{Attributes, Queued, Webhook};
use publish::{Message, Refused, Target};
use rusqlite::{Connection, params};
use shared::domain::Timestamp;
use shared::events::batch::Batch;
use shared::ledger::Ledger;
use shared::ports::{Clock, Table};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The most messages of a batch, as on AWS.
const BATCH: u32 = 10;
/// How long a received message is hidden: longer than any try takes.
const HIDDEN: Duration = Duration::from_mins(1);
/// How often [`Queue::delivered_within`] looks.
const POLL: Duration = Duration::from_millis(10);

const SCHEMA: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS messages (
    id TEXT PRIMARY KEY, body TEXT NOT NULL, receives INTEGER NOT NULL, visible_ms INTEGER NOT NULL, is_dead INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (is_dead, visible_ms);
UPDATE messages SET visible_ms = 0, receives = CASE is_dead WHEN 1 THEN 0 ELSE receives END, is_dead = 0;
";

/// The queue.
pub struct Queue {
    connection: Mutex<Connection>,
    clock: Arc<dyn Clock>,
    /// Notified when messages were put.
    pub(super) ready: Notify,
    /// Changes that are not put yet, and batches that are being received or delivered.
    pub(super) under_way: AtomicUsize,
}

impl Queue {
    /// Opens the queue in `file`, or an empty one in memory. Hidden messages and dead letters can be received again.
    pub fn open(file: Option<&Path>, clock: Arc<dyn Clock>) -> rusqlite::Result<Self> {
        let connection = match file {
            Some(file) => Connection::open(file)?,
            None => Connection::open_in_memory()?,
        };
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Mutex::new(connection), clock, ready: Notify::new(), under_way: AtomicUsize::new(0) })
    }

    /// Puts messages into the queue. One that waits there already, or is dead, can be received at once.
    pub fn put_all<'a>(&self, messages: impl IntoIterator<Item = &'a Message>) -> rusqlite::Result<()> {
        let connection = self.lock();
        let mut insert = connection.prepare_cached(
            "INSERT INTO messages (id, body, receives, visible_ms, is_dead) VALUES (?1, ?2, 0, ?3, 0)
             ON CONFLICT (id) DO UPDATE SET receives = 0, visible_ms = ?3, is_dead = 0",
        )?;
        for Message { id, body, .. } in messages {
            insert.execute(params![id, body, self.ms(Duration::ZERO)])?;
        }
        self.ready.notify_one();
        Ok(())
    }

    /// Receives a batch of messages and hides them.
    pub fn receive(&self) -> rusqlite::Result<Batch<Queued>> {
        let connection = self.lock();
        let mut hide = connection.prepare_cached(
            "UPDATE messages SET receives = receives + 1, visible_ms = ?2 WHERE id IN
             (SELECT id FROM messages WHERE is_dead = 0 AND visible_ms <= ?1 ORDER BY visible_ms LIMIT ?3)
             RETURNING id, body, receives",
        )?;
        let received = hide.query_map(params![self.ms(Duration::ZERO), self.ms(HIDDEN), BATCH], |row| {
            let (id, receives): (String, u32) = (row.get(0)?, row.get(2)?);
            let attributes = Attributes { approximate_receive_count: receives.to_string() };
            Ok(Queued { receipt_handle: id.clone(), message_id: id, body: row.get(1)?, attributes })
        })?;
        Ok(Batch { records: received.collect::<Result<_, _>>()? })
    }

    /// Gives a batch to the function, and deletes what it delivered.
    pub async fn deliver<T: Table>(&self, webhook: &Webhook, ledger: &Ledger<T>, batch: Batch<Queued>) {
        let ids: Vec<String> = batch.records.iter().map(|queued| queued.message_id.clone()).collect();
        let stay = notify::handle(webhook, ledger, self, batch, &*self.clock).await.answer.batch_item_failures;
        for id in ids.iter().filter(|id| stay.iter().all(|failure| failure.item_identifier != **id)) {
            if let Err(error) = self.lock().execute("DELETE FROM messages WHERE id = ?1 AND is_dead = 0", [id]) {
                tracing::warn!(error = shared::error_chain(&error), "a delivered webhook stays in the queue");
            }
        }
    }

    /// Waits until every message that can be received is delivered or hidden, with those of all changes until now. Returns whether that was
    /// so within `limit`, and before nothing became of any of them for as long as `patience`.
    pub async fn delivered_within(&self, limit: Duration, patience: Duration) -> rusqlite::Result<bool> {
        let give_up = Instant::now() + limit;
        let (mut moved_at, mut before) = (Instant::now(), None);
        self.ready.notify_one();
        loop {
            // What is received between the first two looks is under way at the third, or delivered.
            let looks = [self.is_at_rest(), self.counts()?[0] == 0, self.is_at_rest()];
            if looks == [true; 3] {
                return Ok(true);
            }
            let state = (self.under_way.load(Ordering::SeqCst), self.counts()?);
            if before.replace(state) != Some(state) {
                moved_at = Instant::now();
            }
            if Instant::now() >= give_up.min(moved_at + patience) {
                return Ok(false);
            }
            sleep(POLL).await;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }

    /// Forgets all messages.
    pub fn empty(&self) -> rusqlite::Result<()> {
        self.lock().execute("DELETE FROM messages", [])?;
        Ok(())
    }

    /// Lets the dead letters be received again. Returns how many there were.
    pub fn revive(&self) -> rusqlite::Result<usize> {
        let revive = "UPDATE messages SET receives = 0, visible_ms = ?1, is_dead = 0 WHERE is_dead = 1";
        let revived = self.lock().execute(revive, [self.ms(Duration::ZERO)])?;
        self.ready.notify_one();
        Ok(revived)
    }

    /// How many messages can be received, how many are hidden, and how many are dead.
    pub fn counts(&self) -> rusqlite::Result<[u32; 3]> {
        let count = "SELECT COUNT(*) FILTER (WHERE is_dead = 0 AND visible_ms <= ?1),
                            COUNT(*) FILTER (WHERE is_dead = 0 AND visible_ms > ?1), COUNT(*) FILTER (WHERE is_dead = 1) FROM messages";
        let now = self.ms(Duration::ZERO);
        self.lock().query_row(count, [now], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time after a pause, in milliseconds.
    fn ms(&self, pause: Duration) -> i64 {
        let at: Timestamp = self.clock.now().after(pause);
        i64::try_from(at.ms()).unwrap_or(i64::MAX)
    }
}

impl Target for Queue {
    fn put<'a>(&'a self, messages: &'a [&'a Message]) -> BoxFuture<'a, Result<(), Refused>> {
        let put = self.put_all(messages.iter().copied());
        ready(put.map_err(|error| Refused { which: (0..messages.len()).collect(), source: error.into() })).boxed()
    }
}

impl notify::Queue for Queue {
    async fn hide(&self, queued: &Queued, pause: Duration) -> Result<(), notify::QueueError> {
        let hide = "UPDATE messages SET visible_ms = ?2 WHERE id = ?1";
        self.lock().execute(hide, params![queued.message_id, self.ms(pause)])?;
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
