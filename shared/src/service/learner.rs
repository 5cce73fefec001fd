use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;

use super::finals::Finals;
use super::hot_store::{HotStore, HotStoreError, Learned};
use crate::domain::{Fence, Hold, PartId};
use crate::lock;

/// The most that one call tells, so that nobody else's call waits long for it.
const AT_ONCE: usize = 64;

/// Tells the hot store what the ledger has decided of grabs.
///
/// What is decided of a part while a call for it is under way goes into the next one as a whole: winners of a rush share calls, as
/// those do who grab. There is no timer, and what comes alone is told at once. What can't be told is left to settle: the ledger
/// has it.
pub struct Learner<H> {
    hot: Arc<H>,
    finals: Arc<Finals<H>>,
    queues: Mutex<Queues>,
}

/// What the ledger has decided.
#[derive(Debug)]
struct News {
    facts: Vec<Fence>,
    decided: Hold,
    /// Hears when the hot store was told, or could not be.
    asked: oneshot::Sender<()>,
}

/// The parts that a call is under way for, and what waits for the next.
#[derive(Debug, Default)]
struct Queues(HashMap<PartId, Vec<News>>);

impl Queues {
    /// Adds what was decided of a part. Returns it if there is no call under way that it could wait for.
    fn join(&mut self, part: PartId, news: News) -> Option<News> {
        match self.0.entry(part) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push(news);
                None
            }
            Entry::Vacant(nobody) => {
                nobody.insert(Vec::new());
                Some(news)
            }
        }
    }

    /// What goes into a part's next call, of which there are none any more if that is nothing.
    fn next(&mut self, part: PartId) -> Vec<News> {
        let Entry::Occupied(mut waiting) = self.0.entry(part) else { return Vec::new() };
        if waiting.get().is_empty() {
            waiting.remove();
            return Vec::new();
        }
        let most = waiting.get().len().min(AT_ONCE);
        waiting.get_mut().drain(..most).collect()
    }
}

impl<H: HotStore> Learner<H> {
    /// In front of `hot`; whoever waits for a part among `finals` hears of it when it is told all.
    pub fn new(hot: Arc<H>, finals: Arc<Finals<H>>) -> Self {
        Self { hot, finals, queues: Mutex::default() }
    }

    /// Tells `part` of a packet of `count` slips what the ledger says, and which hold that decides. It is told whether or not the
    /// result is awaited, which ends when that is done or has failed.
    pub fn tell(
        self: &Arc<Self>,
        part: PartId,
        count: u32,
        facts: Vec<Fence>,
        decided: Hold,
    ) -> impl Future<Output = ()> {
        let (asked, told) = oneshot::channel();
        let first = lock(&self.queues).join(part, News { facts, decided, asked });
        if let Some(first) = first {
            let learner = Arc::clone(self);
            // A task of its own: the caller who started it may be dropped, those who joined it must not.
            tokio::spawn(async move { learner.drain(part, count, first).await });
        }
        // A call that was lost in a panic has told nothing either, and is over.
        async { told.await.unwrap_or_default() }
    }

    /// Makes a part's calls one after the other, as long as there is something to tell.
    async fn drain(&self, part: PartId, count: u32, first: News) {
        // If a call is lost in a panic, those who wait for the next hear of it, and whoever comes after them begins anew.
        let lost = guard(&self.queues, |queues| {
            lock(queues).0.remove(&part);
        });
        let mut batch = vec![first];
        while !batch.is_empty() {
            let (mut facts, mut decided, mut asked) = (Vec::new(), Vec::new(), Vec::new());
            for news in batch {
                facts.extend(news.facts);
                decided.push(news.decided);
                asked.push(news.asked);
            }
            let learned = self.hot.learn(part, count, &facts, &decided).await;
            crash_point!("grab.after_learn");
            batch = lock(&self.queues).next(part);
            if matches!(learned, Err(HotStoreError::Unavailable(_))) {
                // It would not hear of these either, but later.
                while !batch.is_empty() {
                    asked.extend(batch.into_iter().map(|news| news.asked));
                    batch = lock(&self.queues).next(part);
                }
            }
            match learned {
                Ok(Learned::Final) => self.finals.is_final_now(part),
                Ok(Learned::Loaded | Learned::NotLoaded) => {}
                Err(error) => {
                    let (claims, error) = (asked.len(), crate::error_chain(&error));
                    tracing::warn!(%part, claims, error, "the hot store was not told of claims");
                }
            }
            for asked in asked {
                // Nobody may be waiting.
                let _ = asked.send(());
            }
        }
        // The last look at the queue has ended it.
        ScopeGuard::into_inner(lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Terms, Timestamp};

    fn part(index: u32) -> PartId {
        PartId { packet: Terms::sample().id, index }
    }

    fn news(slip: u32) -> News {
        let decided = Hold { slip, user: "ann".parse().unwrap(), at: Timestamp::from_ms(1) };
        News { facts: Vec::new(), decided, asked: oneshot::channel().0 }
    }

    fn slips(news: &[News]) -> Vec<u32> {
        news.iter().map(|news| news.decided.slip).collect()
    }

    #[test]
    fn what_comes_while_a_parts_call_is_under_way_goes_into_its_next() {
        let mut queues = Queues::default();
        assert!(queues.join(part(0), news(0)).is_some(), "nothing is under way");
        for slip in [1, 2] {
            assert!(queues.join(part(0), news(slip)).is_none());
        }
        assert!(queues.join(part(1), news(9)).is_some(), "another part has calls of its own");
        assert_eq!(slips(&queues.next(part(0))), [1, 2]);
        assert!(queues.join(part(0), news(3)).is_none());
        assert_eq!(slips(&queues.next(part(0))), [3]);
        for part in [part(0), part(1)] {
            assert!(queues.next(part).is_empty());
        }
        assert!(queues.0.is_empty(), "no call is under way");
        assert!(queues.join(part(0), news(4)).is_some());
    }

    #[test]
    fn a_call_takes_so_much_and_the_next_takes_the_rest() {
        let mut queues = Queues::default();
        for slip in 0..=100 {
            assert_eq!(queues.join(part(0), news(slip)).is_some(), slip == 0);
        }
        let all: Vec<u32> = (1..=100).collect();
        assert_eq!(slips(&queues.next(part(0))), all[..AT_ONCE]);
        assert_eq!(slips(&queues.next(part(0))), all[AT_ONCE..]);
    }
}
