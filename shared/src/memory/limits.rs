//! What `DynamoDB` refuses of a request by itself. `docs/RELIABILITY.md` names the pages that say so.

use std::collections::BTreeSet;

use serde_dynamo::AttributeValue;

use crate::ledger::keys::{DUE_AT, DUE_SHARD};
use crate::ports::{Expect, Item, Key, TableError, Write};

const WRITES_MAX: usize = 100;
const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;
const READS_MAX: usize = 100;
const ITEM_BYTES_MAX: usize = 400 * 1024;
const PARTITION_KEY_BYTES_MAX: usize = 2_048;
const SORT_KEY_BYTES_MAX: usize = 1_024;
const NUMBER_DIGITS_MAX: usize = 38;
/// What an attribute that is a list or a map takes besides its content, and each of its elements.
const COLLECTION_BYTES: usize = 3;
const ELEMENT_BYTES: usize = 1;

fn refused(why: &'static str) -> TableError {
    TableError::Refused(why.into())
}

fn unless(is_right: bool, why: &'static str) -> Result<(), TableError> {
    if is_right { Ok(()) } else { Err(refused(why)) }
}

/// Refuses writes that no table takes, whatever it holds.
pub fn check_writes(writes: &[Write]) -> Result<(), TableError> {
    unless((1..=WRITES_MAX).contains(&writes.len()), "a transaction has 1 to 100 writes")?;
    let keys: BTreeSet<&Key> = writes.iter().map(Write::key).collect();
    unless(keys.len() == writes.len(), "a transaction writes no item twice")?;
    writes.iter().try_for_each(check_write)
}

fn check_write(write: &Write) -> Result<(), TableError> {
    check_key(write.key())?;
    match write {
        Write::PutNew { item, .. } => item.inner().values().try_for_each(check_value),
        Write::Add { deltas, .. } => {
            let names: BTreeSet<&str> = deltas.iter().map(|(name, _)| *name).collect();
            unless(!deltas.is_empty(), "an update changes something")?;
            unless(names.len() == deltas.len(), "an update changes no attribute twice")
        }
        Write::Change { set, remove, expect, .. } => {
            unless(!set.is_empty() || !remove.is_empty(), "an update changes something")?;
            let names: BTreeSet<&str> = set.keys().map(String::as_str).chain(remove.iter().copied()).collect();
            unless(names.len() == set.len() + remove.len(), "an update changes no attribute twice")?;
            unless(
                !matches!(expect, Expect::Is(name, _) | Expect::Has(name) if name.is_empty()),
                "a name is not empty",
            )?;
            set.inner().values().try_for_each(check_value)
        }
    }
}

/// Refuses items as they would be after a transaction, if they are too large or can't be in the index.
pub fn check_items<'a>(items: impl IntoIterator<Item = &'a Item>) -> Result<(), TableError> {
    let mut total = 0;
    for item in items {
        let size = size_of_item(item);
        unless(size <= ITEM_BYTES_MAX, "an item has at most 400 KB")?;
        total += size;
        let is_number =
            |name| item.get(name).is_none_or(|value: &AttributeValue| matches!(value, AttributeValue::N(_)));
        unless(is_number(DUE_SHARD) && is_number(DUE_AT), "the index' keys are numbers")?;
    }
    unless(total <= TRANSACTION_BYTES_MAX, "a transaction's items have at most 4 MB")
}

/// Refuses keys that no item can have.
pub fn check_key(key: &Key) -> Result<(), TableError> {
    unless((1..=PARTITION_KEY_BYTES_MAX).contains(&key.pk.len()), "a partition key has 1 to 2048 bytes")?;
    unless((1..=SORT_KEY_BYTES_MAX).contains(&key.sk.len()), "a sort key has 1 to 1024 bytes")
}

/// Refuses a batch of reads. An empty one is never sent.
pub fn check_batch(keys: &[Key]) -> Result<(), TableError> {
    unless(keys.len() <= READS_MAX, "a batch reads at most 100 items")?;
    let different: BTreeSet<&Key> = keys.iter().collect();
    unless(different.len() == keys.len(), "a batch reads no item twice")?;
    keys.iter().try_for_each(check_key)
}

/// Refuses a query.
pub fn check_query(pk: &str, limit: Option<u32>) -> Result<(), TableError> {
    unless((1..=PARTITION_KEY_BYTES_MAX).contains(&pk.len()), "a partition key has 1 to 2048 bytes")?;
    unless(limit != Some(0), "a limit is at least 1")
}

fn check_value(value: &AttributeValue) -> Result<(), TableError> {
    match value {
        AttributeValue::N(digits) => unless(is_number(digits), "a number has 1 to 38 digits"),
        AttributeValue::L(values) => values.iter().try_for_each(check_value),
        AttributeValue::M(values) => values.values().try_for_each(check_value),
        _ => Ok(()),
    }
}

/// Only integers: the ledger has no other numbers.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let significant = digits.trim_start_matches('0').trim_end_matches('0').len();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && significant <= NUMBER_DIGITS_MAX
}

fn size_of_item(item: &Item) -> usize {
    item.inner().iter().map(|(name, value)| name.len() + size_of(value)).sum()
}

/// The page "`DynamoDB` item sizes and formats" has these rules. It calls the one for numbers an approximation.
fn size_of(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => {
            let is_negative = digits.starts_with('-');
            let digits = digits.trim_start_matches(['-', '0']).trim_end_matches('0');
            digits.len().div_ceil(2) + 1 + usize::from(is_negative)
        }
        AttributeValue::B(bytes) => bytes.len(),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        AttributeValue::Ss(_) | AttributeValue::Ns(_) | AttributeValue::Bs(_) => unreachable!("the ledger has no sets"),
        AttributeValue::L(values) => {
            COLLECTION_BYTES + values.iter().map(|value| size_of(value) + ELEMENT_BYTES).sum::<usize>()
        }
        AttributeValue::M(values) => {
            let elements = values.iter().map(|(name, value)| name.len() + size_of(value) + ELEMENT_BYTES);
            COLLECTION_BYTES + elements.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_takes_a_byte_for_two_digits_and_one_more() {
        let sizes = [("0", 1), ("7", 2), ("12", 2), ("123", 3), ("-123", 4), ("1200", 2), ("-7", 3)];
        for (number, size) in sizes {
            assert_eq!(size_of(&AttributeValue::N(number.to_owned())), size, "{number}");
        }
    }

    #[test]
    fn a_collection_takes_three_bytes_and_one_for_each_element() {
        let text = || AttributeValue::S("four".to_owned());
        let list = AttributeValue::L(vec![text(), text()]);
        assert_eq!(size_of(&list), 3 + 2 * (4 + 1));
        let map = AttributeValue::M([("key".to_owned(), list)].into());
        assert_eq!(size_of(&map), 3 + (3 + 13 + 1));
    }

    #[test]
    fn a_number_is_checked_wherever_it_is() {
        let number = |digits| AttributeValue::N("9".repeat(digits));
        for digits in [NUMBER_DIGITS_MAX, NUMBER_DIGITS_MAX + 1] {
            let list = AttributeValue::L(vec![number(1), number(digits)]);
            let map = AttributeValue::M([("k".to_owned(), number(digits))].into());
            for value in [number(digits), list, map] {
                assert_eq!(check_value(&value).is_ok(), digits == NUMBER_DIGITS_MAX, "{value:?}");
            }
        }
    }
}
