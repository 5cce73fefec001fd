use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Failure;
use super::hot_store::{Ask, Found, Grabber, HotStore, HotStoreError};
use crate::domain::{PartId, UserId};

/// The most users in one call: beyond this a call gains nothing, and keeps Redis busy for longer.
const BATCH: usize = 64;

/// Collects the grabs of a lane that arrive while a call for it is under way into the next call, whichever packets they are
/// of. No timer: a grab that comes alone goes at once.
pub struct Collector<H> {
    hot: Arc<H>,
    waiting: Arc<Lanes>,
}

/// Those who wait while a call for their lane is under way.
type Lanes = Mutex<HashMap<u32, Vec<Waiting>>>;

/// `None`: the part is not loaded.
type Answer = Result<Option<Found>, Failure>;

/// Those who wait for one user's answer.
type Askers = Vec<oneshot::Sender<Answer>>;

struct Waiting {
    part: PartId,
    grabber: Grabber,
    answer: oneshot::Sender<Answer>,
}

/// What one call asks, and who waits for which of its answers.
#[derive(Default)]
struct Batch {
    asks: Vec<Ask>,
    askers: Vec<Vec<Askers>>,
}

impl<H: HotStore> Collector<H> {
    /// In front of `hot`.
    pub fn new(hot: Arc<H>) -> Self {
        Self { hot, waiting: Arc::default() }
    }

    /// What `part` has for `grabber`.
    pub async fn grab(&self, part: PartId, grabber: Grabber) -> Answer {
        let (answer, answered) = oneshot::channel();
        let mine = Waiting { part, grabber, answer };
        let lane = self.hot.lane(part.partition());
        {
            let mut waiting = lock(&self.waiting);
            if let Some(queue) = waiting.get_mut(&lane) {
                queue.push(mine);
            } else {
                waiting.insert(lane, Vec::new());
                // A task of its own: the caller who started it may be dropped, those who joined it must not.
                let (hot, waiting) = (Arc::clone(&self.hot), Arc::clone(&self.waiting));
                tokio::spawn(async move { drain(&*hot, &waiting, lane, vec![mine]).await });
            }
        }
        answered.await.unwrap_or_else(|_| Err(Failure::unavailable("the call that this grab had joined was lost")))
    }
}

/// Serves a lane's queue until it is empty. The entry in `waiting` says that somebody does.
async fn drain<H: HotStore>(hot: &H, waiting: &Lanes, lane: u32, mut queue: Vec<Waiting>) {
    let served = Served { waiting, lane };
    loop {
        let (batch, rest) = next_batch(queue);
        let failure = serve(hot, batch).await.err();
        let mut waiting = lock(waiting);
        queue = rest;
        queue.append(waiting.entry(lane).or_default());
        if let Some(failure) = failure {
            // The hot store does not answer: whoever waits would hear the same, but later than he asked.
            for next in queue.drain(..) {
                let _ = next.answer.send(Err(failure.clone()));
            }
        }
        if queue.is_empty() {
            waiting.remove(&lane);
            drop(waiting);
            std::mem::forget(served);
            return;
        }
    }
}

/// Removes the entry of a lane whose server panicked: those who wait then hear of it, and the next one starts anew.
struct Served<'a> {
    waiting: &'a Lanes,
    lane: u32,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        lock(self.waiting).remove(&self.lane);
    }
}

/// Up to [`BATCH`] users, each once a part with all of his equal requests; and the rest.
fn next_batch(queue: Vec<Waiting>) -> (Batch, Vec<Waiting>) {
    let places = places(&queue);
    let (mut batch, mut rest) = (Batch::default(), Vec::new());
    for (next, place) in queue.into_iter().zip(places) {
        let Some((part, user)) = place else {
            rest.push(next);
            continue;
        };
        // Each part's first comes before the next part's.
        if part == batch.asks.len() {
            batch.asks.push((next.part, Vec::new()));
            batch.askers.push(Vec::new());
        }
        if user == batch.askers[part].len() {
            batch.asks[part].1.push(next.grabber);
            batch.askers[part].push(vec![next.answer]);
        } else {
            batch.askers[part][user].push(next.answer);
        }
    }
    (batch, rest)
}

/// Where in the batch each of a queue goes: to which part, and to which of its users. `None`: nowhere.
///
/// Who is next brings along all who wait for the same part: the more users a part has in a call, the less each costs.
fn places(queue: &[Waiting]) -> Vec<Option<(usize, usize)>> {
    let mut parts: HashMap<PartId, usize> = HashMap::new();
    let mut by_part: Vec<Vec<usize>> = Vec::new();
    for (index, next) in queue.iter().enumerate() {
        let part = *parts.entry(next.part).or_insert(by_part.len());
        if part == by_part.len() {
            by_part.push(Vec::new());
        }
        by_part[part].push(index);
    }
    let mut places = vec![None; queue.len()];
    let mut room = BATCH;
    for (part, indices) in by_part.into_iter().enumerate() {
        if room == 0 {
            break;
        }
        let mut users: HashMap<&UserId, (usize, &Grabber)> = HashMap::with_capacity(indices.len());
        for index in indices {
            let grabber = &queue[index].grabber;
            let others = users.len();
            places[index] = match users.get(&grabber.user) {
                // The same user with another passphrase is another question.
                Some((user, first)) => (*first == grabber).then_some((part, *user)),
                None if room == 0 => None,
                None => {
                    users.insert(&grabber.user, (others, grabber));
                    room -= 1;
                    Some((part, others))
                }
            };
        }
    }
    places
}

/// Answers a batch. That the hot store could not be asked is told to all of it, and returned.
async fn serve<H: HotStore>(hot: &H, batch: Batch) -> Result<(), Failure> {
    crash_point!("grab.before_script");
    let result = hot.grab_each(&batch.asks).await;
    crash_point!("grab.after_script");
    match result {
        Ok(found) => {
            for (askers, found) in batch.askers.into_iter().zip(found) {
                tell(askers, Ok(found));
            }
            Ok(())
        }
        // One part whose keys are spoilt must not stand in the way of the others: each by itself. They may be asked twice.
        Err(HotStoreError::Impossible(_)) if batch.asks.len() > 1 => {
            for ((part, grabbers), askers) in batch.asks.into_iter().zip(batch.askers) {
                tell(askers, hot.grab(part, &grabbers).await.map_err(Failure::from));
            }
            Ok(())
        }
        Err(error) => {
            // What is wrong with one part says nothing of the lane's others, which may wait for the next call.
            let concerns_all = matches!(error, HotStoreError::Unavailable(_));
            let failure = Failure::from(error);
            for askers in batch.askers {
                tell(askers, Err(failure.clone()));
            }
            if concerns_all { Err(failure) } else { Ok(()) }
        }
    }
}

/// Tells the users of one part what they were answered.
fn tell(askers: Vec<Askers>, found: Result<Option<Vec<Found>>, Failure>) {
    let answers: Vec<Answer> = match found {
        Ok(Some(found)) => found.into_iter().map(|found| Ok(Some(found))).collect(),
        Ok(None) => vec![Ok(None); askers.len()],
        Err(failure) => vec![Err(failure); askers.len()],
    };
    for (askers, answer) in askers.into_iter().zip(answers) {
        for asker in askers {
            // A grabber who is gone needs no answer; what is held for him settle brings to the ledger.
            let _ = asker.send(answer.clone());
        }
    }
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{PACKET_ID_RANDOM_BYTES, PacketId, PassphraseDigest, Timestamp};

    fn part(packet: u8) -> PartId {
        let mut random = [0; PACKET_ID_RANDOM_BYTES];
        random[0] = packet;
        PartId { packet: PacketId::new(Timestamp::from_ms(1), 1, random), index: 0 }
    }

    fn waiting(packet: u8, user: &str, digest: Option<u8>) -> Waiting {
        let passphrase = digest.map(|byte| PassphraseDigest([byte; 32]));
        let grabber = Grabber { user: user.parse().unwrap(), passphrase };
        Waiting { part: part(packet), grabber, answer: oneshot::channel().0 }
    }

    fn shape(batch: &Batch) -> Vec<Vec<usize>> {
        batch.askers.iter().map(|users| users.iter().map(Vec::len).collect()).collect()
    }

    #[test]
    fn a_user_is_in_a_batch_once() {
        let queue = vec![waiting(1, "a", None), waiting(1, "b", None), waiting(1, "a", None), waiting(1, "a", Some(1))];
        let (batch, rest) = next_batch(queue);
        assert_eq!(shape(&batch), [[2, 1]]);
        assert_eq!(rest.len(), 1, "the same user with another passphrase waits for the next batch");
    }

    #[test]
    fn a_batch_has_each_part_once_with_its_own_users() {
        let queue = vec![waiting(1, "a", None), waiting(2, "a", None), waiting(1, "b", None), waiting(2, "a", None)];
        let (batch, rest) = next_batch(queue);
        let asked: Vec<(PartId, usize)> = batch.asks.iter().map(|(part, users)| (*part, users.len())).collect();
        assert_eq!((asked, shape(&batch)), (vec![(part(1), 2), (part(2), 1)], vec![vec![1, 1], vec![2]]));
        assert!(rest.is_empty());
    }

    #[test]
    fn a_batch_is_bounded() {
        let queue = (0..=BATCH).map(|n| waiting(u8::from(n % 2 == 0), &format!("u{n}"), None)).collect();
        let (batch, rest) = next_batch(queue);
        assert_eq!((batch.asks.iter().map(|(_, users)| users.len()).sum::<usize>(), rest.len()), (BATCH, 1));
    }
}
