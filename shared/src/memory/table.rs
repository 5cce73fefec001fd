use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use serde_dynamo::AttributeValue;

use crate::ledger::keys::{DUE_AT, DUE_SHARD, PK, SK};
use crate::lock;
use crate::memory::limits::{check_batch, check_items, check_key, check_query, check_writes};
use crate::ports::{Batch, Item, Key, Query, Reason, Table, TableError, TransactError, Write};

/// A table in memory. Each call is one step: nothing happens between its beginning and its end.
#[derive(Debug, Default)]
pub struct MemoryTable {
    state: Mutex<TableSnapshot>,
}

/// All that a [`MemoryTable`] held at one moment.
#[derive(Clone, Debug, Default)]
pub struct TableSnapshot {
    items: BTreeMap<Key, Item>,
    /// The index over packets that are not settled: shard, expiry, key.
    due: BTreeSet<(u32, u64, Key)>,
    /// The writes that were committed under each token. `DynamoDB` forgets them after ten minutes; this table never does.
    tokens: BTreeMap<String, Vec<Write>>,
}

impl MemoryTable {
    /// Every item, with its key among its attributes.
    pub fn items(&self) -> BTreeMap<Key, Item> {
        lock(&self.state).items.clone()
    }

    /// All that it holds now.
    pub fn snapshot(&self) -> TableSnapshot {
        lock(&self.state).clone()
    }

    /// A number that equal contents share, and others most likely don't.
    pub fn fingerprint(&self) -> u64 {
        let state = lock(&self.state);
        let mut hasher = DefaultHasher::new();
        for (key, item) in &state.items {
            (&key.pk, &key.sk, fingerprint(item)).hash(&mut hasher);
        }
        // A token stands for writes that are among the items.
        state.tokens.keys().for_each(|token| token.hash(&mut hasher));
        hasher.finish()
    }

    /// Takes the table back to an older state.
    pub fn restore(&self, snapshot: &TableSnapshot) {
        lock(&self.state).clone_from(snapshot);
    }

    /// Removes an item. No code of the ledger does that.
    pub fn remove(&self, key: &Key) {
        let mut state = lock(&self.state);
        if let Some((shard, at)) = state.items.remove(key).as_ref().and_then(due) {
            state.due.remove(&(shard, at, key.clone()));
        }
    }

    /// [`Table::get`] at once.
    pub fn read(&self, key: &Key) -> Option<Item> {
        lock(&self.state).items.get(key).cloned()
    }

    /// [`Table::transact`] at once.
    pub fn apply(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        check_writes(writes)?;
        let mut state = lock(&self.state);
        if let Some(done) = state.tokens.get(token) {
            let spent = || TransactError::TokenSpent("the token stands for another transaction".into());
            return if done == writes { Ok(()) } else { Err(spent()) };
        }
        let reasons: Vec<Reason> = writes.iter().map(|write| write.objection(state.items.get(write.key()))).collect();
        if reasons.iter().any(|reason| !matches!(reason, Reason::None)) {
            return Err(TransactError::Cancelled(reasons));
        }
        let after: Vec<Item> = writes.iter().map(|write| state.after(write)).collect();
        check_items(&after)?;
        for (write, item) in writes.iter().zip(after) {
            state.put(write.key(), item);
        }
        state.tokens.insert(token.to_owned(), writes.to_vec());
        Ok(())
    }
}

impl TableSnapshot {
    /// The item that a write leaves.
    fn after(&self, write: &Write) -> Item {
        let key = write.key();
        let mut item = self.items.get(key).cloned().unwrap_or_default();
        let attributes = item.inner_mut();
        attributes.insert(PK.to_owned(), AttributeValue::S(key.pk.clone()));
        attributes.insert(SK.to_owned(), AttributeValue::S(key.sk.clone()));
        match write {
            Write::PutNew { item: new, .. } => {
                attributes.extend(new.inner().iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            Write::Add { deltas, .. } => {
                for (name, delta) in deltas {
                    let sum = attributes.get(*name).and_then(as_number).unwrap_or(0) + i128::from(*delta);
                    attributes.insert((*name).to_owned(), AttributeValue::N(sum.to_string()));
                }
            }
            Write::Change { set, remove, .. } => {
                attributes.extend(set.inner().iter().map(|(name, value)| (name.clone(), value.clone())));
                for name in *remove {
                    attributes.remove(*name);
                }
            }
        }
        item
    }

    fn put(&mut self, key: &Key, item: Item) {
        if let Some((shard, at)) = self.items.get(key).and_then(due) {
            self.due.remove(&(shard, at, key.clone()));
        }
        if let Some((shard, at)) = due(&item) {
            self.due.insert((shard, at, key.clone()));
        }
        self.items.insert(key.clone(), item);
    }

    fn query(&self, query: &Query) -> Vec<Item> {
        let from = Key { pk: query.pk.clone(), sk: query.sk_prefix.to_owned() };
        let in_reach = |key: &Key| key.pk == query.pk && key.sk.starts_with(query.sk_prefix);
        let after = |key: &Key| match &query.after {
            None => true,
            Some(after) if query.descending => key.sk < *after,
            Some(after) => key.sk > *after,
        };
        let found = self.items.range(from..).take_while(|(key, _)| in_reach(key)).filter(|(key, _)| after(key));
        let mut items: Vec<Item> = found.map(|(_, item)| item.clone()).collect();
        if query.descending {
            items.reverse();
        }
        if let Some(limit) = query.limit {
            items.truncate(limit as usize);
        }
        items
    }
}

/// The same for an item, whose attributes have no order.
pub fn fingerprint(item: &Item) -> u64 {
    item.inner().iter().fold(0, |sum, (name, value)| sum.wrapping_add(of_attribute(name, value)))
}

fn of_attribute(name: &str, value: &AttributeValue) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.hash(&mut hasher),
        AttributeValue::B(bytes) => bytes.hash(&mut hasher),
        AttributeValue::M(parts) => {
            parts.iter().fold(0_u64, |sum, (name, part)| sum.wrapping_add(of_attribute(name, part))).hash(&mut hasher);
        }
        AttributeValue::L(parts) => parts.iter().for_each(|part| of_attribute("", part).hash(&mut hasher)),
        other => format!("{other:?}").hash(&mut hasher),
    }
    hasher.finish()
}

fn number(item: &Item, name: &str) -> Option<i128> {
    item.get(name).and_then(as_number)
}

fn as_number(value: &AttributeValue) -> Option<i128> {
    if let AttributeValue::N(digits) = value { digits.parse().ok() } else { None }
}

/// The place of an item in the index, if it has one: its shard and when it is due.
fn due(item: &Item) -> Option<(u32, u64)> {
    let shard = number(item, DUE_SHARD).and_then(|shard| shard.try_into().ok())?;
    Some((shard, number(item, DUE_AT)?.try_into().ok()?))
}

impl Table for MemoryTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        check_key(&key)?;
        Ok(self.read(&key))
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        check_batch(&keys)?;
        Ok(Batch { items: keys.iter().filter_map(|key| self.read(key)).collect(), left: Vec::new() })
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        check_query(&query.pk, query.limit)?;
        Ok(lock(&self.state).query(&query))
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        if limit == 0 {
            return Err(TableError::Refused("a limit is at least 1".into()));
        }
        let state = lock(&self.state);
        let is_after = |at: u64, key: &Key| after.as_ref().is_none_or(|(last, when)| (at, key) > (*when, last));
        let of_shard = state.due.iter().filter(|(in_shard, at, key)| *in_shard == shard && is_after(*at, key));
        let until = of_shard.take_while(|(_, at, _)| *at <= until_ms).take(limit as usize);
        // The index has only the keys.
        let projected = |(shard, at, key): &(u32, u64, Key)| {
            let mut item = Item::default();
            let attributes = item.inner_mut();
            attributes.insert(PK.to_owned(), AttributeValue::S(key.pk.clone()));
            attributes.insert(SK.to_owned(), AttributeValue::S(key.sk.clone()));
            attributes.insert(DUE_SHARD.to_owned(), AttributeValue::N(shard.to_string()));
            attributes.insert(DUE_AT.to_owned(), AttributeValue::N(at.to_string()));
            item
        };
        Ok(until.map(projected).collect())
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.apply(writes, token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(sk: &str) -> Write {
        let number = |number: u64| AttributeValue::N(number.to_string());
        let attributes = [(DUE_SHARD.to_owned(), number(3)), (DUE_AT.to_owned(), number(1_000))];
        let item = Item::from(std::collections::HashMap::from(attributes));
        Write::PutNew { key: Key { pk: "P".to_owned(), sk: sk.to_owned() }, item }
    }

    fn table() -> MemoryTable {
        let table = MemoryTable::default();
        table.apply(&["A", "B", "C"].map(item), "token").unwrap();
        table
    }

    fn sort_key(item: &Item) -> &str {
        if let Some(AttributeValue::S(text)) = item.get(SK) { text } else { panic!("no key: {item:?}") }
    }

    fn sort_keys(items: &[Item]) -> Vec<&str> {
        items.iter().map(sort_key).collect()
    }

    #[tokio::test]
    async fn a_removed_item_leaves_the_index_too() {
        let table = table();
        let key = item("B").key().clone();
        assert_eq!(sort_keys(&table.due(3, 1_000, None, 10).await.unwrap()), ["A", "B", "C"]);
        table.remove(&key);
        assert!(table.read(&key).is_none());
        assert_eq!(sort_keys(&table.due(3, 1_000, None, 10).await.unwrap()), ["A", "C"]);
    }

    #[tokio::test]
    async fn a_page_begins_after_the_last_one() {
        let table = table();
        for (descending, left) in [(false, ["C"]), (true, ["A"])] {
            let query =
                Query { pk: "P".to_owned(), sk_prefix: "", after: Some("B".to_owned()), descending, limit: None };
            assert_eq!(sort_keys(&table.query(query).await.unwrap()), left);
        }
    }
}
