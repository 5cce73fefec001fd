use std::future::Future;

/// An item: a map from attribute names to values.
pub use serde_dynamo::Item;

use serde_dynamo::AttributeValue;

/// A primary key.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The partition key.
    pub pk: String,
    /// The sort key.
    pub sk: String,
}

/// Some items of one partition key, in the order of their sort keys.
#[derive(Clone, Debug)]
pub struct Query {
    /// The partition key.
    pub pk: String,
    /// The beginning of the sort keys; may be empty.
    pub sk_prefix: &'static str,
    /// Only items after this sort key, which need not exist.
    pub after: Option<String>,
    /// Whether the items come from the last sort key to the first.
    pub descending: bool,
    /// The most items.
    pub limit: Option<u32>,
}

/// A bound on an attribute of an item before a [`Write::Add`] changes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bound {
    /// The item exists and the attribute is at least this.
    AtLeast(&'static str, u64),
    /// The attribute is at most this, or the item does not exist.
    AtMost(&'static str, u64),
}

/// What must be true of an item before a [`Write::Change`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expect {
    /// The attribute has this text.
    Is(&'static str, &'static str),
    /// The item has the attribute.
    Has(&'static str),
    /// Nothing. The item is made if it does not exist.
    Nothing,
}

/// One write of a transaction. There is no unconditional put and no delete: what is written stays.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Write {
    /// Puts an item if none has its key.
    PutNew {
        /// Its key.
        key: Key,
        /// Its other attributes.
        item: Item,
    },
    /// Adds to numbers of an item, which is made (all of them 0) if it does not exist.
    Add {
        /// The item's key.
        key: Key,
        /// What to add to which attribute.
        deltas: Vec<(&'static str, i64)>,
        /// Conditions on the item before the change.
        bounds: Vec<Bound>,
        /// An attribute that the item must not have.
        absent: Option<&'static str>,
    },
    /// Sets and removes attributes of an item, if it is as expected.
    Change {
        /// The item's key.
        key: Key,
        /// What must be true before.
        expect: Expect,
        /// Attributes to set.
        set: Item,
        /// Attributes to remove.
        remove: &'static [&'static str],
    },
}

impl Write {
    /// The item's key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::PutNew { key, .. } | Self::Add { key, .. } | Self::Change { key, .. } => key,
        }
    }

    /// What a table that holds `found` under the key has against this write.
    #[must_use]
    pub fn objection(&self, found: Option<&Item>) -> Reason {
        let value = |name: &str| found.and_then(|item| item.get(name));
        let number = |name: &str| match value(name) {
            Some(AttributeValue::N(digits)) => digits.parse::<i128>().ok(),
            _ => None,
        };
        let (holds, shown) = match self {
            Self::PutNew { .. } => (found.is_none(), found),
            Self::Add { bounds, absent, .. } => {
                let is_within = bounds.iter().all(|bound| match *bound {
                    Bound::AtLeast(name, least) => number(name).is_some_and(|value| value >= least.into()),
                    Bound::AtMost(name, most) => number(name).is_none_or(|value| value <= most.into()),
                });
                (is_within && absent.is_none_or(|name| value(name).is_none()), found)
            }
            Self::Change { expect, .. } => {
                let holds = match *expect {
                    Expect::Is(name, expected) => {
                        matches!(value(name), Some(AttributeValue::S(text)) if text == expected)
                    }
                    Expect::Has(name) => value(name).is_some(),
                    Expect::Nothing => true,
                };
                (holds, None)
            }
        };
        if holds { Reason::None } else { Reason::ConditionFailed(shown.cloned()) }
    }
}

/// What a cancelled transaction says of one of its writes.
#[derive(Clone, Debug)]
pub enum Reason {
    /// Nothing is wrong with it.
    None,
    /// Its condition failed; with the existing item, if there is one and the table shows it.
    ConditionFailed(Option<Item>),
    /// Another transaction on its item is in flight, or the item is throttled: the same write may succeed later.
    Busy(String),
}

/// Why the table did not answer.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// There is no answer, or only a passing one (throttled, overloaded): ask again.
    #[error("no answer from the table")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another transaction on the same items is in flight, or this one has no answer yet: its outcome is still open.
    #[error("the transaction is still open")]
    Pending(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This process asks for more than the table answers. This request was not sent, and another try would only add to the load.
    #[error("too much is asked of the table")]
    Overloaded(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A defect of this program: the table calls the request wrong.
    #[error("the table refused the request")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl TableError {
    /// The error and all its causes in one line.
    pub fn chain(&self) -> String {
        crate::error_chain(self)
    }
}

/// Why a transaction was not seen to commit.
#[derive(Debug, thiserror::Error)]
pub enum TransactError {
    /// It was cancelled as a whole; one reason for each write.
    #[error("the transaction was cancelled")]
    Cancelled(Vec<Reason>),
    /// Its token was used for another transaction, or for the same writes in another order: nothing is known.
    #[error("the transaction's token is spent")]
    TokenSpent(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It may have been committed or not; or it was refused as malformed.
    #[error(transparent)]
    Failed(#[from] TableError),
}

/// What a batch of reads found.
#[derive(Debug, Default)]
pub struct Batch {
    /// The items that exist.
    pub items: Vec<Item>,
    /// What the table was too busy for: it may be asked for again, after a pause.
    pub left: Vec<Key>,
}

/// A table as the ledger uses it: that of `DynamoDB`, or one like it. Reads are strongly consistent, except [`Table::due`] (an index cannot be).
pub trait Table: Send + Sync + 'static {
    /// The item with this key.
    fn get(&self, key: Key) -> impl Future<Output = Result<Option<Item>, TableError>> + Send;

    /// The items with these keys (at most 100) that exist, in any order, as far as the table is not too busy for them.
    fn batch_get(&self, keys: Vec<Key>) -> impl Future<Output = Result<Batch, TableError>> + Send;

    /// All items that a query asks for, however many pages that takes.
    fn query(&self, query: Query) -> impl Future<Output = Result<Vec<Item>, TableError>> + Send;

    /// The packets of a due shard that are due at or before `until_ms`, the earliest first: items of `PK` and
    /// `due_at`. `after` is the last one of the previous page.
    fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Item>, TableError>> + Send;

    /// Does all the writes or none. A table may take the same `token` within ten minutes for the same transaction, and do it once. The
    /// ledger does not lean on that.
    fn transact(&self, writes: &[Write], token: &str) -> impl Future<Output = Result<(), TransactError>> + Send;
}
