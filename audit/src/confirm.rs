//! When a suspected imbalance counts as one.
//!
//! The audit reads while money moves. Two rules prevent false alarms:
//!
//! 1. Each check reads in an order that shows no imbalance if every transaction happens at one moment. The items that a
//!    transaction writes are never deleted, and only wallets and a packet's state ever change. This gives three kinds
//!    of check:
//!    - A decision that was read requires the claim that is read after it.
//!    - A sum over many items (a packet's refunded decisions) lies between two reads of its counterpart (the refunds).
//!    - Where neither helps (a wallet), the check reports that its items were moving, and gives no verdict.
//! 2. `DynamoDB` executes a transaction at one moment only as seen by other transactions. A reader of single items may see
//!    its first write some moments before the last. So the audit reads a suspected imbalance again. Only an imbalance that
//!    is exactly the same several times in a row counts, over more time than a transaction can take.

use std::time::Duration;

use crate::report::{Figures, Imbalance, Report};
use crate::source::ReadError;

/// How often a suspected imbalance is read again, with which pauses.
#[derive(Clone, Debug)]
pub struct Rereads {
    /// The pause before each further check.
    pub pauses: Vec<Duration>,
    /// Further checks in a row that must find the same.
    pub confirmations: usize,
}

impl Default for Rereads {
    /// Three further checks over 7.5 seconds. `DynamoDB` takes milliseconds for a transaction, and completes or cancels
    /// an interrupted one within five seconds.
    fn default() -> Self {
        let pauses = [500, 2_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000];
        Self { pauses: pauses.map(Duration::from_millis).into(), confirmations: 3 }
    }
}

/// One check of a packet or a wallet.
#[derive(Debug, Default)]
pub struct Check {
    pub figures: Figures,
    pub imbalances: Vec<Imbalance>,
    /// Whether its items changed during the read, so that the result is unknown.
    pub moving: bool,
}

impl Check {
    fn is_clean(&self) -> bool {
        self.imbalances.is_empty() && !self.moving
    }
}

impl Rereads {
    /// Repeats a check until it finds nothing, confirms an imbalance, or the pauses are used up. `key` names the
    /// subject.
    pub async fn confirm<F>(&self, key: impl Fn() -> String, check: impl Fn() -> F) -> Result<Report, ReadError>
    where
        F: Future<Output = Result<Check, ReadError>>,
    {
        let mut last = check().await?;
        let mut confirmed = 0;
        let mut pauses = self.pauses.iter();
        loop {
            if last.is_clean() {
                return Ok(Report { figures: last.figures, ..Report::default() });
            }
            if confirmed >= self.confirmations && !last.moving {
                return Ok(Report { figures: last.figures, ..Report::wrong(last.imbalances) });
            }
            let Some(pause) = pauses.next() else {
                return Ok(Report { figures: last.figures, ..Report::unjudged(key()) });
            };
            tokio::time::sleep(*pause).await;
            let now = check().await?;
            let same = !now.moving && !last.moving && now.imbalances == last.imbalances;
            confirmed = if same { confirmed + 1 } else { 0 };
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::report::Kind;

    fn clean() -> Check {
        Check { figures: Figures { packets: 1, ..Figures::default() }, ..Check::default() }
    }

    fn wrong(found: &str) -> Check {
        Check { imbalances: vec![Imbalance::new(Kind::Wallet, "k", "1", found)], ..clean() }
    }

    fn moving() -> Check {
        Check { moving: true, ..clean() }
    }

    /// The report after these checks, where the last one repeats, and the number of checks.
    async fn confirmed(checks: &[fn() -> Check]) -> (Report, usize) {
        let rereads = Rereads { pauses: vec![Duration::ZERO; 6], confirmations: 2 };
        let count = Cell::new(0);
        let check = || {
            let shown = checks[count.get().min(checks.len() - 1)];
            count.set(count.get() + 1);
            async move { Ok(shown()) }
        };
        let report = rereads.confirm(|| "k".to_owned(), check).await.unwrap();
        (report, count.get())
    }

    #[tokio::test]
    async fn a_clean_check_counts_at_once_and_an_imbalance_when_it_stays() {
        assert_eq!(confirmed(&[clean]).await.1, 1);
        let (report, checks) = confirmed(&[|| wrong("2")]).await;
        assert_eq!((report.imbalance_count, report.figures.packets, checks), (1, 1, 3));
        let (report, checks) = confirmed(&[|| wrong("2"), || wrong("3"), || wrong("3"), clean]).await;
        assert_eq!((report.is_balanced(), checks), (true, 4));
    }

    #[tokio::test]
    async fn a_changing_imbalance_is_reported_as_unjudged() {
        let flapping: [fn() -> Check; 7] =
            [|| wrong("2"), || wrong("3"), || wrong("2"), || wrong("3"), || wrong("2"), || wrong("3"), || wrong("2")];
        for checks in [&flapping[..], &[moving], &[|| wrong("2"), moving, || wrong("2"), || wrong("2"), moving]] {
            let (report, count) = confirmed(checks).await;
            assert_eq!((report.imbalance_count, report.unjudged, count), (0, vec!["k".to_owned()], 7));
        }
    }
}
