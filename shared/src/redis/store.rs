use std::sync::{Arc, LazyLock};
use std::time::Duration;

use foldhash::HashMap;
use futures::stream::{self, StreamExt, TryStreamExt};
use redis::{Cmd, cmd};

use super::connection::{Call, Connection, RedisError, Script};
use super::fields;
use super::keys::{self, PartKeys};
use super::reply;
use crate::domain::{AckMode, Decision, Guard, Hold, Owner, PartId, Partition, Terms, Timestamp, UserId};
use crate::ports::{
    Ask, Backlog, Clock, Doubt, GrabAnswer, Grabber, Help, HotStore, HotStoreError, Loaded, OutboxEntry, PartReport,
    PartSnapshot, Reconciled, SnapshotResult, System,
};
use crate::telemetry::Meter;

/// How long after a packet's expiry Redis still answers repeated grabs. After that the ledger does.
const REMEMBER_AFTER_EXPIRY: Duration = Duration::from_hours(1);

/// The arguments that a serverless Redis takes in one command.
const ARGUMENTS_MAX: usize = 3_999;

/// Decisions in one call of `reconcile`: bounds for how long it keeps Redis busy, and its arguments.
const DECISIONS_PER_CALL: usize = 500;

/// With fewer users per part than this, a call names a part once for each of its users. Most take the fast path of `grab.lua` then,
/// which costs Redis less than one general path for all.
const USERS_THAT_SHARE_A_PART: usize = 2;

/// Parts whose holds are counted at once.
const COUNTED_AT_ONCE: usize = 64;

static GRAB: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/grab.lua")));
static RECONCILE: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/reconcile.lua")));
static LOAD: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/load.lua")));
static VIEW: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/view.lua")));
static OUTBOX: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/outbox.lua")));
static HELP: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/help.lua")));
static CLOSE: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/close.lua")));
static PARK: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/park.lua")));
static SNAPSHOT: LazyLock<Script> = LazyLock::new(|| script(include_str!("lua/snapshot.lua")));

fn script(source: &str) -> Script {
    Script::new(fields::embed(source))
}

/// The hot store in Redis or Valkey: one server, a replication group's primary, or a cluster.
#[derive(Clone, Debug)]
pub struct RedisStore {
    connection: Connection,
    /// What is counted for metrics.
    meter: Arc<Meter>,
}

impl RedisStore {
    /// The store behind `connection`.
    pub fn new(connection: Connection) -> Self {
        Self { connection, meter: Arc::default() }
    }

    /// Connects, so that no call has to wait for that.
    pub async fn connect(&self) -> Result<(), RedisError> {
        self.connection.connect().await
    }

    /// The same store, which counts its calls with `meter`.
    #[must_use]
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }
}

impl HotStore for RedisStore {
    async fn grab(&self, part: PartId, grabbers: &[Grabber]) -> Result<Option<Vec<GrabAnswer>>, HotStoreError> {
        let mut answers = self.grab_of(&[(part, grabbers)]).await?;
        answers.pop().ok_or_else(|| unreadable("grab.lua"))
    }

    /// In a cluster a script's keys lie in one slot. Elsewhere it may have any, and fewer, longer calls are cheaper.
    fn lane(&self, partition: Partition) -> u32 {
        if self.connection.is_cluster() { partition.index() } else { 0 }
    }

    async fn grab_each(&self, asks: &[Ask]) -> Result<Vec<Option<Vec<GrabAnswer>>>, HotStoreError> {
        let users: usize = asks.iter().map(|(_, grabbers)| grabbers.len()).sum();
        let is_guarded = asks.iter().flat_map(|(_, grabbers)| grabbers).any(|grabber| grabber.passphrase.is_some());
        if is_guarded || users >= USERS_THAT_SHARE_A_PART * asks.len() {
            let asks: Vec<_> = asks.iter().map(|(part, grabbers)| (*part, grabbers.as_slice())).collect();
            return self.grab_of(&asks).await;
        }
        let one_each = asks.iter().flat_map(|(part, grabbers)| grabbers.chunks(1).map(|grabber| (*part, grabber)));
        let mut found = self.grab_of(&one_each.collect::<Vec<_>>()).await?;
        let of_part = |(_, grabbers): &Ask| {
            let answers = found.drain(..grabbers.len()).collect::<Option<Vec<_>>>()?;
            Some(answers.into_iter().flatten().collect())
        };
        Ok(asks.iter().map(of_part).collect())
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
                .call(&[&keys.part, &keys.known, &keys.pending])
                .arg(&keys.name)
                .arg(slips.start)
                .arg(slips.end)
                .arg(decisions.len());
            for decision in decisions {
                call = call.arg(decision_text(decision));
            }
            // The script needs no others: their decision confirms them, is in another call, or is still to come.
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

    async fn load(
        &self,
        part: PartId,
        terms: &Terms,
        is_closed: bool,
        decisions: &[Decision],
    ) -> Result<Loaded, HotStoreError> {
        let keys = PartKeys::of(part);
        let slips = part.slips(terms.count);
        let recipients = terms.guard.recipients.as_ref();
        let mut call = LOAD
            .call(&[&keys.part, &keys.known])
            .arg(slips.start)
            .arg(slips.end)
            .arg(terms.expires_at.ms())
            .arg(terms.expires_at.after(REMEMBER_AFTER_EXPIRY).ms())
            .arg(ack_text(terms.ack))
            .arg(guard_text(&terms.guard, is_closed))
            .arg(recipients.map_or(0, std::collections::BTreeSet::len));
        for recipient in recipients.into_iter().flatten() {
            call = call.arg(recipient.as_str());
        }
        // In one argument, because of ARGUMENTS_MAX. No user's id has a line break.
        let lines: Vec<String> = decisions.iter().map(decision_text).collect();
        let state = self.call(&call.arg(lines.join("\n"))).await?;
        reply::loaded(state).ok_or_else(|| unreadable("load.lua"))
    }

    async fn close(&self, part: PartId) -> Result<bool, HotStoreError> {
        let state = self.call(&CLOSE.call(&[&PartKeys::of(part).part])).await?;
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

    async fn help(
        &self,
        part: PartId,
        least_age: Duration,
        most: usize,
        lease: Duration,
    ) -> Result<Help, HotStoreError> {
        let keys = PartKeys::of(part);
        let call = HELP.call(&[&keys.part, &keys.helping]).arg(ms(least_age)).arg(most).arg(ms(lease));
        let reply: redis::Value = self.call(&call).await?;
        reply::help(&reply).ok_or_else(|| unreadable("help.lua"))
    }

    async fn end_help(&self, part: PartId, doubt: Option<(Doubt, Duration)>) -> Result<(), HotStoreError> {
        let key = PartKeys::of(part).helping;
        let Some((doubt, left)) = doubt else {
            let mut del = cmd("DEL");
            del.arg(key);
            return self.run::<u8>(del).await.map(drop);
        };
        let mut set = cmd("SET");
        set.arg(key).arg(reply::doubt_code(doubt)).arg("PX").arg(ms(left));
        self.run::<String>(set).await.map(drop)
    }

    async fn snapshot(&self, part: PartId, only_final: bool) -> Result<SnapshotResult, HotStoreError> {
        match self.snapshot_without_owners(part, only_final).await? {
            SnapshotResult::Exhausted(shown) if shown.is_final => {
                let all = self.hash(&PartKeys::of(part)).await?;
                let owners = reply::owners(&all).ok_or_else(|| unreadable("the hash of a part"))?;
                // Without owners, the part has been closed since, or the hot store has forgotten it or rolled back.
                Ok(owners.map_or(SnapshotResult::GrabNeeded, |by_user| {
                    SnapshotResult::Exhausted(PartSnapshot { by_user, ..shown })
                }))
            }
            shown => Ok(shown),
        }
    }

    async fn is_undecided(&self, part: PartId) -> Result<bool, HotStoreError> {
        Ok(self.snapshot_without_owners(part, true).await? == SnapshotResult::NotFinal)
    }

    async fn report(&self, part: PartId) -> Result<Option<PartReport>, HotStoreError> {
        let keys = PartKeys::of(part);
        let reply: redis::Value = self.call(&VIEW.call(&[&keys.part, &keys.known])).await?;
        reply::report(&reply).ok_or_else(|| unreadable("view.lua"))
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
            let mut bounds = cmd("HMGET");
            bounds.arg(PartKeys::of(part).part).arg(fields::NEXT_FREE).arg(fields::HOLD_BASE);
            let (next, base): (Option<i64>, Option<i64>) = self.run(bounds).await?;
            let holds = next.zip(base).map_or(0, |(next, base)| next.saturating_sub(base));
            Ok::<_, HotStoreError>(u64::try_from(holds).unwrap_or(0))
        };
        let holds = stream::iter(parts).map(|(name, _)| count(name)).buffer_unordered(COUNTED_AT_ONCE);
        let holds = holds.try_fold(0, |sum, holds| std::future::ready(Ok(sum + holds))).await?;
        // The score is the time of the first hold since the part held nothing: what is left is no older.
        Ok(Backlog { holds, oldest: since })
    }

    async fn outbox(&self, part: PartId, least_age: Duration) -> Result<Vec<OutboxEntry>, HotStoreError> {
        let keys = PartKeys::of(part);
        let least_ms = u64::try_from(least_age.as_millis()).unwrap_or(u64::MAX);
        let holds: Vec<(String, String)> = self.call(&OUTBOX.call(&[&keys.part]).arg(least_ms)).await?;
        let read = |(user, hold): &(String, String)| {
            let held = reply::held(user, hold);
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

impl RedisStore {
    /// A snapshot that has the owners only of a part that is not final.
    async fn snapshot_without_owners(&self, part: PartId, only_final: bool) -> Result<SnapshotResult, HotStoreError> {
        let call = SNAPSHOT.call(&[&PartKeys::of(part).part]).arg(if only_final { "final" } else { "" });
        let reply: redis::Value = self.call(&call).await?;
        reply::snapshot(&reply).ok_or_else(|| unreadable("snapshot.lua"))
    }

    async fn grab_of(&self, asks: &[(PartId, &[Grabber])]) -> Result<Vec<Option<Vec<GrabAnswer>>>, HotStoreError> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let has_digests = |grabbers: &[Grabber]| grabbers.iter().any(|grabber| grabber.passphrase.is_some());
        let keys_of = |(part, grabbers): &(PartId, &[Grabber])| {
            keys::of_grab(*part).into_iter().chain(has_digests(grabbers).then(|| keys::tries(*part)))
        };
        let keys: Vec<String> = asks.iter().flat_map(keys_of).collect();
        let mut call = GRAB.call(&keys);
        let is_one_each = asks.iter().all(|(_, grabbers)| matches!(grabbers, [Grabber { passphrase: None, .. }]));
        for (_, grabbers) in asks {
            let digests = has_digests(grabbers);
            if !is_one_each {
                call = call.arg(format!("{}{}", grabbers.len(), if digests { "p" } else { "" }));
            }
            for grabber in *grabbers {
                call = call.arg(grabber.user.as_str());
            }
            for grabber in grabbers.iter().filter(|_| digests) {
                call = call.arg(grabber.passphrase.map(|digest| hex::encode(digest.0)).unwrap_or_default());
            }
        }
        let answer: String = self.call(&call).await?;
        let found = reply::grabbed(&answer, System.now()).ok_or_else(|| unreadable("grab.lua"))?;
        // With one answer too many or too few, a user would receive another user's.
        let asked = asks.iter().map(|(_, grabbers)| grabbers.len());
        let fits = found.len() == asks.len()
            && found.iter().zip(asked).all(|(found, asked)| found.as_ref().is_none_or(|found| found.len() == asked));
        if fits { Ok(found) } else { Err(unreadable("grab.lua")) }
    }

    async fn call<T: redis::FromRedisValue>(&self, script: &Call) -> Result<T, RedisError> {
        debug_assert!(script.argument_count() <= ARGUMENTS_MAX, "a serverless Redis refuses so many arguments");
        self.meter.called_script();
        self.connection.run(script).await
    }

    /// All fields of a part.
    async fn hash(&self, keys: &PartKeys) -> Result<Vec<(String, String)>, HotStoreError> {
        let mut all = cmd("HGETALL");
        all.arg(&keys.part);
        self.run(all).await
    }

    async fn run<T: redis::FromRedisValue>(&self, command: Cmd) -> Result<T, HotStoreError> {
        Ok(self.connection.run(&Call::from(command)).await?)
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

fn guard_text(guard: &Guard, is_closed: bool) -> String {
    let recipients = if guard.recipients.is_some() { "r" } else { "" };
    if is_closed {
        return format!("{recipients}pclosed");
    }
    let passphrase = guard.passphrase.map(|digest| hex::encode(digest.0));
    let p = if passphrase.is_some() || guard.starts_at.is_some() { "p" } else { "" };
    let start = guard.starts_at.map(|start| format!("@{:013}", start.ms())).unwrap_or_default();
    format!("{recipients}{p}{}{start}", passphrase.unwrap_or_default())
}

impl From<RedisError> for HotStoreError {
    fn from(error: RedisError) -> Self {
        if error.is_passing() { Self::Unavailable(Arc::new(error)) } else { Self::Impossible(Arc::new(error)) }
    }
}

/// What came from the hot store is none of what it may be. The log gets only the name of what it is: the rest has users' ids.
fn unreadable(what: &str) -> HotStoreError {
    let message = format!("{what}: the hot store gave what the engine cannot read");
    HotStoreError::Impossible(Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(message)))
}
