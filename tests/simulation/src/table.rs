use std::sync::Arc;

use serde_dynamo::AttributeValue;
use shared::domain::{AckMode, Terms};
use shared::ledger::Ledger;
use shared::memory::{MemoryTable, fingerprint};
use shared::ports::{Batch, Entropy, Item, Key, Query, Reason, Table, TableError, TransactError, Write};

use crate::faults::{Chance, Fault};
use crate::gate::Call;
use crate::hot::now;
use crate::mutants::TableMutant;
use crate::trace::Kind;
use crate::world::{Life, World};

/// The table as one process reaches it: over an unreliable network.
pub struct SimTable {
    world: Arc<World>,
    life: Arc<Life>,
    slot: u32,
    mutant: TableMutant,
}

impl SimTable {
    /// The world's table, for the process in `slot`.
    pub fn new(world: Arc<World>, life: Arc<Life>, slot: u32) -> Self {
        let mutant = TableMutant::new(Arc::clone(&world), slot);
        Self { world, life, slot, mutant }
    }

    /// A read. It sees the table at one moment between request and answer.
    async fn read<V>(&self, what: &str, read: impl FnOnce() -> V) -> Result<V, TableError> {
        let world = &self.world;
        // Nothing changes amounts, so it does not matter when they are read.
        if world.gate.is_none() || !what.starts_with("PART#") {
            world.depart(&self.life, self.slot, Call::Read).await;
        }
        world.operated();
        world.note(format_args!("p{} reads {what}", self.slot));
        let value = read();
        world.travel(&self.life).await;
        if world.strikes(Fault::ReadLost) {
            return Err(lost());
        }
        Ok(value)
    }

    /// The outcome of a transaction that reaches the table.
    async fn answer(&self, writes: Vec<Write>, token: &str) -> Result<(), TransactError> {
        let (world, slot) = (&self.world, self.slot);
        if world.strikes(Fault::RequestLost) {
            return Err(lost().into());
        }
        if world.strikes(Fault::Conflict) {
            return Err(cancelled(&world.chance, writes.len(), "TransactionConflict"));
        }
        if world.strikes(Fault::Throttled) {
            return Err(cancelled(&world.chance, writes.len(), "ThrottlingError"));
        }
        if world.strikes(Fault::TokenSpent) {
            if world.chance.happens(500) {
                let _ = commit(world, slot, &writes, token);
            }
            return Err(TransactError::TokenSpent("the simulation says so".into()));
        }
        if world.strikes(Fault::Late) {
            let (world, token, pause) = (Arc::clone(world), token.to_owned(), world.late());
            tokio::spawn(async move {
                world.arrive_late(slot, pause).await;
                let _ = commit(&world, slot, &writes, &token);
            });
            self.world.travel(&self.life).await;
            return Err(lost().into());
        }
        let answer = commit(world, slot, &writes, token);
        world.travel(&self.life).await;
        if world.strikes(Fault::ReplyLost) {
            return Err(lost().into());
        }
        match answer {
            Err(TransactError::Cancelled(reasons)) => Err(TransactError::Cancelled(self.garbled(reasons))),
            answer => answer,
        }
    }

    /// Other reasons that `DynamoDB` could give as well. At least one failed condition remains.
    fn garbled(&self, mut reasons: Vec<Reason>) -> Vec<Reason> {
        let world = &self.world;
        if world.strikes(Fault::Bare) {
            for reason in &mut reasons {
                if matches!(reason, Reason::ConditionFailed(_)) {
                    *reason = Reason::ConditionFailed(None);
                }
            }
        }
        if world.strikes(Fault::Mixed) {
            let failed = |reason: &Reason| matches!(reason, Reason::ConditionFailed(_));
            let mut failures = reasons.iter().filter(|reason| failed(reason)).count();
            for reason in &mut reasons {
                let keeps = failed(reason) && failures == 1;
                if !keeps && world.chance.happens(500) {
                    failures -= usize::from(failed(reason));
                    *reason = Reason::Busy("TransactionConflict".to_owned());
                }
            }
        }
        reasons
    }
}

/// The world's table without a network before it: no fault strikes, and nothing is drawn.
pub struct Near(pub Arc<World>);

impl Table for Near {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.0.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.0.table.query(query).await
    }

    async fn due(&self, shard: u32, until: u64, after: Option<(Key, u64)>, most: u32) -> Result<Vec<Item>, TableError> {
        self.0.table.due(shard, until, after, most).await
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.0.table.transact(writes, token).await
    }
}

/// Executes a transaction.
fn commit(world: &World, slot: u32, writes: &[Write], token: &str) -> Result<(), TransactError> {
    world.operated();
    TableMutant::before_commit(world, writes);
    let wrong = against_suspension(world, writes);
    let answer = world.table.apply(writes, token);
    if answer.is_ok() {
        judge_limits(world, writes, wrong);
    }
    let outcome = match &answer {
        Ok(()) => "committed",
        Err(TransactError::Cancelled(_)) => "cancelled",
        Err(_) => "refused",
    };
    world.note(format_args!("p{slot} writes {}: {outcome}", Names(writes)));
    if answer.is_ok() {
        for write in writes {
            if let Write::PutNew { key, .. } = write
                && let Some(item) = world.table.read(key)
            {
                if key.pk.starts_with("SLIPS#") {
                    world.decided(key, &item);
                } else if let Some(id) = key.pk.strip_prefix("PACKET#") {
                    world.committed(id.parse().unwrap());
                }
            }
        }
    }
    answer
}

/// What a transaction does that the suspension of a user forbids.
fn against_suspension(world: &World, writes: &[Write]) -> Option<String> {
    // A transaction that is done already, under this token, does nothing.
    let is_new = writes.iter().all(|write| match write {
        Write::PutNew { key, .. } => world.table.read(key).is_none(),
        Write::Add { .. } | Write::Change { .. } => true,
    });
    let acks = |key: &Key| {
        let id = key.sk.strip_prefix("CLAIM#")?.parse().ok()?;
        Some(world.terms(id)?.ack)
    };
    let grabs = |user: &str| {
        let claims = writes.iter().map(Write::key).filter(|key| key.pk == user);
        claims.filter_map(acks).any(|ack| ack == AckMode::Ledger)
    };
    let wrong = |write: &Write| {
        let Write::Add { key, deltas, .. } = write else { return None };
        let wallet = world.table.read(key)?;
        let pays = deltas.iter().any(|(name, delta)| *name == "balance" && *delta < 0);
        if pays && wallet.contains_key("suspended") {
            Some(format!("{} is suspended and has paid", key.pk))
        } else if wallet.contains_key("may_not_grab") && grabs(&key.pk) {
            Some(format!("{} may not grab and has a slip", key.pk))
        } else {
            None
        }
    };
    writes.iter().find_map(wrong).filter(|_| is_new)
}

/// Checks what a transaction did to those who may not pay or grab, or not so much.
fn judge_limits(world: &World, writes: &[Write], wrong: Option<String>) {
    if let Some(what) = wrong {
        world.violated(Kind::Limit, what);
    }
    let Some(most) = world.daily_max() else { return };
    for write in writes {
        if let Write::Add { key, .. } = write
            && key.sk.starts_with("DAY#")
            && let Some(item) = world.table.read(key)
            && number(&item, "sent_amount") > most.minor_units()
        {
            world.violated(Kind::Limit, format!("{} has sent more than {most}: {item:?}", key.pk));
        }
    }
}

/// The keys that a transaction writes, for the trace.
struct Names<'a>(&'a [Write]);

impl std::fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for write in self.0 {
            let key = write.key();
            write!(f, "{}/{} ", key.pk, key.sk)?;
        }
        Ok(())
    }
}

/// The terms in a packet's item.
pub fn terms_of(write: &Write) -> Option<Terms> {
    let Write::PutNew { key, .. } = write else { return None };
    let id = key.pk.strip_prefix("PACKET#")?.parse().ok()?;
    let scratch = MemoryTable::default();
    scratch.apply(std::slice::from_ref(write), "").ok()?;
    let ledger = Ledger::new(scratch, Arc::new(Chance::new(0)));
    let packet = now(ledger.packet(id));
    Some(packet.expect("a packet that reads").expect("a packet").terms)
}

/// What tells an answer with these items from others.
fn seen<'a>(items: impl IntoIterator<Item = &'a Item>) -> u64 {
    items.into_iter().fold(1, |sum, item| sum.wrapping_mul(31).wrapping_add(fingerprint(item)))
}

pub fn lost() -> TableError {
    TableError::Unavailable("the simulation lost the answer".into())
}

fn cancelled(chance: &Chance, writes: usize, code: &str) -> TransactError {
    let mut reasons = vec![Reason::None; writes];
    let which = chance.between(0..=u32::try_from(writes - 1).unwrap()) as usize;
    reasons[which] = Reason::Busy(code.to_owned());
    TransactError::Cancelled(reasons)
}

impl Table for SimTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        let read = || now(self.world.table.get(key.clone()));
        let item = self.read(&format!("{}/{}", key.pk, key.sk), read).await??;
        self.world.hear(self.slot, || seen(&item));
        Ok(self.mutant.after_get(&key, item))
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        let (mut asked, mut left) = (keys, Vec::new());
        if self.world.strikes(Fault::ReadThrottled) {
            left = asked.split_off(self.world.chance.between(0..=u32::try_from(asked.len() - 1).unwrap()) as usize);
        }
        let read = || now(self.world.table.batch_get(asked));
        let Batch { items, .. } = self.read("some", read).await??;
        self.world.hear(self.slot, || seen(&items));
        Ok(Batch { items: self.mutant.after_batch(items), left })
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        let pk = query.pk.clone();
        let read = || now(self.world.table.query(query));
        let items = self.read(&pk, read).await??;
        self.world.hear(self.slot, || seen(&items));
        self.mutant.after_query(&pk, &items);
        Ok(items)
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        let is_first = after.is_none();
        let read = || now(self.world.table.due(shard, until_ms, after, limit));
        let items = read()?;
        if items.is_empty() {
            // Most shards are empty. An empty answer skips the fault injection.
            return Ok(items);
        }
        self.mutant.after_due(&items);
        let items = self.read("the index", || items).await?;
        self.world.hear(self.slot, || seen(&items));
        // An index lags: new items may be missing.
        Ok(if is_first && self.world.strikes(Fault::StaleIndex) { Vec::new() } else { items })
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        let writes = self.mutant.before_transaction(writes, token);
        if let Some(terms) = writes.iter().find_map(terms_of) {
            self.world.enter(terms);
        }
        self.world.depart(&self.life, self.slot, Call::Write).await;
        // Half of the time the token is replaced, since nothing may depend on tokens.
        let fresh = format!("{:?}", self.world.chance.bytes16());
        let is_same = self.world.chance.happens(500) || self.world.gate.is_some();
        let answer = self.answer(writes.clone(), if is_same { token } else { &fresh }).await;
        self.world.hear(self.slot, || match &answer {
            Err(TransactError::Cancelled(reasons)) => seen(reasons.iter().filter_map(|reason| match reason {
                Reason::ConditionFailed(item) => item.as_ref(),
                _ => None,
            })),
            Err(_) => u64::MAX,
            Ok(()) => 0,
        });
        self.mutant.after_transaction(&writes, answer)
    }
}

/// A number of an item, or 0.
pub fn number(item: &Item, name: &str) -> u64 {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().unwrap(),
        _ => 0,
    }
}
