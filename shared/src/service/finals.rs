use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::HashMap;
use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::Failure;
use super::cache::{Cache, cache};
use super::collector::Told;
use super::environment::Entropy;
use super::flights::Flights;
use super::hot_store::{FinalPart, Finality, HotStore, Rest};
use crate::domain::{PartId, UserId};
use crate::lock;

/// For how long a process answers from a final part by itself. It can't change, but its expiry passes and a process must
/// not hold what nobody asks for.
const REMEMBER: Duration = Duration::from_secs(5);
/// For how long a process tells losers what it has read of a part that had nothing left. A slip may come back to such a part,
/// though it hardly ever does: after a rollback of the hot store, or when a user turns out to have one of another part.
const RELY: Duration = Duration::from_millis(100);
/// Owners that a process remembers in all.
const OWNERS_MAX: u64 = 200_000;
const OWNERS_OF_A_PART: u64 = 100;

/// After how long a process looks again at a part that turned out not to be final, or to have a guard.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const PARTS_LOOKED_MAX: u64 = 10_000;

/// For how long losers wait, in the moment between the last slip's pop and its commit, for the part to become final.
const WAIT_MAX: Duration = Duration::from_millis(1_500);
const POLL_FIRST: Duration = Duration::from_millis(4);
const POLL_MOST: Duration = Duration::from_millis(100);

/// The parts that somebody waits for, and how to tell him that it is worth another look.
type Awaited = Arc<Mutex<HashMap<PartId, Arc<Notify>>>>;

/// What this process knows of parts that give out nothing more, and since when.
type Known = Arc<Cache<PartId, (Instant, Spent)>>;

/// A part that gives out nothing more.
#[derive(Clone)]
enum Spent {
    /// Nor will it ever.
    Final(Arc<FinalPart>),
    /// As it stood: what it holds has yet to become claims.
    AsRead(Arc<Rest>),
}

/// The parts that this process knows to give out nothing more, with their owners: they need no call to the hot store.
pub struct Finals<H> {
    hot: Arc<H>,
    entropy: Arc<dyn Entropy>,
    known: Known,
    /// When a part was looked at.
    looked: Cache<PartId, Instant>,
    waits: Flights<PartId, Result<(), Failure>>,
    awaited: Awaited,
}

impl<H: HotStore> Finals<H> {
    /// Of the parts in `hot`.
    pub fn new(hot: Arc<H>, entropy: Arc<dyn Entropy>) -> Self {
        let owners = |(_, spent): &(Instant, Spent)| match spent {
            Spent::Final(part) => part.owners.len() + 1,
            Spent::AsRead(rest) => rest.has.len() + 1,
        };
        let known = Arc::new(cache(OWNERS_MAX, OWNERS_OF_A_PART, owners));
        let looked = cache(PARTS_LOOKED_MAX, 1, |_| 1);
        Self { hot, entropy, known, looked, waits: Flights::new(), awaited: Awaited::default() }
    }

    /// A part, if it is known to be final.
    pub fn get(&self, part: PartId) -> Option<Arc<FinalPart>> {
        match self.known.get(&part)? {
            (since, Spent::Final(known)) if since.elapsed() < REMEMBER => Some(known),
            _ => None,
        }
    }

    /// What a part has for `user`, if that needs no call: it is known to be final, or was read a moment ago and had nothing
    /// for him. Whoever had something is to ask again: what is held for him may be a claim by now.
    pub fn told(&self, part: PartId, user: &UserId) -> Option<Told> {
        match self.known.get(&part)? {
            (since, Spent::Final(known)) if since.elapsed() < REMEMBER => Some(Told::Final(known)),
            (since, Spent::AsRead(rest)) if since.elapsed() < RELY && !rest.has.contains_key(user) => {
                Some(Told::Found(rest.others.clone()))
            }
            _ => None,
        }
    }

    /// Remembers how a part was read, until a moment after it was `asked`, unless more is known of it: what took long to be
    /// answered may be that old.
    ///
    /// What leaves losers in doubt makes them ask on. A certain no that is not final is Redis' own word, with `GRAB_ACK=redis`:
    /// where Redis loses what it said, they hear it for that moment longer.
    pub fn was_read(&self, part: PartId, asked: Instant, rest: Arc<Rest>) {
        if self.get(part).is_none() {
            self.known.insert(part, (asked, Spent::AsRead(rest)));
        }
    }

    /// Waits until a part is final, but not for ever: one poll for all who wait. Then ask it again.
    pub fn wait(&self, part: PartId) -> impl Future<Output = Result<(), Failure>> + use<H> {
        let poll = || {
            let (hot, known, entropy) = (Arc::clone(&self.hot), Arc::clone(&self.known), Arc::clone(&self.entropy));
            let waiting = Waiting::new(Arc::clone(&self.awaited), part);
            async move {
                let give_up = Instant::now() + WAIT_MAX;
                let mut pause = POLL_FIRST;
                loop {
                    // At the latest then: this process may see it first.
                    let _ = timeout(entropy.jitter(pause), waiting.worth_a_look.notified()).await;
                    match look(&*hot, &known, part).await? {
                        Finality::NotYet if Instant::now() < give_up => pause = (pause * 2).min(POLL_MOST),
                        _ => return Ok(()),
                    }
                }
            }
        };
        let flight = self.waits.flight(part, poll);
        flight.landed().map(|result| result.unwrap_or_else(|| Err(Failure::defect("waiting for a part panicked"))))
    }

    /// Says that a part is final by now, to whoever waits for it.
    pub fn is_final_now(&self, part: PartId) {
        if let Some(worth_a_look) = lock(&self.awaited).get(&part) {
            worth_a_look.notify_one();
        }
    }

    /// Finds out about a part of which a loser was told for certain, for those who come after him. Nobody waits for it.
    pub fn look_later(&self, part: PartId) {
        if self.looked.get(&part).is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return;
        }
        self.looked.insert(part, Instant::now());
        let (hot, known) = (Arc::clone(&self.hot), Arc::clone(&self.known));
        tokio::spawn(async move {
            if let Err(failure) = look(&*hot, &known, part).await {
                tracing::debug!(%part, error = crate::error_chain(&failure), "its owners are not known");
            }
        });
    }
}

/// A part that somebody waits for, until this is dropped.
struct Waiting {
    awaited: Awaited,
    part: PartId,
    worth_a_look: Arc<Notify>,
}

impl Waiting {
    fn new(awaited: Awaited, part: PartId) -> Self {
        let worth_a_look = Arc::<Notify>::default();
        lock(&awaited).insert(part, Arc::clone(&worth_a_look));
        Self { awaited, part, worth_a_look }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.awaited).remove(&self.part);
    }
}

async fn look<H: HotStore>(hot: &H, known: &Known, part: PartId) -> Result<Finality, Failure> {
    let finality = hot.finality(part).await?;
    if let Finality::Final(owners) = &finality {
        known.insert(part, (Instant::now(), Spent::Final(Arc::clone(owners))));
    }
    Ok(finality)
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;
    use crate::domain::{Amount, Fence, Owner, Terms, Timestamp};
    use crate::memory::MemoryHot;
    use crate::service::hot_store::Found;
    use crate::service::{Clock, System};

    #[tokio::test(start_paused = true)]
    async fn how_a_part_was_read_is_told_for_a_moment_to_those_who_had_nothing() {
        let (part, hot) = (PartId { packet: Terms::sample().id, index: 0 }, Arc::new(MemoryHot::new(Arc::new(System))));
        let finals = Finals::new(hot, Arc::new(System));
        let (ann, bob): (UserId, UserId) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let held = Found::Held { slip: 0, at: Timestamp::from_ms(1), fresh: false };
        let nothing = Found::Nothing { expired: false, certain: false };
        let rest = Arc::new(Rest { has: [(ann.clone(), held)].into_iter().collect(), others: nothing.clone() });
        assert!(finals.told(part, &bob).is_none());

        finals.was_read(part, Instant::now() - RELY, Arc::clone(&rest));
        assert!(finals.told(part, &bob).is_none(), "the answer came too late");
        finals.was_read(part, Instant::now(), Arc::clone(&rest));
        assert!(matches!(finals.told(part, &bob), Some(Told::Found(found)) if found == nothing));
        assert!(finals.told(part, &ann).is_none(), "by now it may be a claim");
        assert!(finals.get(part).is_none(), "it may change");
        tokio::time::advance(RELY).await;
        assert!(finals.told(part, &bob).is_none());

        let known = FinalPart { expires_at: Timestamp::from_ms(1), owners: HashMap::default() };
        finals.known.insert(part, (Instant::now(), Spent::Final(Arc::new(known))));
        finals.was_read(part, Instant::now(), rest);
        assert!(matches!(finals.told(part, &ann), Some(Told::Final(_))), "what was read before tells less");
        tokio::time::advance(REMEMBER).await;
        assert!(finals.told(part, &ann).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_part_hears_at_once_that_this_process_saw_its_last_claim() {
        let now = System.now();
        let terms = Terms { count: 1, expires_at: now.after(Duration::from_hours(1)), ..Terms::sample() };
        let (part, hot) = (PartId { packet: terms.id, index: 0 }, Arc::new(MemoryHot::new(Arc::new(System))));
        hot.load(part, &terms, &[]).await.unwrap();
        let finals = Arc::new(Finals::new(Arc::clone(&hot), Arc::new(System)));

        let waiting = tokio::spawn({
            let finals = Arc::clone(&finals);
            async move { finals.wait(part).await }
        });
        // Long enough that the polls have become rare.
        tokio::time::sleep(POLL_MOST * 3).await;
        assert!(!waiting.is_finished());
        let fact = Fence { slip: 0, owner: Owner::User("a".parse().unwrap()), amount: Amount::new(100), at: now };
        hot.learn(part, 1, &[fact], &[]).await.unwrap();
        let told = Instant::now();
        finals.is_final_now(part);
        waiting.await.unwrap().unwrap();
        // Time stands still as long as there is something to do.
        assert_eq!(told.elapsed(), Duration::ZERO);
        assert!(finals.get(part).is_some());
        assert!(lock(&finals.awaited).is_empty());
    }
}
