//! Where the items of a ledger come from: a table, or a test's memory.

use std::collections::HashMap;
use std::fmt::Debug;

use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use shared::ledger::keys::{PK, SK};
use shared::ports::{Item, Key};

/// Why a reading could not continue. Nobody can judge what was not read.
#[derive(Debug, thiserror::Error)]
#[error("the table did not answer")]
pub struct ReadError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Some items, and the place where the next ones begin.
#[derive(Debug)]
pub struct Page {
    /// The items.
    pub items: Vec<Item>,
    /// The last key that was read; `None` at the end.
    pub next: Option<Key>,
}

/// What to read of a ledger.
#[derive(Clone, Debug)]
pub enum Range {
    /// The existing items with these keys, which may repeat: one page, in no order.
    Keys(Vec<Key>),
    /// The items of a partition key whose sort keys begin with `prefix`, in order.
    Partition {
        /// The partition key.
        pk: String,
        /// The beginning of the sort keys; may be empty.
        prefix: String,
    },
    /// One of `of` disjoint segments of all items, in no order.
    Segment {
        /// Its number, from 0.
        index: i32,
        /// The number of segments.
        of: i32,
        /// What of them.
        only: Only,
    },
}

/// What of the items of a segment is read.
#[derive(Clone, Copy, Debug)]
pub enum Only {
    /// Whole items.
    Whole,
    /// Their keys; of all items, or of those that pass the bound.
    Keys(Option<Since>),
}

/// Items with a time at or after a bound, in milliseconds since the epoch, or in the index of what is due.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// The bound on `at` and `created_at`.
    pub written_ms: u64,
    /// The bound on `expires_at`.
    pub expired_ms: u64,
}

/// A ledger, for reads only. Each read is consistent.
pub trait Source: Debug + Send + Sync {
    /// Some items of `range` after the key `after`, and where the next ones begin.
    fn scan<'a>(&'a self, range: &'a Range, after: Option<&'a Key>) -> BoxFuture<'a, Result<Page, ReadError>>;
}

impl dyn Source + '_ {
    /// The pages of a range.
    pub fn pages(&self, range: Range) -> impl Stream<Item = Result<Vec<Item>, ReadError>> + Send + Unpin {
        // `Some` while there is a page after this key.
        Box::pin(stream::try_unfold((Some(None::<Key>), range), move |(place, range)| async move {
            let Some(last) = place else { return Ok(None) };
            let page = self.scan(&range, last.as_ref()).await?;
            Ok(Some((page.items, (page.next.map(Some), range))))
        }))
    }

    /// The pages of all items, from several segments at once and in no order.
    pub fn all(&self, segments: i32, only: Only) -> impl Stream<Item = Result<Vec<Item>, ReadError>> + Send + Unpin {
        let segment = move |index| self.pages(Range::Segment { index, of: segments, only });
        stream::iter(0..segments).map(segment).flatten_unordered(None)
    }

    /// The existing items with these keys, which may repeat.
    pub async fn batch(&self, keys: Vec<Key>) -> Result<HashMap<Key, Item>, ReadError> {
        let items = self.pages(Range::Keys(keys)).try_concat().await?;
        Ok(items.into_iter().filter_map(|item| Some((key_of(&item)?, item))).collect())
    }

    /// The item with this key.
    pub async fn get(&self, key: Key) -> Result<Option<Item>, ReadError> {
        Ok(self.batch(vec![key.clone()]).await?.remove(&key))
    }
}

/// The primary key of an item.
pub fn key_of(item: &Item) -> Option<Key> {
    let text = |name| item.get(name).and_then(crate::item::as_text).map(str::to_owned);
    Some(Key { pk: text(PK)?, sk: text(SK)? })
}

/// The format of a key in reports.
pub fn shown(key: &Key) -> String {
    format!("{} / {}", key.pk, key.sk)
}
