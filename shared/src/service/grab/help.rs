use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tokio::time::{Instant, timeout, timeout_at};

use super::commit::Committer;
use super::exhausted::ExhaustedParts;
use crate::batching::{Cache, SingleFlight, cache};
use crate::domain::{Claim, Decision, Hold, PartId, Terms, Timestamp};
use crate::ledger::LedgerError;
use crate::ports::{Doubt, Help, HotStore, Reconciled, Table, TableError};
use crate::service::{Failure, Stores};

/// How long losers wait for others' holds before their process helps. It is also the least age of a hold that is helped: a commit
/// takes milliseconds, so an older hold was probably left behind.
pub const HELP_AFTER: Duration = Duration::from_millis(100);
/// The most holds that one help lease is for.
const HOLDS_MAX: usize = 10;
/// How long the transactions of a help are tried.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(400);
/// How long a read may take that tells whether the ledger answers at all.
const READ_TIMEOUT: Duration = Duration::from_millis(200);
/// The help lease: longer than a help takes. A process that died delays everybody until its lease is over.
const LEASE: Duration = Duration::from_secs(1);

/// A hold of this age is blocked if it can't be committed. A younger one may only be slow: its transaction is still open.
const SLOW_MAX: Duration = Duration::from_secs(2);
/// How long a blocked hold keeps nobody waiting, before a process tries it again.
const BLOCKED_TTL: Duration = Duration::from_secs(10);
/// How long nobody helps after the ledger did not answer.
const UNAVAILABLE_TTL: Duration = Duration::from_secs(1);
/// How long one request waits for a part: long enough for a slow hold, and for the lease of a process that died.
const DOUBT_TIMEOUT: Duration = Duration::from_secs(3);

const REMEMBERED_PARTS_MAX: u64 = 10_000;

/// Whether the doubt about a part is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// It is: a probe has another answer by now.
    Yes,
    /// A blocked hold remains, which may take as long as it likes. The ledger knows whether the user has a claim.
    Blocked,
}

/// Ends the doubt of losers. The part that they probed has no free slip, but holds whose decision is not known. The process waits
/// for a moment. Then it helps: it commits these holds as settle would, and reconciles the part.
///
/// That is the helping of lock-free algorithms (M. Herlihy, *Wait-free synchronization*, ACM TOPLAS 13, 1991). A process that meets
/// an unfinished operation finishes it, however slow or dead its owner is. Two helpers do no harm: a hold carries
/// slip, user and time, so every helper sends the same transaction.
pub struct Helper<T: Table, H> {
    stores: Stores<T, H>,
    exhausted: Arc<ExhaustedParts<H>>,
    committer: Arc<Committer<T>>,
    flights: SingleFlight<PartId, Result<(), Failure>>,
    /// The parts where help was in vain, each with the time until which that counts.
    in_vain: Cache<PartId, (Instant, Doubt)>,
}

/// What became of a hold that was helped.
enum Helped {
    /// The ledger has decided. These are the decisions that it has shown.
    Decided(Vec<Decision>),
    /// The ledger does not take this claim.
    Refused,
    /// Each attempt failed. Either the ledger does not take this claim, or it is unavailable.
    Failed,
    /// Its transaction, or another one on the same items, is still open.
    Open,
    /// This process asks too much of the ledger.
    Overloaded,
}

/// What is left to do for a part after a help.
#[derive(Clone, Copy, Debug)]
enum After {
    /// The part is final.
    Final,
    /// It may need another help, after this pause.
    TryAgain(Duration),
    /// Slips remain undecided.
    InVain(Doubt),
}

impl<T: Table, H: HotStore> Helper<T, H> {
    /// A helper for `stores`. It reads parts that are final into `exhausted`. The process' own claims go through `committer`.
    pub fn new(stores: Stores<T, H>, exhausted: Arc<ExhaustedParts<H>>, committer: Arc<Committer<T>>) -> Self {
        let in_vain = cache(REMEMBERED_PARTS_MAX, 1, |_| 1);
        Self { stores, exhausted, committer, flights: SingleFlight::default(), in_vain }
    }

    /// Ends the doubt about these parts of a packet, all at the same time. All who wait for a part share the work.
    ///
    /// # Errors
    /// A store does not answer, or a hold stays open for too long.
    pub async fn end_doubt(self: &Arc<Self>, parts: impl Iterator<Item = PartId>) -> Result<Ended, Failure> {
        let ended = try_join_all(parts.map(|part| self.end_doubt_of(part))).await?;
        Ok(if ended.contains(&Ended::Blocked) { Ended::Blocked } else { Ended::Yes })
    }

    async fn end_doubt_of(self: &Arc<Self>, part: PartId) -> Result<Ended, Failure> {
        match self.in_vain.get(&part) {
            Some((until, Doubt::Blocked)) if Instant::now() < until => Ok(Ended::Blocked),
            Some((until, Doubt::Unavailable)) if Instant::now() < until => Err(unavailable()),
            _ => {
                let this = Arc::clone(self);
                let work = move || async move { this.help_until_known(part).await };
                let panicked = || Err(Failure::defect("helping a part panicked"));
                self.flights.run(part, work).await.unwrap_or_else(panicked).map(|()| Ended::Yes)
            }
        }
    }

    /// Waits and helps until the part is final, or help was in vain. The waiting users probe again after that, because a slip
    /// may have become free.
    async fn help_until_known(&self, part: PartId) -> Result<(), Failure> {
        let give_up = Instant::now() + DOUBT_TIMEOUT;
        let mut wait = HELP_AFTER;
        while Instant::now() < give_up {
            if self.exhausted.wait_until_final(part, wait).await? {
                return Ok(());
            }
            wait = match self.stores.hot.help(part, HELP_AFTER, HOLDS_MAX, LEASE).await? {
                Help::ProbeAgain => return Ok(()),
                Help::Wait(left) => left.min(HELP_AFTER),
                Help::InVain(doubt, left) => return self.remember(part, doubt, left),
                Help::Acquired { holds, now } => {
                    crash_point!("help.after_lease");
                    let after = self.help(part, &holds, now).await;
                    self.release(part, &after).await;
                    match after? {
                        After::Final => Duration::ZERO,
                        After::TryAgain(pause) => pause,
                        After::InVain(doubt) => return self.remember(part, doubt, ttl(doubt)),
                    }
                }
            };
        }
        Err(Failure::unavailable("holds of other users are still open"))
    }

    /// Ends a help lease. It ends by itself too, so if the hot store can't be reached, others wait a moment longer.
    async fn release(&self, part: PartId, after: &Result<After, Failure>) {
        let doubt = match after {
            // Nobody asks for the lease of a final part.
            Ok(After::Final) => return,
            Ok(After::InVain(doubt)) => Some((*doubt, ttl(*doubt))),
            Ok(After::TryAgain(_)) | Err(_) => None,
        };
        if let Err(error) = self.stores.hot.end_help(part, doubt).await {
            tracing::warn!(%part, error = crate::error_chain(&error), "a help lease was left to run out");
        }
    }

    fn remember(&self, part: PartId, doubt: Doubt, left: Duration) -> Result<(), Failure> {
        self.in_vain.insert(part, (Instant::now() + left, doubt));
        if doubt == Doubt::Unavailable { Err(unavailable()) } else { Ok(()) }
    }

    /// Commits holds of a part, and reconciles it. `now` is the hot store's time.
    async fn help(&self, part: PartId, holds: &[Hold], now: Timestamp) -> Result<After, Failure> {
        self.stores.meter.helped();
        let begun = Instant::now();
        let give_up = begun + CLAIM_TIMEOUT;
        let terms = match timeout_at(give_up, self.stores.packets.terms(part.packet)).await {
            Ok(Ok(Some(terms))) => terms,
            // Settle parks the holds of a packet that does not exist.
            Ok(Ok(None)) => return Ok(After::InVain(Doubt::Blocked)),
            Ok(Err(Failure::Unavailable(_))) | Err(_) => return Ok(After::InVain(Doubt::Unavailable)),
            Ok(Err(defect)) => return Err(defect),
        };
        let helped = join_all(holds.iter().map(|hold| self.commit(part, &terms, hold, give_up))).await;
        crash_point!("help.after_claim");
        let (mut decisions, mut open, mut blocked) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let (mut is_refused, mut is_silent) = (false, false);
        for (hold, helped) in holds.iter().zip(helped) {
            match helped {
                Helped::Decided(found) => decisions.extend(found),
                Helped::Open if now.since(hold.at) + begun.elapsed() < SLOW_MAX => drop(open.insert(hold.slip)),
                Helped::Open | Helped::Failed => drop(blocked.insert(hold.slip)),
                Helped::Refused => is_refused = true,
                Helped::Overloaded => is_silent = true,
            }
        }
        if holds.is_empty() {
            // Either all holds are parked, or the hot store has lost holds or decisions.
            blocked.extend(part.slips(terms.count));
        }
        if !(open.is_empty() && blocked.is_empty()) {
            // This also shows whether the ledger answers at all.
            let read = self.stores.ledger.decisions(part.packet, open.union(&blocked).copied());
            match timeout(READ_TIMEOUT, read).await {
                Ok(Ok(read)) => {
                    let decided = read.iter().map(|decision| decision.slip).collect();
                    (open, blocked) = (&open - &decided, &blocked - &decided);
                    decisions.extend(read);
                }
                Ok(Err(_)) | Err(_) => is_silent = true,
            }
        }
        crash_point!("help.before_reconcile");
        let is_final = !decisions.is_empty()
            && self.stores.hot.reconcile(part, terms.count, &decisions, holds).await? == Reconciled::Final;
        crash_point!("help.after_reconcile");
        Ok(if is_final {
            After::Final
        } else if is_silent {
            // While this process commits claims, the ledger is only busy: these holds will be committed soon.
            let is_busy = self.committer.has_committed_since(begun);
            if is_busy { After::TryAgain(HELP_AFTER) } else { After::InVain(Doubt::Unavailable) }
        } else if is_refused || !blocked.is_empty() {
            After::InVain(Doubt::Blocked)
        } else {
            After::TryAgain(if open.is_empty() { Duration::ZERO } else { HELP_AFTER })
        })
    }

    /// Brings a hold to the ledger, until `give_up`.
    async fn commit(&self, part: PartId, terms: &Terms, hold: &Hold, give_up: Instant) -> Helped {
        let amount = match timeout_at(give_up, self.stores.packets.amount(part, terms, hold.slip)).await {
            Ok(Ok(Some(amount))) => amount,
            // Settle parks the hold of a slip that does not exist.
            Ok(Ok(None)) => return Helped::Refused,
            Ok(Err(_)) | Err(_) => return Helped::Failed,
        };
        let claim = Claim { slip: hold.slip, amount, at: hold.at };
        match self.stores.ledger.claim_until(give_up, terms, &hold.user, &claim).await {
            Ok(outcome) => {
                tracing::info!(packet_id = %part.packet, slip = hold.slip, "a hold was helped");
                Helped::Decided(outcome.decisions(&hold.user, &claim))
            }
            Err(LedgerError::Unavailable(TableError::Pending(_))) => Helped::Open,
            Err(LedgerError::Unavailable(TableError::Overloaded(_))) => Helped::Overloaded,
            Err(error) => {
                let (packet_id, error_chain) = (part.packet, crate::error_chain(&error));
                tracing::warn!(%packet_id, %part, slip = hold.slip, error = error_chain, "a hold could not be helped");
                if matches!(error, LedgerError::Impossible(_)) { Helped::Refused } else { Helped::Failed }
            }
        }
    }
}

fn unavailable() -> Failure {
    Failure::unavailable("the ledger does not take the holds that this answer depends on")
}

const fn ttl(doubt: Doubt) -> Duration {
    match doubt {
        Doubt::Blocked => BLOCKED_TTL,
        Doubt::Unavailable => UNAVAILABLE_TTL,
    }
}

#[cfg(test)]
pub(super) mod tests;
