use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Failure;
use super::hot_store::{Ask, Found, Grabber, HotStore, HotStoreError};
use crate::domain::{PartId, UserId};

/// The most users in one call: beyond this a call gains nothing, and keeps Redis busy for longer.
const BATCH: usize = 64;

/// The most calls of a lane that are under way at once: one is written and another read while a third is executed.
const CALLS: usize = 4;

/// Collects the grabs of a lane that arrive while a call for it is under way into the next call, whichever packets they are
/// of. No timer: a grab that comes alone goes at once, and another call beside one that is under way goes once it is full.
pub struct Collector<H> {
    hot: Arc<H>,
    lanes: Arc<Lanes>,
}

/// The lanes with a call under way.
type Lanes = Mutex<HashMap<u32, Lane>>;

/// `None`: the part is not loaded.
type Answer = Result<Option<Found>, Failure>;

/// Those who wait for one user's answer.
type Askers = Vec<oneshot::Sender<Answer>>;

struct Waiting {
    grabber: Grabber,
    answer: oneshot::Sender<Answer>,
}

/// What one call asks, and who waits for which of its answers.
#[derive(Default)]
struct Batch {
    asks: Vec<Ask>,
    askers: Vec<Vec<Askers>>,
}

/// Those who wait while calls for their lane are under way: by part, because the more users a part has in a call, the less
/// each costs.
#[derive(Default)]
struct Lane {
    calls: usize,
    waiting: HashMap<PartId, Vec<Waiting>>,
    /// The parts that somebody waits for, the next one first.
    order: VecDeque<PartId>,
    len: usize,
}

impl<H: HotStore> Collector<H> {
    /// In front of `hot`.
    pub fn new(hot: Arc<H>) -> Self {
        Self { hot, lanes: Arc::default() }
    }

    /// What `part` has for `grabber`.
    pub async fn grab(&self, part: PartId, grabber: Grabber) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = self.hot.lane(part.partition());
        let batch = lock(&self.lanes).entry(id).or_default().join(part, Waiting { grabber, answer });
        if let Some(batch) = batch {
            let (hot, lanes) = (Arc::clone(&self.hot), Arc::clone(&self.lanes));
            // A task of its own: the caller who started it may be dropped, those who joined it must not.
            tokio::spawn(async move { drain(&*hot, &lanes, id, batch).await });
        }
        answered.await.unwrap_or_else(|_| Err(Failure::unavailable("the call that this grab had joined was lost")))
    }
}

/// Makes a lane's calls one after the other, as long as there is something to ask.
async fn drain<H: HotStore>(hot: &H, lanes: &Lanes, id: u32, mut batch: Batch) {
    let call = UnderWay { lanes, id };
    loop {
        let failure = serve(hot, batch).await.err();
        let mut all = lock(lanes);
        let lane = all.entry(id).or_default();
        if let Some(failure) = failure {
            // The hot store does not answer: whoever waits would hear the same, but later than he asked.
            for waiting in lane.take_all() {
                let _ = waiting.answer.send(Err(failure.clone()));
            }
        }
        // Under one lock with what ends the call: whoever comes in between would wait for it for ever.
        let Some(next) = lane.next_call() else {
            if lane.calls == 0 {
                all.remove(&id);
            }
            std::mem::forget(call);
            return;
        };
        batch = next;
    }
}

/// A call of a lane that is lost if this is dropped: whoever made it panicked. With its last call a lane is gone; those who
/// wait then hear of it, and the next one starts anew.
struct UnderWay<'a> {
    lanes: &'a Lanes,
    id: u32,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = lock(self.lanes);
        let is_last = all.get_mut(&self.id).is_some_and(|lane| {
            lane.calls = lane.calls.saturating_sub(1);
            lane.calls == 0
        });
        if is_last {
            all.remove(&self.id);
        }
    }
}

impl Lane {
    /// Adds one who waits. Returns what to ask if that calls for another call.
    fn join(&mut self, part: PartId, waiting: Waiting) -> Option<Batch> {
        self.push(part, waiting);
        let is_due = self.calls == 0 || self.calls < CALLS && self.len >= BATCH;
        is_due.then(|| {
            self.calls += 1;
            self.next_batch()
        })
    }

    /// What to ask once a call has ended. `None`: it was not followed by another, since nobody waits, or less than a call,
    /// which the others that are under way take along.
    fn next_call(&mut self) -> Option<Batch> {
        if self.len == 0 || self.calls > 1 && self.len < BATCH {
            self.calls -= 1;
            return None;
        }
        Some(self.next_batch())
    }

    fn push(&mut self, part: PartId, waiting: Waiting) {
        let of_part = self.waiting.entry(part).or_default();
        if of_part.is_empty() {
            self.order.push_back(part);
        }
        of_part.push(waiting);
        self.len += 1;
    }

    /// Up to [`BATCH`] users, each once a part with all of his equal requests. What is left over of a part comes again
    /// after the others.
    fn next_batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        let mut room = BATCH;
        // Each part once: who is left over of one does not come again in this call.
        for _ in 0..self.order.len() {
            if room == 0 {
                break;
            }
            let Some(part) = self.order.pop_front() else { break };
            let queue = self.waiting.remove(&part).unwrap_or_default();
            self.len -= queue.len();
            let (grabbers, askers, rest) = users(queue, room);
            room -= grabbers.len();
            batch.asks.push((part, grabbers));
            batch.askers.push(askers);
            for waiting in rest {
                self.push(part, waiting);
            }
        }
        batch
    }

    fn take_all(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.order.clear();
        self.len = 0;
        std::mem::take(&mut self.waiting).into_values().flatten()
    }
}

/// Up to `room` users of those who wait for a part, each with those who wait for his answer; and the rest.
fn users(queue: Vec<Waiting>, room: usize) -> (Vec<Grabber>, Vec<Askers>, Vec<Waiting>) {
    let places = places(&queue, room);
    let (mut grabbers, mut askers, mut rest) = (Vec::with_capacity(queue.len()), Vec::<Askers>::new(), Vec::new());
    for (Waiting { grabber, answer }, place) in queue.into_iter().zip(places) {
        match place {
            None => rest.push(Waiting { grabber, answer }),
            Some(place) if place < grabbers.len() => askers[place].push(answer),
            Some(_) => {
                grabbers.push(grabber);
                askers.push(vec![answer]);
            }
        }
    }
    (grabbers, askers, rest)
}

/// As which of the users each who waits for a part is asked for. `None`: not in this call.
fn places(queue: &[Waiting], room: usize) -> Vec<Option<usize>> {
    if let [_] = queue {
        return vec![Some(0)];
    }
    let mut users: HashMap<&UserId, (usize, &Grabber)> = HashMap::with_capacity(queue.len());
    let mut places = Vec::with_capacity(queue.len());
    for Waiting { grabber, .. } in queue {
        let others = users.len();
        places.push(match users.entry(&grabber.user) {
            // The same user with another passphrase is another question.
            Entry::Occupied(user) => Some(user.get().0).filter(|_| user.get().1 == grabber),
            Entry::Vacant(_) if others == room => None,
            Entry::Vacant(user) => Some(user.insert((others, grabber)).0),
        });
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

    fn waiting(user: &str, digest: Option<u8>) -> Waiting {
        let passphrase = digest.map(|byte| PassphraseDigest([byte; 32]));
        Waiting { grabber: Grabber { user: user.parse().unwrap(), passphrase }, answer: oneshot::channel().0 }
    }

    /// A lane with a call under way, and those who wait for the next.
    fn lane<'a>(queue: impl IntoIterator<Item = (u8, &'a str, Option<u8>)>) -> Lane {
        let mut lane = Lane { calls: 1, ..Lane::default() };
        for (packet, user, digest) in queue {
            assert!(lane.join(part(packet), waiting(user, digest)).is_none(), "it waits");
        }
        lane
    }

    fn shape(batch: &Batch) -> Vec<Vec<usize>> {
        batch.askers.iter().map(|users| users.iter().map(Vec::len).collect()).collect()
    }

    #[test]
    fn a_user_is_in_a_batch_once() {
        let mut lane = lane([(1, "a", None), (1, "b", None), (1, "a", None), (1, "a", Some(1))]);
        assert_eq!(shape(&lane.next_batch()), [[2, 1]]);
        assert_eq!(lane.len, 1, "the same user with another passphrase waits for the next batch");
        assert_eq!(shape(&lane.next_batch()), [[1]]);
        assert_eq!((lane.len, lane.waiting.len(), lane.order.len()), (0, 0, 0));
    }

    #[test]
    fn a_batch_has_each_part_once_with_its_own_users() {
        let batch = lane([(1, "a", None), (2, "a", None), (1, "b", None), (2, "a", None)]).next_batch();
        let asked: Vec<(PartId, usize)> = batch.asks.iter().map(|(part, users)| (*part, users.len())).collect();
        assert_eq!((asked, shape(&batch)), (vec![(part(1), 2), (part(2), 1)], vec![vec![1, 1], vec![2]]));
    }

    #[test]
    fn a_batch_is_bounded_and_what_is_left_comes_after_the_others() {
        let users: Vec<String> = (0..=BATCH).map(|n| format!("u{n}")).collect();
        let mut lane = Lane { calls: CALLS, ..Lane::default() };
        for user in &users {
            assert!(lane.join(part(1), waiting(user, None)).is_none());
        }
        assert!(lane.join(part(2), waiting("a", None)).is_none());
        assert_eq!((shape(&lane.next_batch()), lane.len), (vec![vec![1; BATCH]], 2));
        let last = lane.next_batch();
        assert_eq!(last.asks.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part(2), part(1)]);
        assert_eq!(lane.len, 0);
    }

    #[test]
    fn a_call_goes_at_once_where_none_is_under_way_and_else_when_it_is_full() {
        let mut lane = Lane::default();
        assert!(lane.join(part(1), waiting("first", None)).is_some());
        for n in 1..BATCH {
            assert!(lane.join(part(1), waiting(&format!("u{n}"), None)).is_none());
        }
        let second = lane.join(part(2), waiting("last", None)).unwrap();
        assert_eq!((shape(&second).concat().len(), lane.calls), (BATCH, 2));
    }

    #[test]
    fn whoever_waits_has_a_call_that_will_take_him_along() {
        let mut lane = Lane::default();
        assert!(lane.join(part(1), waiting("a", None)).is_some());
        assert!(lane.next_call().is_none());
        assert_eq!(lane.calls, 0, "nobody waited, so the next one must start a call of his own");
        lane.calls = 2;
        assert!(lane.join(part(1), waiting("b", None)).is_none());
        assert!(lane.next_call().is_none(), "the other call takes him along");
        assert_eq!((lane.calls, lane.next_call().map(|batch| shape(&batch))), (1, Some(vec![vec![1]])));
    }
}
