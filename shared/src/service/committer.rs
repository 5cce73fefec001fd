use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::HashMap;
use futures::future::join_all;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Failure;
use crate::domain::{Claim, PacketId, Terms, UserId};
use crate::dynamo::{CLAIMS_MAX, ClaimOutcome, Ledger, Table};
use crate::lock;

/// The most transactions of a packet's claims that are under way at once. Who comes then waits for one of them to end, with others
/// who do: each transaction is work for the process and a round trip, however few claims are in it.
const CALLS: usize = 8;

/// How long a caller waits: longer than a transaction is tried. His claim stays where it is and is brought to the ledger all the same;
/// when he asks again he shares what comes of it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Brings claims to the ledger: each at once while little is under way for its packet, else with others that wait. No timer. Who asks
/// for the same claim as somebody else, as a user with two devices does, shares what comes of it.
pub struct Committer<T> {
    ledger: Arc<Ledger<T>>,
    queues: Mutex<Queues>,
    calls: usize,
}

type Answer = Result<ClaimOutcome, Failure>;

/// A claim, and whose it is to be.
type Wanted = (UserId, Claim);

/// The packets that transactions are under way for.
#[derive(Default)]
struct Queues(HashMap<PacketId, Queue>);

#[derive(Default)]
struct Queue {
    calls: usize,
    /// Who wants to know what becomes of a claim: of all that wait and of all that are in a transaction.
    askers: HashMap<Wanted, Vec<oneshot::Sender<Answer>>>,
    waiting: VecDeque<Wanted>,
}

impl Queues {
    /// Adds a claim. Returns it if it makes a transaction of its own, of which there are up to `calls`.
    fn join(
        &mut self,
        packet: PacketId,
        wanted: Wanted,
        asker: oneshot::Sender<Answer>,
        calls: usize,
    ) -> Option<Wanted> {
        let queue = self.0.entry(packet).or_default();
        match queue.askers.entry(wanted.clone()) {
            Entry::Occupied(mut askers) => {
                askers.get_mut().push(asker);
                return None;
            }
            Entry::Vacant(nobody) => nobody.insert(vec![asker]),
        };
        if queue.calls < calls {
            queue.calls += 1;
            return Some(wanted);
        }
        queue.waiting.push_back(wanted);
        None
    }

    /// Who asked for a claim, once it is known what became of it.
    fn askers(&mut self, packet: PacketId, wanted: &Wanted) -> Vec<oneshot::Sender<Answer>> {
        self.0.get_mut(&packet).and_then(|queue| queue.askers.remove(wanted)).unwrap_or_default()
    }

    /// The claims of a packet's next transaction, once one has ended; none if nobody waits.
    fn next(&mut self, packet: PacketId) -> Vec<Wanted> {
        let Entry::Occupied(mut entry) = self.0.entry(packet) else { return Vec::new() };
        let queue = entry.get_mut();
        let most = queue.waiting.len().min(CLAIMS_MAX);
        let next: Vec<Wanted> = queue.waiting.drain(..most).collect();
        if next.is_empty() {
            queue.calls -= 1;
            if queue.calls == 0 {
                entry.remove();
            }
        }
        next
    }
}

impl<T: Table> Committer<T> {
    /// In front of `ledger`.
    pub fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self { ledger, queues: Mutex::default(), calls: CALLS }
    }

    /// With another number of transactions of a packet at once.
    pub fn with_calls(self, calls: usize) -> Self {
        Self { calls, ..self }
    }

    /// Gives `claim` to `user`, as [`Ledger::claim`] does.
    pub async fn claim(self: &Arc<Self>, terms: &Arc<Terms>, user: UserId, claim: Claim) -> Answer {
        let (asker, answered) = oneshot::channel();
        let first = lock(&self.queues).join(terms.id, (user, claim), asker, self.calls);
        if let Some(first) = first {
            let (committer, terms) = (Arc::clone(self), Arc::clone(terms));
            // A task of its own: the caller who started it may be dropped, those who join it must not.
            tokio::spawn(async move { committer.drain(&terms, first).await });
        }
        let Ok(answer) = timeout(WAIT_MAX, answered).await else {
            return Err(Failure::unavailable("the ledger has too much to do to take this claim soon"));
        };
        answer.unwrap_or_else(|_| Err(Failure::unavailable("the transaction of this claim was lost")))
    }

    /// Makes transactions of a packet's claims one after the other, as long as somebody waits.
    async fn drain(&self, terms: &Terms, first: Wanted) {
        // If a transaction is lost in a panic, all who ask for the packet's claims hear of it, and the next one starts anew.
        let lost = guard(&self.queues, |queues| {
            lock(queues).0.remove(&terms.id);
        });
        let mut claims = vec![first];
        while !claims.is_empty() {
            if claims.len() > 1 && self.ledger.claim_together(terms, &claims).await {
                for wanted in &claims {
                    self.tell(terms.id, wanted, Ok(ClaimOutcome::Committed));
                }
            } else {
                let each = claims.iter().map(async |wanted| {
                    let (user, claim) = wanted;
                    let outcome = self.ledger.claim(terms, user, claim).await;
                    // At once: others of them may take seconds.
                    self.tell(terms.id, wanted, outcome.map_err(Failure::from));
                });
                join_all(each).await;
            }
            claims = lock(&self.queues).next(terms.id);
        }
        // The last look at the queue has ended it.
        ScopeGuard::into_inner(lost);
    }

    fn tell(&self, packet: PacketId, wanted: &Wanted, outcome: Answer) {
        let askers = lock(&self.queues).askers(packet, wanted);
        tell(askers, outcome, &wanted.1);
    }
}

/// Answers all who asked for a claim. It is news to the first of them; the others hear what a second transaction would have found.
fn tell(askers: Vec<oneshot::Sender<Answer>>, outcome: Answer, claim: &Claim) {
    let again = match &outcome {
        Ok(ClaimOutcome::Committed) => Ok(ClaimOutcome::Already { claim: claim.clone(), foreign: None }),
        other => other.clone(),
    };
    for (asker, outcome) in askers.into_iter().zip(std::iter::once(outcome).chain(std::iter::repeat(again))) {
        // Who is gone needs no answer: the claim stands.
        let _ = asker.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::domain::{Amount, Timestamp};
    use crate::dynamo::{Item, Key, Query, TableError, TransactError, Write};
    use crate::service::System;

    fn claim(slip: u32) -> Claim {
        Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) }
    }

    fn of(slip: u32) -> Wanted {
        (format!("u{slip}").parse().unwrap(), claim(slip))
    }

    fn join(queues: &mut Queues, wanted: Wanted) -> Option<Wanted> {
        queues.join(Terms::sample().id, wanted, oneshot::channel().0, 2)
    }

    #[test]
    fn who_comes_to_few_goes_alone_and_who_comes_to_many_goes_with_those_who_wait() {
        let (mut queues, packet) = (Queues::default(), Terms::sample().id);
        for slip in 0..2 {
            assert_eq!(join(&mut queues, of(slip)), Some(of(slip)));
        }
        let most = u32::try_from(CLAIMS_MAX).unwrap();
        for slip in 2..3 + most {
            assert_eq!(join(&mut queues, of(slip)), None);
        }
        // Of the same claims, one of them under way and one that waits.
        for slip in [0, 2] {
            assert_eq!(join(&mut queues, of(slip)), None);
        }
        let mut asked = |wanted| queues.askers(packet, &wanted).len();
        assert_eq!([0, 1, 2, 3, 3].map(|slip| asked(of(slip))), [2, 1, 2, 1, 0]);
        let all = |slips: Range<u32>| slips.map(of).collect::<Vec<_>>();
        assert_eq!(queues.next(packet), all(2..2 + most));
        assert_eq!(queues.next(packet), all(2 + most..3 + most));
        for left in [1, 0] {
            assert!(queues.next(packet).is_empty());
            assert_eq!(queues.0.get(&packet).map_or(0, |queue| queue.calls), left);
        }
        assert!(queues.0.is_empty());
    }

    #[tokio::test]
    async fn a_claim_is_news_to_one_of_those_who_ask_for_it() {
        let (first, first_heard) = oneshot::channel();
        let (second, second_heard) = oneshot::channel();
        tell(vec![first, second], Ok(ClaimOutcome::Committed), &claim(3));
        assert!(matches!(first_heard.await.unwrap(), Ok(ClaimOutcome::Committed)));
        let again = second_heard.await.unwrap().unwrap();
        assert!(matches!(again, ClaimOutcome::Already { claim: his, foreign: None } if his == claim(3)));
    }

    /// A table that makes whoever writes to it panic.
    struct Panics;

    impl Table for Panics {
        async fn get(&self, _: Key) -> Result<Option<Item>, TableError> {
            unreachable!()
        }

        async fn batch_get(&self, _: Vec<Key>) -> Result<Vec<Item>, TableError> {
            unreachable!()
        }

        async fn query(&self, _: Query) -> Result<Vec<Item>, TableError> {
            unreachable!()
        }

        async fn due(&self, _: u32, _: u64, _: Option<(Key, u64)>, _: u32) -> Result<Vec<Item>, TableError> {
            unreachable!()
        }

        async fn transact(&self, _: &[Write], _: &str) -> Result<(), TransactError> {
            panic!("this table panics")
        }
    }

    #[tokio::test]
    async fn who_waits_hears_of_a_transaction_that_was_lost_and_the_next_one_starts_anew() {
        let ledger = Arc::new(Ledger::new(Panics, Arc::new(System)));
        let (committer, terms) = (Arc::new(Committer::new(ledger).with_calls(1)), Arc::new(Terms::sample()));
        for _ in 0..2 {
            let waiting = (0..3).map(of).map(|(user, claim)| committer.claim(&terms, user, claim));
            for answer in join_all(waiting).await {
                assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
            }
            assert!(lock(&committer.queues).0.is_empty());
        }
    }
}
