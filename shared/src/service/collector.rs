use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use foldhash::{HashMap, HashMapExt};
use futures::FutureExt;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Failure;
use super::finals::Finals;
use super::hot_store::{Ask, FinalPart, Found, Grabber, HotStore, HotStoreError};
use crate::domain::{PartId, UserId};
use crate::lock;

/// The most users in one call: beyond this a call gains nothing, and keeps Redis busy for longer.
const BATCH: usize = 64;

/// The most calls of a lane that are under way at once: one is written and another read while a third is executed.
const CALLS: usize = 6;

/// So many who wait are worth another call beside those under way. Fewer would cost more in calls than they gain by not
/// waiting; were it a full batch, Redis would idle while a few requests go back and forth.
const WORTH_A_CALL: usize = 5;

/// So many who wait for a part that had nothing for somebody are worth reading who has its slips: one call for all of them.
/// It reads the whole part, however few ask, so that those whom one call of [`BATCH`] serves are better off with that.
const CROWD: usize = BATCH;

/// Collects the grabs of a lane that arrive while a call for it is under way into the next call, whichever packets they are
/// of. No timer: a grab that comes alone goes at once, and another call beside those under way goes once enough wait for it.
///
/// Who waits for a part that turns out to be final needs no call, and a crowd that waits for one that turns out to have
/// nothing left needs one.
pub struct Collector<H> {
    hot: Arc<H>,
    finals: Arc<Finals<H>>,
    lanes: Lanes,
    crowd: usize,
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
type Lanes = Mutex<HashMap<u32, Lane>>;

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
    /// Instead of those: all who wait for a part that seems to have nothing left.
    crowd: Option<Crowd>,
    /// Those who waited for parts that are final by now.
    settled: Vec<(Arc<FinalPart>, VecDeque<Waiting>)>,
}

/// A part, and those who wait for it.
type Crowd = (PartId, VecDeque<Waiting>);

/// What a call has shown of its lane.
#[derive(Default)]
struct Served {
    /// The hot store does not answer.
    failure: Option<Failure>,
    /// The parts that had nothing for somebody.
    had_nothing: Vec<PartId>,
    /// The crowd whose users have to ask one by one after all.
    one_by_one: Option<Crowd>,
}

/// Those who wait while calls for their lane are under way: by part, because the more users a part has in a call, the less
/// each costs.
struct Lane {
    calls: usize,
    waiting: HashMap<PartId, Queue>,
    /// The parts that somebody waits for, the next one first.
    order: VecDeque<PartId>,
    len: usize,
    /// From how many on those who wait for a part are a crowd.
    crowd: usize,
}

/// Those who wait for a part.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    reading: Reading,
}

/// Whether one reading of a part answers all who wait for it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Reading {
    /// Nobody of those who asked for it lately got nothing.
    #[default]
    TooEarly,
    /// It may.
    Due,
    /// It did not: each has to ask.
    Vain,
}

impl<H: HotStore> Collector<H> {
    /// In front of `hot`, for parts that are not among `finals`.
    pub fn new(hot: Arc<H>, finals: Arc<Finals<H>>) -> Self {
        Self { hot, finals, lanes: Lanes::default(), crowd: CROWD }
    }

    /// With another number of users that makes a crowd.
    pub fn with_crowds_of(self, crowd: usize) -> Self {
        Self { crowd, ..self }
    }

    /// What `part` has for `grabber`. He is in the queue once this returns: what is left is to wait, in little room.
    pub fn grab(self: &Arc<Self>, part: PartId, grabber: Grabber) -> impl Future<Output = Answer> + use<H> {
        let (answer, answered) = oneshot::channel();
        let id = self.hot.lane(part.partition());
        let batch = self.lane(&mut lock(&self.lanes), id).join(part, Waiting { grabber, answer }, &self.known());
        if let Some(batch) = batch {
            let collector = Arc::clone(self);
            // A task of its own: the caller who started it may be dropped, those who joined it must not.
            tokio::spawn(async move { collector.drain(id, batch).await });
        }
        answered.map(|answer| {
            answer.unwrap_or_else(|_| Err(Failure::unavailable("the call that this grab had joined was lost")))
        })
    }

    /// Makes a lane's calls one after the other, as long as there is something to ask.
    async fn drain(&self, id: u32, mut batch: Batch) {
        // If a call is lost in a panic: with its last call a lane is gone; those who wait then hear of it, and the next one starts anew.
        let lost = guard(&self.lanes, |lanes| {
            let mut all = lock(lanes);
            let is_last = all.get_mut(&id).is_some_and(|lane| {
                lane.calls = lane.calls.saturating_sub(1);
                lane.calls == 0
            });
            if is_last {
                all.remove(&id);
            }
        });
        loop {
            let served = serve(&*self.hot, &self.finals, batch).await;
            let mut all = lock(&self.lanes);
            let lane = self.lane(&mut all, id);
            lane.heed(served);
            // Under one lock with what ends the call: whoever comes in between would wait for it for ever.
            let Some(next) = lane.next_call(&self.known()) else {
                if lane.calls == 0 {
                    all.remove(&id);
                }
                ScopeGuard::into_inner(lost);
                return;
            };
            batch = next;
        }
    }

    fn lane<'a>(&self, all: &'a mut HashMap<u32, Lane>, id: u32) -> &'a mut Lane {
        all.entry(id).or_insert_with(|| Lane::new(self.crowd))
    }

    fn known(&self) -> impl Fn(PartId) -> Option<Arc<FinalPart>> {
        |part| self.finals.get(part)
    }
}

/// What is known of a part that is final.
type Lookup<'a> = dyn Fn(PartId) -> Option<Arc<FinalPart>> + 'a;

impl Lane {
    fn new(crowd: usize) -> Self {
        Self { calls: 0, waiting: HashMap::default(), order: VecDeque::new(), len: 0, crowd }
    }

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
        if of_part.waiting.is_empty() {
            self.order.push_back(part);
        }
        of_part.waiting.push_back(waiting);
        self.len += 1;
    }

    /// Takes in what a call has shown.
    fn heed(&mut self, served: Served) {
        if let Some((part, mut first)) = served.one_by_one {
            self.len += first.len();
            let of_part = self.waiting.entry(part).or_default();
            if of_part.waiting.is_empty() {
                self.order.push_back(part);
            }
            first.append(&mut of_part.waiting);
            *of_part = Queue { waiting: first, reading: Reading::Vain };
        }
        for part in served.had_nothing {
            if let Some(of_part) = self.waiting.get_mut(&part).filter(|of_part| of_part.reading == Reading::TooEarly) {
                of_part.reading = Reading::Due;
            }
        }
        if let Some(failure) = served.failure {
            // Whoever waits would hear the same, but later than he asked.
            for waiting in self.take_all() {
                let _ = waiting.answer.send(Err(failure.clone()));
            }
        }
    }

    /// Up to [`BATCH`] users, each once a part with all of his equal requests; what is left over of a part comes again
    /// after the others. Or all who wait for one part, if they are a crowd and it may be read.
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
            let waiting = of_part.get().waiting.len();
            if let Some(known) = finals(part) {
                batch.settled.push((known, of_part.remove().waiting));
                self.len -= waiting;
                continue;
            }
            if of_part.get().reading == Reading::Due && waiting >= self.crowd {
                if batch.asks.is_empty() {
                    batch.crowd = Some((part, of_part.remove().waiting));
                    self.len -= waiting;
                } else {
                    self.order.push_front(part);
                }
                break;
            }
            let (grabbers, askers) = users(&mut of_part.get_mut().waiting, room);
            self.len -= waiting - of_part.get().waiting.len();
            room -= grabbers.len();
            batch.asks.push((part, grabbers));
            batch.askers.push(askers);
            if of_part.get().waiting.is_empty() {
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
        std::mem::take(&mut self.waiting).into_values().flat_map(|of_part| of_part.waiting)
    }
}

/// Takes up to `room` users, at least one, from the front of those who wait for a part, each with those who wait for his
/// answer. It looks at no more of the queue than that: in a rush it is long.
fn users(queue: &mut VecDeque<Waiting>, room: usize) -> (Vec<Grabber>, Vec<Askers>) {
    let most = room.min(queue.len());
    let (mut grabbers, mut askers) = (Vec::<Grabber>::with_capacity(most), Vec::<Askers>::with_capacity(most));
    let mut places = HashMap::<UserId, usize>::with_capacity(most);
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

/// Answers a batch. That the hot store could not be asked is told to all of it.
async fn serve<H: HotStore>(hot: &H, finals: &Finals<H>, batch: Batch) -> Served {
    for (known, waiting) in batch.settled {
        for waiting in waiting {
            let _ = waiting.answer.send(Ok(Told::Final(Arc::clone(&known))));
        }
    }
    if let Some(crowd) = batch.crowd {
        return serve_crowd(hot, finals, crowd).await;
    }
    if batch.asks.is_empty() {
        return Served::default();
    }
    crash_point!("grab.before_script");
    let result = hot.grab_each(&batch.asks).await;
    crash_point!("grab.after_script");
    let mut served = Served::default();
    match result {
        Ok(found) => {
            for (((part, _), askers), found) in batch.asks.into_iter().zip(batch.askers).zip(found) {
                if found.iter().flatten().any(|found| matches!(found, Found::Nothing { .. })) {
                    served.had_nothing.push(part);
                }
                tell(askers, Ok(found));
            }
        }
        // One part whose keys are spoilt must not stand in the way of the others: each by itself. They may be asked twice.
        Err(HotStoreError::Impossible(_)) if batch.asks.len() > 1 => {
            for ((part, grabbers), askers) in batch.asks.into_iter().zip(batch.askers) {
                tell(askers, hot.grab(part, &grabbers).await.map_err(Failure::from));
            }
        }
        Err(error) => {
            // What is wrong with one part says nothing of the lane's others, which may wait for the next call.
            let concerns_all = matches!(error, HotStoreError::Unavailable(_));
            let failure = Failure::from(error);
            for askers in batch.askers {
                tell(askers, Err(failure.clone()));
            }
            served.failure = concerns_all.then_some(failure);
        }
    }
    served
}

/// Answers all who wait for a part that seems to have nothing left. They were there before it is read, so that it is what a
/// grab of their own might have found.
async fn serve_crowd<H: HotStore>(hot: &H, finals: &Finals<H>, (part, waiting): Crowd) -> Served {
    let mut served = Served::default();
    let asked = Instant::now();
    match hot.rest(part).await {
        Ok(Some(rest)) => {
            // First, so that who comes from now on need not wait behind all of these.
            let rest = Arc::new(rest);
            finals.was_read(part, asked, Arc::clone(&rest));
            for Waiting { grabber, answer } in waiting {
                let _ = answer.send(Ok(Told::Found(rest.of(&grabber.user))));
            }
            // Those who have come meanwhile may be a crowd again.
            served.had_nothing.push(part);
        }
        // What is spoilt in it the grabs tell those whom it concerns.
        Ok(None) | Err(HotStoreError::Impossible(_)) => served.one_by_one = Some((part, waiting)),
        Err(error @ HotStoreError::Unavailable(_)) => {
            let failure = Failure::from(error);
            for waiting in waiting {
                let _ = waiting.answer.send(Err(failure.clone()));
            }
            served.failure = Some(failure);
        }
    }
    served
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

#[cfg(test)]
mod tests;
