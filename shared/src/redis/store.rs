use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use foldhash::HashMap;
use futures::stream::{self, StreamExt, TryStreamExt};
use redis::{Cmd, Value, cmd, from_redis_value};

use super::connection::{Call, Connection, RedisError, Script};
use super::fields;
use super::keys::{self, PartKeys};
use super::reply;
use crate::domain::{AckMode, Decision, Guard, Hold, Owner, PartId, Partition, Terms, Timestamp, UserId};
use crate::ports::{
    Backlog, Grabber, HotStore, HotStoreError, Loaded, OutboxEntry, PartAnswers, PartGrabs, PartState, Reconciled,
};
use crate::telemetry::Meter;

/// How long after a packet's expiry Redis still answers repeated grabs. After that the ledger does.
const REMEMBER_AFTER_EXPIRY: Duration = Duration::from_hours(1);

/// The arguments that a serverless Redis takes in one command.
const ARGUMENTS_MAX: usize = 3_999;

/// Decisions in one call of `reconcile`: bounds for how long it keeps Redis busy, and its arguments.
const DECISIONS_PER_CALL: usize = 500;

/// Parts whose holds are counted at once.
const COUNTED_AT_ONCE: usize = 64;

static GRAB: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/grab.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/release.lua")));
static TIDY: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/tidy.lua")));
static RECONCILE: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/reconcile.lua")));
static LOAD: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/load.lua")));
static PART_STATE: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/part_state.lua")));
static OUTBOX: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/outbox.lua")));
static CLOSE: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/close.lua")));
static PARK: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/park.lua")));

fn script(source: &str) -> Script {
    Script::new(fields::embed(source))
}

/// What runs the calls of a [`RedisStore`].
pub trait Server: fmt::Debug + Send + Sync + 'static {
    /// Runs `call` and returns its answer. A call may be executed twice.
    fn run(&self, call: &Call) -> impl Future<Output = Result<Value, RedisError>> + Send;

    /// Whether the keys of a call must lie in one slot.
    fn is_cluster(&self) -> bool;
}

impl Server for Connection {
    fn run(&self, call: &Call) -> impl Future<Output = Result<Value, RedisError>> + Send {
        self.run(call)
    }

    fn is_cluster(&self) -> bool {
        self.is_cluster()
    }
}

/// The hot store in Redis or Valkey: one server, a replication group's primary, or a cluster.
#[derive(Clone, Debug)]
pub struct RedisStore<S = Connection> {
    server: S,
    /// What is counted for metrics.
    meter: Arc<Meter>,
}

impl RedisStore {
    /// Connects, so that no call has to wait for that.
    pub async fn connect(&self) -> Result<(), RedisError> {
        self.server.connect().await
    }
}

impl<S: Server> RedisStore<S> {
    /// The store that runs its calls on `server`.
    pub fn new(server: S) -> Self {
        Self { server, meter: Arc::default() }
    }

    /// What runs its calls.
    pub const fn server(&self) -> &S {
        &self.server
    }

    /// The same store, which counts its calls with `meter`.
    #[must_use]
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }
}

impl<S: Server> HotStore for RedisStore<S> {
    /// In a cluster a script's keys lie in one slot. Elsewhere the parts of a packet are asked apart: a call with many users of one part
    /// costs Redis half of one with few users of each. Guarded parts have calls of their own too, because those cost more.
    fn lane(&self, part: PartId) -> u32 {
        let place = if self.server.is_cluster() { part.partition().index() } else { part.index };
        2 * place + u32::from(part.packet.is_guarded())
    }

    async fn grab_each(&self, grabs: &[PartGrabs]) -> Result<Vec<PartAnswers>, HotStoreError> {
        let Some(first) = grabs.first() else { return Ok(Vec::new()) };
        let is_guarded = first.part.packet.is_guarded();
        debug_assert!(
            grabs.iter().all(|part_grabs| part_grabs.part.packet.is_guarded() == is_guarded),
            "parts of two lanes"
        );
        let keys_of = |part_grabs: &PartGrabs| {
            let PartKeys { part, free, pending, tries, .. } = PartKeys::of(part_grabs.part);
            [part, free, pending].into_iter().chain(is_guarded.then_some(tries))
        };
        let mut call = GRAB.call(&grabs.iter().flat_map(keys_of).collect::<Vec<_>>());
        call = call.arg(if is_guarded { "guarded" } else { "open" });
        for PartGrabs { grabbers, .. } in grabs {
            call = call.arg(grabbers.len());
            for Grabber { user, .. } in grabbers {
                call = call.arg(user.as_str());
            }
            for Grabber { passphrase, .. } in grabbers.iter().filter(|_| is_guarded) {
                call = call.arg(passphrase.map(|digest| hex::encode(digest.0)).unwrap_or_default());
            }
        }
        let answer: String = self.call(&call).await?;
        let found = reply::grabbed(&answer).ok_or_else(|| unreadable("grab.lua"))?;
        // With one answer too many or too few, a user would receive another user's.
        let fits = |(found, part_grabs): (&PartAnswers, &PartGrabs)| {
            found.as_ref().is_none_or(|found| found.len() == part_grabs.grabbers.len())
        };
        if found.len() == grabs.len() && found.iter().zip(grabs).all(fits) {
            Ok(found)
        } else {
            Err(unreadable("grab.lua"))
        }
    }

    async fn reconcile(
        &self,
        part: PartId,
        count: u32,
        decisions: &[Decision],
        resolved: &[Hold],
    ) -> Result<Reconciled, HotStoreError> {
        let keys = PartKeys::of(part);
        let slips = part.slips(count);
        let mut reconciled = Reconciled::NotLoaded;
        let mut chunks = decisions.chunks(DECISIONS_PER_CALL);
        let first = chunks.next().unwrap_or_default();
        for decisions in std::iter::once(first).chain(chunks) {
            let mut call = RECONCILE
                .call(&[&keys.part, &keys.free, &keys.known, &keys.pending])
                .arg(&keys.name)
                .arg(slips.start)
                .arg(slips.end)
                .arg(decisions.len());
            for decision in decisions {
                call = call.arg(decision_text(decision));
            }
            // Only the holds whose slip a decision of this call gives to another user or back. Other decisions confirm their holds, are in
            // another call, or are still to come.
            let owners: HashMap<u32, &Owner> =
                decisions.iter().map(|decision| (decision.slip, &decision.owner)).collect();
            let gives_way = |hold: &&Hold| owners.get(&hold.slip).is_some_and(|owner| owner.user() != Some(&hold.user));
            for hold in resolved.iter().filter(gives_way) {
                call = call.arg(format!("{} {}", hold.slip, hold.user));
            }
            let state = self.call(&call).await?;
            reconciled = reply::reconciled(state).ok_or_else(|| unreadable("reconcile.lua"))?;
        }
        Ok(reconciled)
    }

    async fn release(&self, part: PartId, count: u32, hold: &Hold) -> Result<(), HotStoreError> {
        let keys = PartKeys::of(part);
        let call = RELEASE
            .call(&[&keys.part, &keys.free, &keys.known, &keys.pending])
            .arg(&keys.name)
            .arg(part.slips(count).start)
            .arg(hold.slip)
            .arg(hold.user.as_str());
        Ok(self.call(&call).await?)
    }

    async fn tidy(&self, part: PartId) -> Result<(), HotStoreError> {
        let keys = PartKeys::of(part);
        Ok(self.call(&TIDY.call(&[&keys.part, &keys.pending]).arg(&keys.name)).await?)
    }

    async fn load(
        &self,
        part: PartId,
        terms: &Terms,
        is_closed: bool,
        decisions: &[Decision],
    ) -> Result<Loaded, HotStoreError> {
        if terms.guard != Guard::default() && !part.packet.is_guarded() {
            // A grab would not ask its guard.
            return Err(unreadable("the packet's id"));
        }
        let keys = PartKeys::of(part);
        let slips = part.slips(terms.count);
        let fields = term_fields(terms);
        let mut call = LOAD
            .call(&[&keys.part, &keys.free, &keys.known])
            .arg(slips.start)
            .arg(slips.end)
            .arg(terms.expires_at.ms())
            .arg(terms.expires_at.after(REMEMBER_AFTER_EXPIRY).ms())
            .arg(if is_closed { "1" } else { "" })
            .arg(fields.len());
        for (field, value) in fields {
            call = call.arg(field).arg(value);
        }
        // In one argument, because of ARGUMENTS_MAX. No user's id has a line break.
        let lines: Vec<String> = decisions.iter().map(decision_text).collect();
        let state = self.call(&call.arg(lines.join("\n"))).await?;
        reply::loaded(state).ok_or_else(|| unreadable("load.lua"))
    }

    async fn close(&self, part: PartId) -> Result<bool, HotStoreError> {
        let keys = PartKeys::of(part);
        let state = self.call(&CLOSE.call(&[&keys.part, &keys.free])).await?;
        reply::closed(state).ok_or_else(|| unreadable("close.lua"))
    }

    async fn acquire_load_lease(&self, part: PartId, lease: Duration) -> Result<bool, HotStoreError> {
        let mut set = cmd("SET");
        set.arg(PartKeys::of(part).loading).arg("1").arg("NX").arg("PX").arg(ms(lease));
        Ok(self.run::<Option<String>>(set).await?.is_some())
    }

    async fn release_load_lease(&self, part: PartId) -> Result<(), HotStoreError> {
        let mut del = cmd("DEL");
        del.arg(PartKeys::of(part).loading);
        self.run::<u8>(del).await.map(drop)
    }

    async fn part_state(&self, part: PartId) -> Result<Option<PartState>, HotStoreError> {
        let keys = PartKeys::of(part);
        let reply: Value = self.call(&PART_STATE.call(&[&keys.part, &keys.known])).await?;
        reply::part_state(&reply).ok_or_else(|| unreadable("part_state.lua"))
    }

    async fn pending_parts(&self, partition: Partition) -> Result<Vec<PartId>, HotStoreError> {
        let mut range = cmd("ZRANGE");
        range.arg(keys::pending(partition)).arg(0).arg(-1);
        let names: Vec<String> = self.run(range).await?;
        // What can't be read must not stand in the way of the rest.
        let unreadable = |name: &String| tracing::error!(%name, ?partition, "not the name of a part");
        Ok(names.iter().filter_map(|name| name.parse().map_err(|()| unreadable(name)).ok()).collect())
    }

    async fn backlog(&self, partition: Partition) -> Result<Backlog, HotStoreError> {
        let mut range = cmd("ZRANGE");
        range.arg(keys::pending(partition)).arg(0).arg(-1).arg("WITHSCORES");
        let parts: Vec<(String, u64)> = self.run(range).await?;
        let since = parts.first().map(|(_, since)| Timestamp::from_ms(*since));
        let count = |name: String| async move {
            let Ok(part) = name.parse() else { return Ok(0) };
            let mut get = cmd("HGET");
            get.arg(PartKeys::of(part).part).arg(fields::HELD_COUNT);
            Ok::<_, HotStoreError>(self.run::<Option<u64>>(get).await?.unwrap_or(0))
        };
        let holds = stream::iter(parts).map(|(name, _)| count(name)).buffer_unordered(COUNTED_AT_ONCE);
        let holds = holds.try_fold(0, |sum, holds| std::future::ready(Ok(sum + holds))).await?;
        // The score is the time of the first hold since the part held nothing: what is left is no older.
        Ok(Backlog { holds, oldest: since })
    }

    async fn outbox(&self, part: PartId) -> Result<Vec<OutboxEntry>, HotStoreError> {
        let reply: Vec<String> = self.call(&OUTBOX.call(&[&PartKeys::of(part).part])).await?;
        let (expires_at, holds) = reply::outbox(&reply).ok_or_else(|| unreadable("outbox.lua"))?;
        let read = |[user, hold]: &[String; 2]| {
            let held = reply::held(user, hold, expires_at);
            if held.is_none() {
                tracing::error!(%part, "not a hold: hongbao-admin packet shows it");
            }
            held
        };
        let mut holds: Vec<OutboxEntry> = holds.iter().filter_map(read).collect();
        holds.sort_by_key(|held| (held.hold.at, held.hold.slip));
        Ok(holds)
    }

    async fn park(&self, part: PartId, hold: &Hold, reason: &str) -> Result<(), HotStoreError> {
        let keys = PartKeys::of(part);
        let call = PARK.call(&[&keys.part]).arg(hold.slip).arg(hold.user.as_str()).arg(reason);
        Ok(self.call(&call).await?)
    }
}

impl<S: Server> RedisStore<S> {
    async fn call<T: redis::FromRedisValue>(&self, script: &Call) -> Result<T, RedisError> {
        debug_assert!(script.argument_count() <= ARGUMENTS_MAX, "a serverless Redis refuses so many arguments");
        self.meter.called_script();
        read(self.server.run(script).await?)
    }

    async fn run<T: redis::FromRedisValue>(&self, command: Cmd) -> Result<T, HotStoreError> {
        Ok(read(self.server.run(&Call::from(command)).await?)?)
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn decision_text(decision: &Decision) -> String {
    let owner = decision.owner.user().map_or("", UserId::as_str);
    format!("{} {} {} {owner}", decision.slip, decision.amount, decision.at.ms())
}

const fn ack_text(ack: AckMode) -> &'static str {
    match ack {
        AckMode::Ledger => "ledger",
        AckMode::Redis => "redis",
    }
}

/// The acknowledgement and the guard as the hash of a part has them.
fn term_fields(terms: &Terms) -> Vec<(String, String)> {
    let guard = &terms.guard;
    let field = |name: &str, value: String| (name.to_owned(), value);
    let mut fields = vec![field(fields::ACK_MODE, ack_text(terms.ack).to_owned())];
    fields.extend(guard.starts_at.map(|start| field(fields::STARTS_AT, start.ms().to_string())));
    fields.extend(guard.passphrase.map(|digest| field(fields::PASSPHRASE, hex::encode(digest.0))));
    if let Some(recipients) = &guard.recipients {
        fields.push(field(fields::RECIPIENTS, "1".to_owned()));
        fields.extend(recipients.iter().map(|user| (format!("{}{user}", fields::RECIPIENT), String::new())));
    }
    fields
}

fn read<T: redis::FromRedisValue>(answer: Value) -> Result<T, RedisError> {
    from_redis_value(answer).map_err(|source| RedisError::Unexpected { source })
}

impl From<RedisError> for HotStoreError {
    fn from(error: RedisError) -> Self {
        if error.is_passing() { Self::Unavailable(Arc::new(error)) } else { Self::Impossible(Arc::new(error)) }
    }
}

/// What came from a store is none of what it may be. The log gets only the name of what it is: the rest has users' ids.
fn unreadable(what: &str) -> HotStoreError {
    let message = format!("{what}: a store gave what the engine cannot use");
    HotStoreError::Impossible(Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(message)))
}
