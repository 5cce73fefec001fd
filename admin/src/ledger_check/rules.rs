//! The rules. Each takes items of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{try_join_all, try_join3};
use serde_json::json;
use shared::ledger::keys::{DUE_AT, DUE_SHARD, of_item};
use shared::ports::{Bound, Entropy, Expect, Item, Key, Query, Reason, System, Table, Write};
use tokio::time::{Instant, sleep};

use super::probe::{Checked, PAUSE, Probe, add, change, number, put, stored, token, unless};

/// How often a race is run.
const ROUNDS: usize = 16;
/// How many race to create one item: nearly as many as the transactions that the ledger's table has in flight.
const CREATORS: usize = 250;
const SLIPS: usize = 25;
const PAYERS: usize = 20;
/// Together they pay more than the bounds allow.
const PAYMENTS: usize = 6;
const DEPOSITS: i64 = 10;
const AMOUNT: i64 = 7;
const READERS: usize = 10;
const VERSIONS: u64 = 10;
/// An integer that a double can't hold, and a text that stores have trouble with.
const LARGE: u64 = (1 << 53) + 1;
const TEXT: &str = "e\u{301} \u{e9} 👩\u{200d}🚀 \"\\'\n%_ ";
/// Sort keys in the order of their bytes, around those that a query for `AT#` finds.
const AROUND: [&str; 11] =
    ["AT", "AT\"", "AT#", "AT#1", "AT#10", "AT#2", "AT#A", "AT#a", "AT#\u{ff5e}", "AT#😀", "AT$"];
/// Items of 4 KB: more than the 1 MB that `DynamoDB` reads at once.
const LONG: usize = 300;
const LONG_BYTES: usize = 4_096;
/// How long an index may lag behind its table.
const LAG_MAX: Duration = Duration::from_secs(10);
/// The times of packets in the index, and the size of its pages.
const TIMES: [u64; 9] = [0, 0, 0, 9, 10, 99, 100, 999_999_999_999, 1_800_000_000_000];
const PAGE: u32 = 2;

impl<T: Table> Probe<'_, T> {
    /// Of all who race to create an item, one does, and the others are shown only that item.
    pub async fn creation(&self) -> Checked {
        for _ in 0..ROUNDS {
            let item = self.key("STATE");
            let create = async |by: usize| self.commit(&[put(&item, json!({"by": by}))]).await;
            let ends = try_join_all((0..CREATORS).map(create)).await?;
            let made = stored(&item, json!({"by": self.winner(&item, &ends).await?}));
            let wrong = ends.iter().flatten().flatten().find(|reason| !is_refusal(reason, Some(&made)));
            unless(wrong.is_none(), || format!("the item is {made:?}, a loser got {wrong:?}"))?;
        }
        Ok(())
    }

    /// A claim and a refund race for each slip. One of them decides it, and its wallet gets the amount.
    pub async fn claim_or_refund(&self) -> Checked {
        for _ in 0..ROUNDS {
            let wallets = [self.key("WALLET"), self.key("WALLET")];
            let slips: Vec<Key> = (0..SLIPS).map(|_| self.key("SLIP")).collect();
            let open: Vec<Write> = slips.iter().map(|slip| put(slip, json!({"state": "open"}))).collect();
            self.must(&open).await?;
            let decide = async |slip: &Key, by: usize| {
                let state = change(slip, Expect::Is("state", "open"), json!({"by": by}), &["state"]);
                self.commit(&[state, add(&wallets[by], "balance", AMOUNT, &[])]).await
            };
            let both = |slip| try_join_all([0, 1].map(|by| decide(slip, by)));
            let ends = try_join_all(slips.iter().map(both)).await?;
            let mut balances = [0, 0];
            for (slip, ends) in slips.iter().zip(ends) {
                balances[self.winner(slip, &ends).await?] += AMOUNT;
            }
            let found = [self.number(&wallets[0], "balance").await?, self.number(&wallets[1], "balance").await?];
            unless(found == balances, || format!("the decisions give {balances:?}, the wallets have {found:?}"))?;
        }
        Ok(())
    }

    /// Many pay out of a balance that does not fall below zero, as long as their sum is within a limit. They use both up as far as they may.
    pub async fn bounds(&self) -> Checked {
        for (balance, limit) in [(600, 1_000), (1_000, 600)].repeat(ROUNDS / 2) {
            let [wallet, day] = [self.key("WALLET"), self.key("DAY")];
            self.must(&[put(&wallet, json!({"balance": balance}))]).await?;
            let pay = [
                add(&wallet, "balance", -AMOUNT, &[Bound::AtLeast("balance", AMOUNT.unsigned_abs())]),
                add(&day, "sent", AMOUNT, &[Bound::AtMost("sent", limit - AMOUNT.unsigned_abs())]),
            ];
            let pay_often = async |_| {
                let mut done = 0;
                for _ in 0..PAYMENTS {
                    done += i64::from(self.commit(&pay).await?.is_none());
                }
                Ok(done)
            };
            let done: i64 = try_join_all((0..PAYERS).map(pay_often)).await?.into_iter().sum();
            let found = (done, self.number(&wallet, "balance").await?, self.number(&day, "sent").await?);
            let expected = 600 / AMOUNT;
            unless(found == (expected, balance - expected * AMOUNT, expected * AMOUNT), || {
                let (done, left, sent) = found;
                format!("{done} payments of {AMOUNT} from {balance}, at most {limit}: left {left}, in sum {sent}")
            })?;
        }
        Ok(())
    }

    /// A transaction that is sent again is done once: at the same time or later, with the same token or another.
    pub async fn repetition(&self) -> Checked {
        for _ in 0..ROUNDS {
            let wallet = self.key("WALLET");
            let deposit = |_| ([put(&self.key("DEPOSIT"), json!({})), add(&wallet, "balance", AMOUNT, &[])], token());
            let deposits: Vec<_> = (0..DEPOSITS).map(deposit).collect();
            try_join_all(deposits.iter().chain(&deposits).map(|(writes, token)| self.send(writes, token))).await?;
            for (writes, same) in &deposits {
                self.send(writes, same).await?;
                self.send(writes, &token()).await?;
            }
            let (found, sum) = (self.number(&wallet, "balance").await?, AMOUNT * DEPOSITS);
            unless(found == sum, || format!("deposits of {sum} that were sent four times moved {found}"))?;
        }
        Ok(())
    }

    /// Each way to read finds a commit at once, as it was written.
    pub async fn read_after_write(&self) -> Checked {
        let follow = async |_| {
            let item = self.key("ITEM");
            for version in 1..=VERSIONS {
                let log = Key { pk: item.pk.clone(), sk: format!("LOG#{version:03}") };
                let new = json!({"version": version, "large": LARGE, "text": TEXT, "more": {"list": [TEXT, true]}});
                self.must(&[put(&log, new.clone()), add(&item, "version", 1, &[])]).await?;
                let (new, sum) = (stored(&log, new), stored(&item, json!({"version": version})));
                let keys = [item.clone(), log.clone()];
                let last = Query { pk: log.pk, sk_prefix: "", after: None, descending: true, limit: Some(1) };
                let (one, both, last) = try_join3(self.get(&item), self.batch(&keys), self.query(&last)).await?;
                let [of_item, of_log] = keys;
                let expected = BTreeMap::from([(of_item, sum.clone()), (of_log, new.clone())]);
                unless(one == Some(sum) && both == expected && last == [new], || {
                    format!("{expected:?} was written, get reads {one:?}, batch_get {both:?}, query {last:?}")
                })?;
            }
            Ok(())
        };
        try_join_all((0..READERS).map(follow)).await.map(drop)
    }

    /// Queries answer in the order of the bytes of sort keys, up or down, with just the items that they ask for. So does the index.
    pub async fn queries(&self) -> Checked {
        let pk = self.key("").pk;
        let long = (0..LONG).map(|n| format!("LONG#{n:03}"));
        let all: Vec<String> = AROUND.into_iter().map(str::to_owned).chain(long).collect();
        let item = |sk: &String| put(&Key { pk: pk.clone(), sk: sk.clone() }, json!({"text": "x".repeat(LONG_BYTES)}));
        // Not in their order.
        let writes: Vec<Write> = all.iter().rev().map(item).collect();
        for writes in writes.chunks(90) {
            self.must(writes).await?;
        }
        for (sk_prefix, descending) in ["", "AT#", "LONG#"].into_iter().flat_map(|it| [(it, false), (it, true)]) {
            let mut range: Vec<&str> = all.iter().map(|sk| &**sk).filter(|sk| sk.starts_with(sk_prefix)).collect();
            if descending {
                range.reverse();
            }
            let at = range[range.len() / 2].to_owned();
            for after in [None, Some(format!("{at}!")), Some(at)] {
                let is_after = |sk: &str| after.as_deref().is_none_or(|it| if descending { sk < it } else { sk > it });
                for limit in [None, Some(1), Some(3)] {
                    let query = Query { pk: pk.clone(), sk_prefix, after: after.clone(), descending, limit };
                    let most = limit.map_or(usize::MAX, |limit| limit as usize);
                    let expected: Vec<&str> = range.iter().copied().filter(|sk| is_after(sk)).take(most).collect();
                    let found: Vec<String> =
                        self.query(&query).await?.iter().filter_map(of_item).map(|key| key.sk).collect();
                    unless(found == expected, || format!("{query:?} finds {found:?}, not {expected:?}"))?;
                }
            }
        }
        self.due().await
    }

    /// The index has the items that are due, the earliest first, until they leave it. At the end all have left it.
    async fn due(&self) -> Checked {
        let mut bytes = [0; 4];
        System.fill(&mut bytes);
        // No shard of a ledger is as large.
        let shard = u32::from_le_bytes(bytes) >> 2 | 1 << 30;
        let mut all = TIMES.map(|at| (at, self.key("META")));
        all.sort();
        // Not in their order.
        let writes = all.iter().rev().map(|(at, key)| put(key, json!({DUE_SHARD: shard, DUE_AT: at})));
        self.must(&writes.collect::<Vec<_>>()).await?;
        self.is_due(shard, TIMES[4], &all[..5]).await?;
        for gone in [0, 4, TIMES.len()] {
            let leave =
                all[..gone].iter().map(|(_, key)| change(key, Expect::Nothing, json!({"gone": 1}), &[DUE_SHARD]));
            self.must(&leave.collect::<Vec<_>>()).await?;
            self.is_due(shard, u64::from(u32::MAX) * 1_000, &all[gone..]).await?;
        }
        Ok(())
    }

    /// Reads the index page by page until it has these items. It may lag behind the table.
    async fn is_due(&self, shard: u32, until: u64, expected: &[(u64, Key)]) -> Checked {
        let give_up = Instant::now() + LAG_MAX;
        loop {
            let mut found: Vec<(u64, Key)> = Vec::new();
            for _ in 0..=expected.len() {
                let after = found.last().map(|(at, key)| (key.clone(), *at));
                let page = self.ask(|| self.table.due(shard, until, after.clone(), PAGE)).await?;
                let place = |item: &Item| Some((number(item, DUE_AT).unsigned_abs(), of_item(item)?));
                found.extend(page.iter().filter_map(place));
            }
            let is_in_order = found.is_sorted_by_key(|(at, _)| *at);
            // Those of one time have no order.
            found.sort();
            if is_in_order && found == expected {
                return Ok(());
            }
            unless(Instant::now() < give_up, || format!("up to {until} the index has {found:?}, not {expected:?}"))?;
            sleep(PAUSE).await;
        }
    }

    /// If one write of a transaction fails, none is done, and the reasons name that write.
    pub async fn all_or_nothing(&self) -> Checked {
        let five = || json!({"n": 5, "state": "open"});
        let [old, none] = [self.key("OLD"), self.key("NONE")];
        self.must(&[put(&old, five())]).await?;
        let (absent, least) = (Some("state"), Bound::AtLeast("n", 0));
        let wrong = [
            put(&old, json!({})),
            add(&old, "n", -6, &[Bound::AtLeast("n", 6)]),
            add(&old, "n", 1, &[least, Bound::AtMost("n", 4)]),
            Write::Add { key: old.clone(), deltas: vec![("n", 1)], bounds: Vec::new(), absent },
            change(&old, Expect::Is("state", "closed"), json!({"n": 1}), &[]),
            change(&old, Expect::Has("note"), json!({"n": 1}), &[]),
            add(&none, "n", 1, &[least]),
            change(&none, Expect::Has("n"), json!({"n": 1}), &[]),
        ];
        for (wrong, at) in wrong.iter().flat_map(|wrong| [1, 4, 9].map(|at| (wrong, at))) {
            let keys: Vec<Key> = (0..9).map(|_| self.key("ITEM")).collect();
            let watched = [&keys[..], &[old.clone(), none.clone()]].concat();
            let exist = keys.iter().enumerate().filter(|(n, _)| n % 3 > 0).map(|(_, key)| put(key, five()));
            self.must(&exist.collect::<Vec<_>>()).await?;
            let right = keys.iter().enumerate().map(|(n, key)| match n % 3 {
                0 => put(key, five()),
                1 => add(key, "n", 1, &[Bound::AtLeast("n", 5)]),
                _ => change(key, Expect::Is("state", "open"), json!({"state": "closed"}), &["n"]),
            });
            let mut writes: Vec<Write> = right.collect();
            writes.insert(at, wrong.clone());
            let before = self.batch(&watched).await?;
            let reasons = self.send(&writes, &token()).await?.unwrap_or_default();
            let is_right = |(n, reason): (usize, &Reason)| {
                if n == at { is_refusal(reason, before.get(wrong.key())) } else { matches!(reason, Reason::None) }
            };
            let is_named = reasons.iter().enumerate().all(is_right);
            unless(!reasons.is_empty() && is_named, || {
                format!("write {at} of {writes:?} fails, the reasons are {reasons:?}")
            })?;
            let found = self.batch(&watched).await?;
            unless(found == before, || format!("{writes:?} fails, and makes {found:?} of {before:?}"))?;
        }
        Ok(())
    }
}

/// Whether a write was refused for its condition, and shown at most this item.
fn is_refusal(reason: &Reason, found: Option<&Item>) -> bool {
    matches!(reason, Reason::ConditionFailed(shown) if shown.is_none() || shown.as_ref() == found)
}
