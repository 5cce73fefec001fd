use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Failure;
use super::hot_store::{Found, Grabber, HotStore};
use crate::domain::{PartId, UserId};

/// The most users in one call: beyond this a call gains nothing, and keeps Redis busy for longer.
const BATCH: usize = 64;

/// Collects the grabs of a part that arrive while a call for it is under way into the next call. No timer: a grab that
/// comes alone goes at once.
pub struct Collector<H> {
    hot: Arc<H>,
    waiting: Arc<Mutex<HashMap<PartId, Vec<Waiting>>>>,
}

/// `None`: the part is not loaded.
type Answer = Result<Option<Found>, Failure>;

/// Users, each with those who wait for his answer.
type Batch = Vec<(Grabber, Vec<oneshot::Sender<Answer>>)>;

struct Waiting {
    grabber: Grabber,
    answer: oneshot::Sender<Answer>,
}

impl<H: HotStore> Collector<H> {
    /// In front of `hot`.
    pub fn new(hot: Arc<H>) -> Self {
        Self { hot, waiting: Arc::default() }
    }

    /// What `part` has for `grabber`.
    pub async fn grab(&self, part: PartId, grabber: Grabber) -> Answer {
        let (answer, answered) = oneshot::channel();
        let mine = Waiting { grabber, answer };
        {
            let mut waiting = lock(&self.waiting);
            if let Some(queue) = waiting.get_mut(&part) {
                queue.push(mine);
            } else {
                waiting.insert(part, Vec::new());
                // A task of its own: the caller who started it may be dropped, those who joined it must not.
                let (hot, waiting) = (Arc::clone(&self.hot), Arc::clone(&self.waiting));
                tokio::spawn(async move { drain(&*hot, &waiting, part, vec![mine]).await });
            }
        }
        answered.await.unwrap_or_else(|_| Err(Failure::unavailable("the call that this grab had joined was lost")))
    }
}

/// Serves a part's queue until it is empty. The entry in `waiting` says that somebody does.
async fn drain<H: HotStore>(
    hot: &H,
    waiting: &Mutex<HashMap<PartId, Vec<Waiting>>>,
    part: PartId,
    mut queue: Vec<Waiting>,
) {
    let served = Served { waiting, part };
    loop {
        let (batch, rest) = next_batch(queue);
        let failure = serve(hot, part, batch).await.err();
        let mut waiting = lock(waiting);
        queue = rest;
        queue.append(waiting.entry(part).or_default());
        if let Some(failure) = failure {
            // The hot store does not answer: whoever waits would hear the same, but later than he asked.
            for next in queue.drain(..) {
                let _ = next.answer.send(Err(failure.clone()));
            }
        }
        if queue.is_empty() {
            waiting.remove(&part);
            drop(waiting);
            std::mem::forget(served);
            return;
        }
    }
}

/// Removes the entry of a part whose server panicked: those who wait then hear of it, and the next one starts anew.
struct Served<'a> {
    waiting: &'a Mutex<HashMap<PartId, Vec<Waiting>>>,
    part: PartId,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        lock(self.waiting).remove(&self.part);
    }
}

/// Up to [`BATCH`] users, each once with all of his equal requests; and the rest.
fn next_batch(queue: Vec<Waiting>) -> (Batch, Vec<Waiting>) {
    let mut batch = Batch::new();
    let mut places: HashMap<UserId, usize> = HashMap::new();
    let mut rest = Vec::new();
    for next in queue {
        match places.get(&next.grabber.user) {
            Some(&place) => {
                let (grabber, answers) = &mut batch[place];
                // The same user with another passphrase is another question.
                if *grabber == next.grabber {
                    answers.push(next.answer);
                } else {
                    rest.push(next);
                }
            }
            None if batch.len() < BATCH => {
                places.insert(next.grabber.user.clone(), batch.len());
                batch.push((next.grabber, vec![next.answer]));
            }
            None => rest.push(next),
        }
    }
    (batch, rest)
}

/// Answers a batch. An error is told to all of it, and returned.
async fn serve<H: HotStore>(hot: &H, part: PartId, batch: Batch) -> Result<(), Failure> {
    let (grabbers, senders): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    crash_point!("grab.before_script");
    let result = hot.grab(part, &grabbers).await.map_err(Failure::from);
    crash_point!("grab.after_script");
    let answers: Vec<Answer> = match &result {
        Ok(Some(found)) => found.iter().map(|found| Ok(Some(found.clone()))).collect(),
        Ok(None) => vec![Ok(None); grabbers.len()],
        Err(failure) => vec![Err(failure.clone()); grabbers.len()],
    };
    for (senders, answer) in senders.into_iter().zip(answers) {
        for sender in senders {
            // A grabber who is gone needs no answer; what is held for him settle brings to the ledger.
            let _ = sender.send(answer.clone());
        }
    }
    result.map(drop)
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(user: &str, digest: Option<u8>) -> Waiting {
        let passphrase = digest.map(|byte| crate::domain::PassphraseDigest([byte; 32]));
        Waiting { grabber: Grabber { user: user.parse().unwrap(), passphrase }, answer: oneshot::channel().0 }
    }

    #[test]
    fn a_user_is_in_a_batch_once() {
        let queue = vec![waiting("a", None), waiting("b", None), waiting("a", None), waiting("a", Some(1))];
        let (batch, rest) = next_batch(queue);
        assert_eq!(batch.iter().map(|(_, answers)| answers.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(rest.len(), 1, "the same user with another passphrase waits for the next batch");
    }

    #[test]
    fn a_batch_is_bounded() {
        let queue = (0..=BATCH).map(|n| waiting(&format!("u{n}"), None)).collect();
        let (batch, rest) = next_batch(queue);
        assert_eq!((batch.len(), rest.len()), (BATCH, 1));
    }
}
