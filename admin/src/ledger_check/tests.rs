//! The check over tables that break a rule on purpose.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde_dynamo::AttributeValue;
use serde_json::Value;
use shared::memory::MemoryTable;
use shared::ports::{Batch, Expect, Item, Key, Query, Reason, Table, TableError, TransactError, Write};
use tokio::task::yield_now;

use super::probe::{number, token};
use super::*;

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    CreationIsNotChecked,
    CreationIsCheckedTooEarly,
    EverythingIsCheckedTooEarly,
    BoundsAreIgnored,
    AddsAreLost,
    ExpectationsAreIgnored,
    AbsenceIsIgnored,
    FailuresAreHalfDone,
    SuccessesAreHalfDone,
    ReasonsAreOfOtherWrites,
    AnotherItemIsShown,
    TokensRepeatSums,
    GetsAreStale,
    BatchesAreStale,
    QueriesAreStale,
    NumbersAreDoubles,
    OrderIsAlwaysAscending,
    OrderIsThatOfUtf16,
    PagesSkipAnItem,
    PrefixesArePatterns,
    IndexForgets,
    IndexKeepsWhatLeft,
    IndexHasNoOrder,
    // These are no faults.
    None,
    TokensAreIgnored,
    AnswersAreLost,
    // This one can't be checked.
    NothingIsAnswered,
}
use Fault::*;

struct Faulty {
    inner: MemoryTable,
    /// The table before its newest transaction.
    before: MemoryTable,
    newest: Mutex<Vec<Write>>,
    tokens: Mutex<HashSet<String>>,
    calls: AtomicU32,
    fault: Fault,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        let (inner, before, newest) = Default::default();
        Self { inner, before, newest, tokens: Mutex::default(), calls: AtomicU32::new(0), fault }
    }

    fn read_from(&self, is_stale: bool) -> &MemoryTable {
        if is_stale { &self.before } else { &self.inner }
    }

    /// A write without its conditions, which sets what the sums were going to be when the item was `found`.
    fn forced(&self, write: &Write, found: Option<&Item>) -> Write {
        match write.clone() {
            Write::PutNew { key, item } => {
                self.inner.remove(&key);
                Write::PutNew { key, item }
            }
            Write::Add { key, deltas, .. } => {
                let sum = |name, delta| found.map_or(0, |item| number(item, name)) + delta;
                let sums = deltas
                    .into_iter()
                    .map(|(name, delta)| (name.to_owned(), AttributeValue::N(sum(name, delta).to_string())));
                Write::Change { key, expect: Expect::Nothing, set: sums.collect::<HashMap<_, _>>().into(), remove: &[] }
            }
            Write::Change { key, set, remove, .. } => Write::Change { key, expect: Expect::Nothing, set, remove },
        }
    }

    /// The writes as the fault leaves them.
    fn changed(&self, writes: &[Write]) -> Vec<Write> {
        let changed = writes.iter().cloned().map(|mut write| {
            match (&mut write, self.fault) {
                (Write::PutNew { key, .. }, CreationIsNotChecked) => self.inner.remove(key),
                (Write::Add { bounds, .. }, BoundsAreIgnored) => bounds.clear(),
                (Write::Add { absent, .. }, AbsenceIsIgnored) => *absent = Option::None,
                (Write::Change { expect, .. }, ExpectationsAreIgnored) => *expect = Expect::Nothing,
                (Write::PutNew { item, .. }, NumbersAreDoubles) => {
                    for value in item.inner_mut().values_mut() {
                        if let AttributeValue::N(digits) = value {
                            *digits = digits.parse::<f64>().unwrap().to_string();
                        }
                    }
                }
                _ => {}
            }
            write
        });
        changed.collect()
    }

    /// Looks first, and writes later what it then believes to be right.
    async fn transact_late(&self, writes: &[Write], is_late: impl Fn(&Write) -> bool) -> Result<(), TransactError> {
        let found: Vec<Option<Item>> = writes.iter().map(|write| self.inner.read(write.key())).collect();
        let reasons: Vec<Reason> =
            writes.iter().zip(&found).map(|(write, found)| write.objection(found.as_ref())).collect();
        if !reasons.iter().all(|reason| matches!(reason, Reason::None)) {
            return Err(TransactError::Cancelled(reasons));
        }
        yield_now().await;
        let forced = writes
            .iter()
            .zip(&found)
            .map(|(write, found)| if is_late(write) { self.forced(write, found.as_ref()) } else { write.clone() });
        self.inner.apply(&forced.collect::<Vec<_>>(), &token())
    }
}

impl Table for Faulty {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.read_from(self.fault == GetsAreStale).get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        if self.fault == AnswersAreLost {
            let (some, left) = keys.split_at(keys.len().div_ceil(2));
            return Ok(Batch { left: left.to_vec(), ..self.inner.batch_get(some.to_vec()).await? });
        }
        self.read_from(self.fault == BatchesAreStale).batch_get(keys).await
    }

    async fn query(&self, mut query: Query) -> Result<Vec<Item>, TableError> {
        let was_after = query.after.is_some();
        if self.fault == OrderIsAlwaysAscending {
            query.descending = false;
        }
        if self.fault == PrefixesArePatterns && query.sk_prefix == "AT#" {
            query.sk_prefix = "AT";
        }
        let is_descending = query.descending;
        let mut items = self.read_from(self.fault == QueriesAreStale).query(query).await?;
        if self.fault == OrderIsThatOfUtf16 {
            items
                .sort_by_key(|item| shared::ledger::keys::of_item(item).unwrap().sk.encode_utf16().collect::<Vec<_>>());
            if is_descending {
                items.reverse();
            }
        }
        if self.fault == PagesSkipAnItem && was_after && !items.is_empty() {
            items.remove(0);
        }
        Ok(items)
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        let is_stale = self.fault == IndexKeepsWhatLeft;
        let mut items = self.read_from(is_stale).due(shard, until_ms, after, limit).await?;
        match self.fault {
            IndexForgets => items.retain(|item| number(item, "due_at") != 100),
            IndexHasNoOrder => items.reverse(),
            _ => {}
        }
        Ok(items)
    }

    async fn transact(&self, writes: &[Write], same: &str) -> Result<(), TransactError> {
        let lost = || Err(TableError::Unavailable("the connection was lost".into()).into());
        let call = self.calls.fetch_add(1, Relaxed);
        match self.fault {
            NothingIsAnswered => return lost(),
            AnswersAreLost if call.is_multiple_of(5) => return lost(),
            AnswersAreLost if call % 5 == 1 => {
                let busy = |_| Reason::Busy("TransactionConflict".to_owned());
                return Err(TransactError::Cancelled(writes.iter().map(busy).collect()));
            }
            CreationIsCheckedTooEarly => {
                return self.transact_late(writes, |write| matches!(write, Write::PutNew { .. })).await;
            }
            AddsAreLost => return self.transact_late(writes, |write| matches!(write, Write::Add { .. })).await,
            EverythingIsCheckedTooEarly => return self.transact_late(writes, |_| true).await,
            _ => {}
        }
        let is_repeated = !self.tokens.lock().unwrap().insert(same.to_owned());
        let keeps_tokens = !matches!(self.fault, TokensAreIgnored | TokensRepeatSums | AnswersAreLost);
        let used = if keeps_tokens { same.to_owned() } else { token() };
        if self.fault == TokensRepeatSums && is_repeated {
            let sums: Vec<Write> = writes.iter().filter(|write| matches!(write, Write::Add { .. })).cloned().collect();
            return self.inner.apply(&sums, &used);
        }
        let done = if self.fault == SuccessesAreHalfDone && writes.len() > 2 {
            self.inner.apply(&writes[..writes.len() - 1], &used)
        } else {
            self.inner.apply(&self.changed(writes), &used)
        };
        if done.is_ok() {
            let newest = std::mem::replace(&mut *self.newest.lock().unwrap(), writes.to_vec());
            // A repeated transaction fails here, and is there already.
            drop(self.before.apply(&newest, &token()));
        }
        match (done, self.fault) {
            (Ok(()), AnswersAreLost) if call % 5 == 2 => lost(),
            (Err(TransactError::Cancelled(reasons)), FailuresAreHalfDone) => {
                let failed = reasons.iter().position(|reason| !matches!(reason, Reason::None)).unwrap();
                if failed > 0 {
                    self.inner.apply(&writes[..failed], &token()).unwrap();
                }
                Err(TransactError::Cancelled(reasons))
            }
            (Err(TransactError::Cancelled(mut reasons)), ReasonsAreOfOtherWrites) => {
                reasons.rotate_left(1);
                Err(TransactError::Cancelled(reasons))
            }
            (Err(TransactError::Cancelled(mut reasons)), AnotherItemIsShown) => {
                for reason in &mut reasons {
                    if let Reason::ConditionFailed(Some(item)) = reason {
                        *item = Item::default();
                    }
                }
                Err(TransactError::Cancelled(reasons))
            }
            (done, _) => done,
        }
    }
}

/// The exit code, and the rules that are not found to be kept.
async fn checked(fault: Fault) -> (Exit, Vec<String>, String) {
    let Outcome { text, exit } = check(&Faulty::new(fault), true).await.unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let rules = report["rules"].as_array().unwrap().iter().filter(|rule| rule["result"] != "ok");
    (exit, rules.map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect(), text)
}

#[tokio::test(start_paused = true)]
async fn a_table_that_keeps_the_rules_passes() {
    // The port lets a table ignore tokens, be busy and lose its answers.
    for good in [None, TokensAreIgnored, AnswersAreLost] {
        let (exit, rules, text) = checked(good).await;
        assert_eq!((exit, rules), (Exit::Good, vec![]), "{good:?}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_found_by_the_rule_that_it_breaks() {
    for (fault, rule) in [
        (CreationIsNotChecked, "creation"),
        (CreationIsCheckedTooEarly, "creation"),
        (AnotherItemIsShown, "creation"),
        (ExpectationsAreIgnored, "claim-or-refund"),
        (EverythingIsCheckedTooEarly, "claim-or-refund"),
        (AddsAreLost, "claim-or-refund"),
        (AddsAreLost, "bounds"),
        (BoundsAreIgnored, "bounds"),
        (TokensRepeatSums, "repetition"),
        (GetsAreStale, "read-after-write"),
        (BatchesAreStale, "read-after-write"),
        (QueriesAreStale, "read-after-write"),
        (NumbersAreDoubles, "read-after-write"),
        (OrderIsAlwaysAscending, "queries"),
        (OrderIsThatOfUtf16, "queries"),
        (PagesSkipAnItem, "queries"),
        (PrefixesArePatterns, "queries"),
        (IndexForgets, "queries"),
        (IndexKeepsWhatLeft, "queries"),
        (IndexHasNoOrder, "queries"),
        (FailuresAreHalfDone, "all-or-nothing"),
        (SuccessesAreHalfDone, "claim-or-refund"),
        (ReasonsAreOfOtherWrites, "all-or-nothing"),
        (AbsenceIsIgnored, "all-or-nothing"),
    ] {
        let (exit, rules, text) = checked(fault).await;
        assert!(exit == Exit::Wrong && rules.iter().any(|found| found == rule), "{fault:?}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_that_does_not_answer_is_not_judged() {
    let (exit, rules, text) = checked(NothingIsAnswered).await;
    assert_eq!((exit, rules), (Exit::Unfinished, vec!["creation".to_owned()]));
    assert!(text.contains("the connection was lost"), "{text}");
}
