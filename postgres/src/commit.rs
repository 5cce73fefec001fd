use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_dynamo::AttributeValue;
use shared::batching::Caller;
use shared::error_chain;
use shared::ports::{Bound, Expect, Key, Reason, TableError, TransactError, Write};
use shared::timeouts;
use tokio::sync::oneshot;
use tokio_postgres::types::Json;

use crate::Database;
use crate::database::Connection;
use crate::failure::{Failure, failed};
use crate::table::{Attributes, read_all};

/// The most statements in flight that commit. Transactions that come meanwhile share the next one, because a commit of ten costs the
/// disk about as much as a commit of one.
const IN_FLIGHT_MAX: usize = 4;
/// The most writes that one statement takes from several transactions.
const WRITES_MAX: usize = 100;

/// Commits transactions, several in one statement if they come at once and have no item in common.
pub struct Committing {
    database: Database,
    statement: String,
}

/// A transaction that waits for its commit.
pub struct Waiting {
    writes: Vec<Write>,
    answer: oneshot::Sender<Outcome>,
}

type Outcome = Result<(), TransactError>;

impl Waiting {
    /// A transaction, and the way to its outcome.
    pub fn new(writes: &[Write]) -> (Self, oneshot::Receiver<Outcome>) {
        let (answer, outcome) = oneshot::channel();
        (Self { writes: writes.to_vec(), answer }, outcome)
    }

    fn answer(self, outcome: Outcome) {
        // Who asked may be gone.
        drop(self.answer.send(outcome));
    }
}

impl Committing {
    pub fn new(database: Database) -> Self {
        let statement = include_str!("commit.sql")
            .replace("{change}", include_str!("change.sql"))
            .replace("{is_expected}", include_str!("is_expected.sql"))
            .replace("{schema}", &database.quoted_schema());
        Self { database, statement }
    }

    /// Does all the writes or none.
    async fn commit(&self, connection: &mut Connection, mut writes: Vec<&Write>) -> Result<(), Failure> {
        // Two statements that wait for each other are rare if all have one order.
        writes.sort_unstable_by_key(|write| write.key());
        let (pks, sks): (Vec<&str>, Vec<&str>) =
            writes.iter().map(|write| (&*write.key().pk, &*write.key().sk)).unzip();
        let are_new: Vec<bool> = writes.iter().map(|write| matches!(write, Write::PutNew { .. })).collect();
        let changes: Vec<Json<Change>> = writes.iter().map(|write| Json(Change::from(*write))).collect();
        connection.query(timeouts::TRY, &self.statement, &[&pks, &sks, &are_new, &changes]).await?;
        Ok(())
    }

    /// The outcome of a transaction that has a statement of its own.
    async fn commit_alone(&self, connection: &mut Connection, writes: &[Write]) -> Outcome {
        let all = |reason: Reason| Err(TransactError::Cancelled(vec![reason; writes.len()]));
        match self.commit(connection, writes.iter().collect()).await {
            Ok(()) => Ok(()),
            Err(Failure::Objection) => {
                let keys: Vec<&Key> = writes.iter().map(Write::key).collect();
                let found = read_all(connection, &self.database, &keys).await.map_err(TableError::from)?;
                let reasons: Vec<Reason> = writes.iter().map(|write| write.objection(found.get(write.key()))).collect();
                // Without one, the objection was to an item that has changed since.
                let is_over = reasons.iter().all(|reason| matches!(reason, Reason::None));
                if is_over { all(Reason::Busy("changed".to_owned())) } else { Err(TransactError::Cancelled(reasons)) }
            }
            Err(Failure::Conflict(error)) => all(Reason::Busy(error_chain(&error))),
            Err(failure) => Err(TableError::from(failure).into()),
        }
    }
}

impl Caller for Committing {
    type Key = ();
    type Queue = Vec<Waiting>;
    type Batch = Vec<Waiting>;
    type Report = ();

    fn in_flight_max(&self) -> usize {
        IN_FLIGHT_MAX
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    /// The first of the queue, and those that fit to it. An item that two of them write keeps the later one for another call.
    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        let mut taken: HashSet<Key> = HashSet::new();
        let mut batch = Vec::new();
        let mut left = Vec::new();
        for one in queue.drain(..) {
            let fits = batch.is_empty()
                || taken.len() + one.writes.len() <= WRITES_MAX
                    && one.writes.iter().all(|write| !taken.contains(write.key()));
            if fits {
                taken.extend(one.writes.iter().map(|write| write.key().clone()));
                batch.push(one);
            } else {
                left.push(one);
            }
        }
        *queue = left;
        batch
    }

    async fn call(&self, (): &(), batch: Self::Batch) {
        let failed = match self.database.connection().await {
            Ok(mut connection) => {
                let all = batch.iter().flat_map(|one| &one.writes).collect();
                let is_alone = batch.len() == 1;
                match if is_alone { Err(Failure::Objection) } else { self.commit(&mut connection, all).await } {
                    Ok(()) => return batch.into_iter().for_each(|one| one.answer(Ok(()))),
                    // One of them is in the way of the others.
                    Err(Failure::Objection | Failure::Conflict(_) | Failure::Refused(_)) => {
                        for one in batch {
                            let outcome = self.commit_alone(&mut connection, &one.writes).await;
                            one.answer(outcome);
                        }
                        return;
                    }
                    Err(failure) => failure.into(),
                }
            }
            Err(error) => failed(error),
        };
        for one in batch {
            // Each has the same answer.
            let error = failed.chain().into();
            let is_overload = matches!(failed, TableError::Overloaded(_));
            one.answer(Err(
                if is_overload { TableError::Overloaded(error) } else { TableError::Unavailable(error) }.into()
            ));
        }
    }
}

/// A write as the statement reads it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Change<'a> {
    /// The item.
    New(&'a Attributes),
    /// See [`Write::Add`].
    Add {
        add: BTreeMap<&'a str, i64>,
        least: BTreeMap<&'a str, u64>,
        most: BTreeMap<&'a str, u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<&'a str>,
    },
    /// See [`Write::Change`].
    Update {
        set: &'a Attributes,
        remove: &'a [&'a str],
        #[serde(skip_serializing_if = "Option::is_none")]
        is: Option<Attributes>,
        #[serde(skip_serializing_if = "Option::is_none")]
        has: Option<&'a str>,
    },
}

impl<'a> From<&'a Write> for Change<'a> {
    fn from(write: &'a Write) -> Self {
        match write {
            Write::PutNew { item, .. } => Self::New(item.inner()),
            Write::Add { deltas, bounds, absent, .. } => {
                let (mut least, mut most) = (BTreeMap::new(), BTreeMap::new());
                for bound in bounds {
                    match *bound {
                        Bound::AtLeast(name, number) => least.insert(name, number),
                        Bound::AtMost(name, number) => most.insert(name, number),
                    };
                }
                Self::Add { add: deltas.iter().copied().collect(), least, most, absent: *absent }
            }
            Write::Change { set, remove, expect, .. } => {
                let (is, has) = match *expect {
                    Expect::Is(name, text) => {
                        (Some([(name.to_owned(), AttributeValue::S(text.to_owned()))].into()), None)
                    }
                    Expect::Has(name) => (None, Some(name)),
                    Expect::Nothing => (None, None),
                };
                Self::Update { set: set.inner(), remove, is, has }
            }
        }
    }
}
