use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::batching::{Cache, cache};
use crate::domain::{PacketId, PartId, UserId};
use crate::lock;
use crate::ports::{Entropy, GrabAnswer, HotStore, PartSnapshot, SnapshotResult};
use crate::service::Failure;

/// How long a process answers from the snapshot of a final part. The part cannot change, but a process must not keep what nobody
/// asks for. Most rushes end within this time, so that a process reads each part once.
const FINAL_TTL: Duration = Duration::from_mins(1);
/// How long a process answers from the snapshot of an exhausted part that is not final. A slip seldom comes back to such a part:
/// only after a rollback of the hot store, or if its user turns out to have a slip of another part.
const SNAPSHOT_TTL: Duration = Duration::from_millis(100);
/// The most owners that a process remembers, of all parts together.
const OWNERS_MAX: u64 = 200_000;
const OWNERS_OF_A_PART: u64 = 100;

/// The most parts of a final packet whose owners a function reads, if it serves one request at a time. They have about 4,000 owners,
/// which take as much of Redis as a hundred grabs.
const OWNERS_PARTS_MAX: u32 = 4;

/// The time between two refreshes of a part that turned out not to be final, or to have a guard.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
const REFRESHED_PARTS_MAX: u64 = 10_000;

/// The pauses between two polls of a part that losers wait for.
const POLL_FIRST: Duration = Duration::from_millis(4);
const POLL_MAX: Duration = Duration::from_millis(100);

/// The parts that somebody waits for, each with the signal that starts its next poll early.
type Awaited = Arc<Mutex<HashMap<PartId, Arc<Notify>>>>;

/// What this process knows of exhausted parts, each with the time until which it trusts that.
type Known = Arc<Cache<PartId, (Instant, Arc<PartSnapshot>)>>;

/// The parts that this process knows to be exhausted, with their owners: they need no call to the hot store.
pub struct ExhaustedParts<H> {
    hot: Arc<H>,
    entropy: Arc<dyn Entropy>,
    known: Known,
    /// When a part was refreshed last.
    refreshed: Cache<PartId, Instant>,
    awaited: Awaited,
    /// Owners are read for packets of at most this many parts.
    owners_parts_max: AtomicU32,
}

impl<H: HotStore> ExhaustedParts<H> {
    /// Knows nothing yet of the parts in `hot`.
    pub fn new(hot: Arc<H>, entropy: Arc<dyn Entropy>) -> Self {
        let owners = |(_, snapshot): &(Instant, Arc<PartSnapshot>)| snapshot.by_user.len() + 1;
        let known = Arc::new(cache(OWNERS_MAX, OWNERS_OF_A_PART, owners));
        let refreshed = cache(REFRESHED_PARTS_MAX, 1, |_| 1);
        let owners_parts_max = AtomicU32::new(OWNERS_PARTS_MAX);
        Self { hot, entropy, known, refreshed, awaited: Awaited::default(), owners_parts_max }
    }

    /// From now on owners are read for packets of at most `parts_max` parts.
    pub fn read_owners_of(&self, parts_max: u32) {
        self.owners_parts_max.store(parts_max, Ordering::Relaxed);
    }

    /// Whether losers are answered from the owners of a packet's final parts. Else the process reads the losers' claims: to read all
    /// owners of a large packet takes as much of Redis as thousands of grabs. That pays only in a process that serves a rush. A
    /// function that serves one request at a time answers a few hundred, and a rush has thousands of them.
    pub fn reads_owners(&self, id: PacketId) -> bool {
        id.part_count() <= self.owners_parts_max.load(Ordering::Relaxed)
    }

    /// A part, if it is known to be final.
    pub fn final_part(&self, part: PartId) -> Option<Arc<PartSnapshot>> {
        trusted(&self.known, part).filter(|snapshot| snapshot.is_final)
    }

    /// What a part has for `user`, if that needs no call. Users with a hold must probe again: it may be a claim by now.
    pub fn answer_for(&self, part: PartId, user: &UserId) -> Option<GrabAnswer> {
        let answer = trusted(&self.known, part)?.answer_for(user);
        (!matches!(answer, GrabAnswer::Held { .. })).then_some(answer)
    }

    /// Remembers a snapshot that was `asked` for at that moment.
    ///
    /// Losers whom the snapshot leaves in doubt ask again. With `GRAB_ACK=redis` a part that is not final can say a certain "no",
    /// on Redis' word. If Redis loses that word, losers receive it for this short time longer.
    pub fn remember(&self, part: PartId, asked: Instant, snapshot: Arc<PartSnapshot>) {
        remember(&self.known, part, asked, snapshot);
    }

    /// Waits until a part is final, or a grab would find a free slip in it, but at most for `wait`. Returns whether that is so.
    /// It polls the part at least once. Only one caller waits for a part at a time.
    pub async fn wait_until_final(&self, part: PartId, wait: Duration) -> Result<bool, Failure> {
        let waiting = Waiting::new(Arc::clone(&self.awaited), part);
        let until = Instant::now() + wait;
        let mut pause = POLL_FIRST;
        loop {
            // The wait ends early if this process sees the last claim first.
            let next = (Instant::now() + self.entropy.jitter(pause)).min(until);
            let _ = timeout_at(next, waiting.wake.notified()).await;
            let is_undecided = if self.reads_owners(part.packet) {
                refresh(&*self.hot, &self.known, part).await? == SnapshotResult::NotFinal
            } else {
                self.hot.is_undecided(part).await?
            };
            if !is_undecided {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Lets those who wait for a part poll at once, because it is final by now.
    pub fn notify_final(&self, part: PartId) {
        if let Some(wake) = lock(&self.awaited).get(&part) {
            wake.notify_one();
        }
    }

    /// Reads the owners of a part that gave a loser a certain "no", for later losers, unless they are known. The loser does not wait
    /// for it.
    pub fn refresh_later(&self, part: PartId) {
        if !self.reads_owners(part.packet) || self.final_part(part).is_some() {
            return;
        }
        if self.refreshed.get(&part).is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) {
            return;
        }
        self.refreshed.insert(part, Instant::now());
        let (hot, known) = (Arc::clone(&self.hot), Arc::clone(&self.known));
        tokio::spawn(async move {
            if let Err(failure) = refresh(&*hot, &known, part).await {
                tracing::debug!(%part, error = crate::error_chain(&failure), "its owners are not known");
            }
        });
    }
}

/// Lists a part among those that somebody waits for, until this is dropped.
struct Waiting {
    awaited: Awaited,
    part: PartId,
    wake: Arc<Notify>,
}

impl Waiting {
    fn new(awaited: Awaited, part: PartId) -> Self {
        let wake = Arc::<Notify>::default();
        lock(&awaited).insert(part, Arc::clone(&wake));
        Self { awaited, part, wake }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.awaited).remove(&self.part);
    }
}

/// Reads a part if it is final.
async fn refresh<H: HotStore>(hot: &H, known: &Known, part: PartId) -> Result<SnapshotResult, Failure> {
    let asked = Instant::now();
    let result = hot.snapshot(part, true).await?;
    if let SnapshotResult::Exhausted(snapshot) = &result {
        remember(known, part, asked, Arc::new(snapshot.clone()));
    }
    Ok(result)
}

/// What is known of a part, while it can be trusted.
fn trusted(known: &Known, part: PartId) -> Option<Arc<PartSnapshot>> {
    known.get(&part).filter(|(until, _)| Instant::now() < *until).map(|(_, snapshot)| snapshot)
}

/// Remembers a snapshot, unless more is known of the part: a late answer may be old. At the expiry losers get another answer.
fn remember(known: &Known, part: PartId, asked: Instant, snapshot: Arc<PartSnapshot>) {
    if !snapshot.is_final && trusted(known, part).is_some_and(|known| known.is_final) {
        return;
    }
    let ttl = if snapshot.is_final { FINAL_TTL } else { SNAPSHOT_TTL };
    let until = asked + if snapshot.left.is_zero() { ttl } else { ttl.min(snapshot.left) };
    known.insert(part, (until, snapshot));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Amount, Claim, Decision, Owner, Terms, Timestamp};
    use crate::memory::MemoryHot;
    use crate::ports::{Clock, Grabber, System};
    use crate::service::grab::help::tests::scene::Scene;

    #[tokio::test(start_paused = true)]
    async fn losers_of_a_part_cause_a_refresh_now_and_then() {
        let scene = Scene::of(1).await;
        let exhausted = ExhaustedParts::new(Arc::clone(&scene.hot), Arc::new(System));
        let refreshes = async || {
            for _ in 0..10 {
                exhausted.refresh_later(scene.part());
                tokio::time::sleep(REFRESH_INTERVAL / 11).await;
            }
            scene.count().0
        };
        assert_eq!(refreshes().await, 1);
        tokio::time::sleep(REFRESH_INTERVAL).await;
        assert_eq!(refreshes().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_answers_users_without_a_slip_for_a_short_time() {
        let (part, hot) = (PartId { packet: Terms::sample().id, index: 0 }, Arc::new(MemoryHot::new(Arc::new(System))));
        let exhausted = ExhaustedParts::new(hot, Arc::new(System));
        let (ann, bob): (UserId, UserId) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let held = GrabAnswer::Held { slip: 0, at: Timestamp::from_ms(1), fresh: false };
        let nothing = GrabAnswer::Nothing { expired: false, certain: false };
        let by_user: HashMap<_, _> = [(ann.clone(), held)].into_iter().collect();
        let left = Duration::from_mins(1);
        let snapshot = Arc::new(PartSnapshot { is_final: false, left, by_user, others: nothing.clone() });
        assert!(exhausted.answer_for(part, &bob).is_none());

        exhausted.remember(part, Instant::now() - SNAPSHOT_TTL, Arc::clone(&snapshot));
        assert!(exhausted.answer_for(part, &bob).is_none(), "the answer came too late");
        exhausted.remember(part, Instant::now(), Arc::clone(&snapshot));
        assert!(exhausted.answer_for(part, &bob) == Some(nothing));
        assert!(exhausted.answer_for(part, &ann).is_none(), "by now it may be a claim");
        assert!(exhausted.final_part(part).is_none(), "it may change");
        tokio::time::advance(SNAPSHOT_TTL).await;
        assert!(exhausted.answer_for(part, &bob).is_none());

        let claim = Claim { slip: 0, amount: Amount::new(1), at: Timestamp::from_ms(1) };
        let (claimed, nothing) = (GrabAnswer::Confirmed(claim), GrabAnswer::Nothing { expired: false, certain: true });
        let by_user: HashMap<_, _> = [(ann.clone(), claimed.clone())].into_iter().collect();
        let last = Arc::new(PartSnapshot { is_final: true, left, by_user, others: nothing.clone() });
        exhausted.remember(part, Instant::now(), Arc::clone(&last));
        exhausted.remember(part, Instant::now(), snapshot);
        assert_eq!(exhausted.answer_for(part, &ann), Some(claimed), "what was read before tells less");
        assert_eq!(exhausted.answer_for(part, &bob), Some(nothing));
        tokio::time::advance(FINAL_TTL).await;
        assert!(exhausted.answer_for(part, &ann).is_none());

        let expiring = PartSnapshot { left: Duration::from_millis(1), ..(*last).clone() };
        exhausted.remember(part, Instant::now(), Arc::new(expiring));
        assert!(exhausted.final_part(part).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(exhausted.final_part(part).is_none(), "losers are answered otherwise from the expiry on");
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_go_on_at_once_when_this_process_sees_the_last_claim() {
        let now = System.now();
        let terms = Terms { count: 1, expires_at: now.after(Duration::from_hours(1)), ..Terms::sample() };
        let (part, hot) = (PartId { packet: terms.id, index: 0 }, Arc::new(MemoryHot::new(Arc::new(System))));
        hot.load(part, &terms, false, &[]).await.unwrap();
        let user: UserId = "a".parse().unwrap();
        hot.grab(part, &[Grabber { user: user.clone(), passphrase: None }]).await.unwrap();
        let exhausted = Arc::new(ExhaustedParts::new(Arc::clone(&hot), Arc::new(System)));

        let waiting = tokio::spawn({
            let exhausted = Arc::clone(&exhausted);
            async move { exhausted.wait_until_final(part, Duration::from_secs(9)).await }
        });
        // Long enough that the polls have become rare.
        tokio::time::sleep(POLL_MAX * 3).await;
        assert!(!waiting.is_finished());
        let decision = Decision { slip: 0, owner: Owner::User(user), amount: Amount::new(100), at: now };
        hot.reconcile(part, 1, &[decision], &[]).await.unwrap();
        let notified = Instant::now();
        exhausted.notify_final(part);
        assert!(waiting.await.unwrap().unwrap());
        // Time stands still as long as there is something to do.
        assert_eq!(notified.elapsed(), Duration::ZERO);
        assert!(exhausted.final_part(part).is_some());
        assert!(lock(&exhausted.awaited).is_empty());
    }
}
