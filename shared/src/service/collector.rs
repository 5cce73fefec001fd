use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use super::Failure;
use super::finals::Finals;
use super::hot_store::{Ask, FinalPart, Found, Grabber, HotStore, HotStoreError};
use crate::domain::{PartId, UserId};

/// The most users in one call: beyond this a call gains nothing, and keeps Redis busy for longer.
const BATCH: usize = 64;

/// The most calls of a lane that are under way at once: one is written and another read while a third is executed.
const CALLS: usize = 4;

/// So many who wait are worth another call beside those under way. Fewer would cost more in calls than they gain by not
/// waiting; were it a full batch, Redis would idle while a few requests go back and forth.
const WORTH_A_CALL: usize = 6;

/// Collects the grabs of a lane that arrive while a call for it is under way into the next call, whichever packets they are
/// of. No timer: a grab that comes alone goes at once, and another call beside those under way goes once enough wait for it.
///
/// Who waits for a part that turns out to be final needs no call.
pub struct Collector<H> {
    hot: Arc<H>,
    finals: Arc<Finals<H>>,
    lanes: Arc<Lanes>,
}

/// What a part has for a user.
#[derive(Clone, Debug)]
pub enum Told {
    /// This.
    Found(Found),
    /// It is not loaded.
    NotLoaded,
    /// It can't change any more: its owners tell.
    Final(Arc<FinalPart>),
}

/// The lanes with a call under way.
type Lanes = Mutex<HashMap<u32, Lane, RandomState>>;

type Answer = Result<Told, Failure>;

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
    /// Those who waited for parts that are final by now.
    settled: Vec<(Arc<FinalPart>, VecDeque<Waiting>)>,
}

/// Those who wait while calls for their lane are under way: by part, because the more users a part has in a call, the less
/// each costs.
#[derive(Default)]
struct Lane {
    calls: usize,
    waiting: HashMap<PartId, VecDeque<Waiting>, RandomState>,
    /// The parts that somebody waits for, the next one first.
    order: VecDeque<PartId>,
    len: usize,
}

impl<H: HotStore> Collector<H> {
    /// In front of `hot`, for parts that are not among `finals`.
    pub fn new(hot: Arc<H>, finals: Arc<Finals<H>>) -> Self {
        Self { hot, finals, lanes: Arc::default() }
    }

    /// What `part` has for `grabber`.
    pub async fn grab(&self, part: PartId, grabber: Grabber) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = self.hot.lane(part.partition());
        let finals = |part| self.finals.get(part);
        let batch = lock(&self.lanes).entry(id).or_default().join(part, Waiting { grabber, answer }, &finals);
        if let Some(batch) = batch {
            let (hot, finals, lanes) = (Arc::clone(&self.hot), Arc::clone(&self.finals), Arc::clone(&self.lanes));
            // A task of its own: the caller who started it may be dropped, those who joined it must not.
            tokio::spawn(async move { drain(&*hot, &finals, &lanes, id, batch).await });
        }
        answered.await.unwrap_or_else(|_| Err(Failure::unavailable("the call that this grab had joined was lost")))
    }
}

/// Makes a lane's calls one after the other, as long as there is something to ask.
async fn drain<H: HotStore>(hot: &H, finals: &Finals<H>, lanes: &Lanes, id: u32, mut batch: Batch) {
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
        let Some(next) = lane.next_call(&|part| finals.get(part)) else {
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

/// What is known of a part that is final.
type Lookup<'a> = dyn Fn(PartId) -> Option<Arc<FinalPart>> + 'a;

impl Lane {
    /// Adds one who waits. Returns what to ask if that calls for another call.
    fn join(&mut self, part: PartId, waiting: Waiting, finals: &Lookup<'_>) -> Option<Batch> {
        self.push(part, waiting);
        let is_due = self.calls == 0 || self.calls < CALLS && self.len >= WORTH_A_CALL;
        is_due.then(|| {
            self.calls += 1;
            self.next_batch(finals)
        })
    }

    /// What to ask once a call has ended. `None`: it was not followed by another, since nobody waits, or too few, whom the
    /// others that are under way take along.
    fn next_call(&mut self, finals: &Lookup<'_>) -> Option<Batch> {
        if self.len == 0 || self.calls > 1 && self.len < WORTH_A_CALL {
            self.calls -= 1;
            return None;
        }
        Some(self.next_batch(finals))
    }

    fn push(&mut self, part: PartId, waiting: Waiting) {
        let of_part = self.waiting.entry(part).or_default();
        if of_part.is_empty() {
            self.order.push_back(part);
        }
        of_part.push_back(waiting);
        self.len += 1;
    }

    /// Up to [`BATCH`] users, each once a part with all of his equal requests. What is left over of a part comes again
    /// after the others.
    fn next_batch(&mut self, finals: &Lookup<'_>) -> Batch {
        let mut batch = Batch::default();
        let mut room = BATCH;
        // Each part once: who is left over of one does not come again in this call.
        for _ in 0..self.order.len() {
            if room == 0 {
                break;
            }
            let Some(part) = self.order.pop_front() else { break };
            let Entry::Occupied(mut of_part) = self.waiting.entry(part) else { continue };
            let waiting = of_part.get().len();
            if let Some(known) = finals(part) {
                batch.settled.push((known, of_part.remove()));
                self.len -= waiting;
                continue;
            }
            let (grabbers, askers) = users(of_part.get_mut(), room);
            self.len -= waiting - of_part.get().len();
            room -= grabbers.len();
            batch.asks.push((part, grabbers));
            batch.askers.push(askers);
            if of_part.get().is_empty() {
                of_part.remove();
            } else {
                self.order.push_back(part);
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

/// Takes up to `room` users, at least one, from the front of those who wait for a part, each with those who wait for his
/// answer. It looks at no more of the queue than that: in a rush it is long.
fn users(queue: &mut VecDeque<Waiting>, room: usize) -> (Vec<Grabber>, Vec<Askers>) {
    let most = room.min(queue.len());
    let (mut grabbers, mut askers) = (Vec::<Grabber>::with_capacity(most), Vec::<Askers>::with_capacity(most));
    let mut places = HashMap::<UserId, usize, RandomState>::with_capacity_and_hasher(most, RandomState::default());
    let mut others = Vec::new();
    while grabbers.len() + others.len() < room {
        let Some(Waiting { grabber, answer }) = queue.pop_front() else { break };
        match places.get(&grabber.user) {
            Some(&place) if grabbers[place] == grabber => askers[place].push(answer),
            // The same user with another passphrase is another question.
            Some(_) => others.push(Waiting { grabber, answer }),
            None => {
                places.insert(grabber.user.clone(), grabbers.len());
                grabbers.push(grabber);
                askers.push(vec![answer]);
            }
        }
    }
    for waiting in others.into_iter().rev() {
        queue.push_front(waiting);
    }
    (grabbers, askers)
}

/// Answers a batch. That the hot store could not be asked is told to all of it, and returned.
async fn serve<H: HotStore>(hot: &H, batch: Batch) -> Result<(), Failure> {
    for (known, waiting) in batch.settled {
        for waiting in waiting {
            let _ = waiting.answer.send(Ok(Told::Final(Arc::clone(&known))));
        }
    }
    if batch.asks.is_empty() {
        return Ok(());
    }
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
        Ok(Some(found)) => found.into_iter().map(|found| Ok(Told::Found(found))).collect(),
        Ok(None) => vec![Ok(Told::NotLoaded); askers.len()],
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

    const NONE_FINAL: fn(PartId) -> Option<Arc<FinalPart>> = |_| None;

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
            assert!(lane.join(part(packet), waiting(user, digest), &NONE_FINAL).is_none(), "it waits");
        }
        lane
    }

    fn shape(batch: &Batch) -> Vec<Vec<usize>> {
        batch.askers.iter().map(|users| users.iter().map(Vec::len).collect()).collect()
    }

    #[test]
    fn a_user_is_in_a_batch_once() {
        let mut lane = lane([(1, "a", None), (1, "b", None), (1, "a", None), (1, "a", Some(1))]);
        assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[2, 1]]);
        assert_eq!(lane.len, 1, "the same user with another passphrase waits for the next batch");
        assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[1]]);
        assert_eq!((lane.len, lane.waiting.len(), lane.order.len()), (0, 0, 0));
    }

    #[test]
    fn one_user_with_many_passphrases_holds_up_nobody_for_long() {
        let mut lane = Lane { calls: CALLS, ..Lane::default() };
        for n in 0..200 {
            assert!(lane.join(part(1), waiting("a", Some(n)), &NONE_FINAL).is_none());
        }
        assert!(lane.join(part(2), waiting("b", None), &NONE_FINAL).is_none());
        assert_eq!((shape(&lane.next_batch(&NONE_FINAL)), lane.len), (vec![vec![1], vec![1]], 199));
        for left in (0..199).rev() {
            assert_eq!((shape(&lane.next_batch(&NONE_FINAL)), lane.len), (vec![vec![1]], left));
        }
    }

    #[test]
    fn a_batch_has_each_part_once_with_its_own_users() {
        let batch = lane([(1, "a", None), (2, "a", None), (1, "b", None), (2, "a", None)]).next_batch(&NONE_FINAL);
        let asked: Vec<(PartId, usize)> = batch.asks.iter().map(|(part, users)| (*part, users.len())).collect();
        assert_eq!((asked, shape(&batch)), (vec![(part(1), 2), (part(2), 1)], vec![vec![1, 1], vec![2]]));
    }

    #[test]
    fn a_batch_is_bounded_and_what_is_left_comes_after_the_others() {
        let users: Vec<String> = (0..=BATCH).map(|n| format!("u{n}")).collect();
        let mut lane = Lane { calls: CALLS, ..Lane::default() };
        for user in &users {
            assert!(lane.join(part(1), waiting(user, None), &NONE_FINAL).is_none());
        }
        assert!(lane.join(part(2), waiting("a", None), &NONE_FINAL).is_none());
        assert_eq!((shape(&lane.next_batch(&NONE_FINAL)), lane.len), (vec![vec![1; BATCH]], 2));
        let last = lane.next_batch(&NONE_FINAL);
        assert_eq!(last.asks.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part(2), part(1)]);
        assert_eq!(lane.len, 0);
    }

    #[test]
    fn who_waits_for_a_part_that_is_final_is_in_no_call() {
        let known = Arc::new(FinalPart { expires_at: Timestamp::from_ms(1), owners: HashMap::new() });
        let finals = |asked| (asked == part(1)).then(|| Arc::clone(&known));
        let batch = lane([(1, "a", None), (2, "a", None), (1, "b", None)]).next_batch(&finals);
        assert_eq!((batch.asks.len(), batch.asks[0].0, shape(&batch)), (1, part(2), vec![vec![1]]));
        assert_eq!((batch.settled.len(), batch.settled[0].1.len()), (1, 2));
    }

    #[test]
    fn a_call_goes_at_once_where_none_is_under_way_and_else_when_enough_wait() {
        let mut lane = Lane::default();
        assert!(lane.join(part(1), waiting("first", None), &NONE_FINAL).is_some());
        for n in 1..WORTH_A_CALL {
            assert!(lane.join(part(1), waiting(&format!("u{n}"), None), &NONE_FINAL).is_none());
        }
        let second = lane.join(part(2), waiting("last", None), &NONE_FINAL).unwrap();
        assert_eq!((shape(&second).concat().len(), lane.calls), (WORTH_A_CALL, 2));
    }

    #[test]
    fn whoever_waits_has_a_call_that_will_take_him_along() {
        let mut lane = Lane::default();
        assert!(lane.join(part(1), waiting("a", None), &NONE_FINAL).is_some());
        assert!(lane.next_call(&NONE_FINAL).is_none());
        assert_eq!(lane.calls, 0, "nobody waited, so the next one must start a call of his own");
        lane.calls = 2;
        assert!(lane.join(part(1), waiting("b", None), &NONE_FINAL).is_none());
        assert!(lane.next_call(&NONE_FINAL).is_none(), "the other call takes him along");
        assert_eq!((lane.calls, lane.next_call(&NONE_FINAL).map(|batch| shape(&batch))), (1, Some(vec![vec![1]])));
    }
}
