//! When something that looks wrong is called wrong.
//!
//! The audit reads while money moves. Two things keep it from crying wolf:
//!
//! 1. Each check reads in an order in which nothing can look wrong as long as every transaction is done at one moment.
//!    The items that a transaction writes are never deleted, and all but wallets and a packet's state never change. So
//!    what was read first (a decision) obliges what is read after it (its claim); a sum over many items (a packet's refunded
//!    decisions) lies between what its counterpart (the refunds) shows before and after; and where neither helps (a wallet),
//!    a check that finds its items moving says so instead of judging.
//! 2. `DynamoDB` does a transaction at one moment for other transactions, but a reader of single items may see the first of
//!    its writes some moments before the last. What looks wrong is therefore read again, and only what is wrong in the
//!    very same words several times in a row, over a time longer than a transaction can be under way, is wrong.

use std::time::Duration;

use crate::reader::ReadError;
use crate::report::{Figures, Imbalance, Report};

/// How often, and at which distance, what looks wrong is read again.
#[derive(Clone, Debug)]
pub struct Patience {
    /// The pause before each further look.
    pub pauses: Vec<Duration>,
    /// Further looks in a row that must show the same.
    pub confirmations: usize,
}

impl Default for Patience {
    /// Three further looks over 7.5 seconds: `DynamoDB` takes milliseconds for a transaction, and gives up one that was
    /// interrupted, or completes it, within five seconds.
    fn default() -> Self {
        let pauses = [500, 2_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000];
        Self { pauses: pauses.map(Duration::from_millis).into(), confirmations: 3 }
    }
}

/// One look at a packet or a wallet.
#[derive(Debug, Default)]
pub struct Look {
    pub figures: Figures,
    pub imbalances: Vec<Imbalance>,
    /// Its items moved while they were read: whether it is in order is not known.
    pub moving: bool,
}

impl Look {
    fn is_clean(&self) -> bool {
        self.imbalances.is_empty() && !self.moving
    }
}

impl Patience {
    /// Looks until it is clean, or wrong beyond doubt, or there were too many looks. `key` names what is looked at.
    pub async fn confirm<F>(&self, key: impl Fn() -> String, look: impl Fn() -> F) -> Result<Report, ReadError>
    where
        F: Future<Output = Result<Look, ReadError>>,
    {
        let mut last = look().await?;
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
                return Ok(Report { figures: last.figures, ..Report::undecided(key()) });
            };
            tokio::time::sleep(*pause).await;
            let now = look().await?;
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

    fn clean() -> Look {
        Look { figures: Figures { packets: 1, ..Figures::default() }, ..Look::default() }
    }

    fn wrong(found: &str) -> Look {
        Look { imbalances: vec![Imbalance::new(Kind::Wallet, "k", "1", found)], ..clean() }
    }

    fn moving() -> Look {
        Look { moving: true, ..clean() }
    }

    /// What comes of looks that show this, the last one again and again; and how many there were.
    async fn confirmed(looks: &[fn() -> Look]) -> (Report, usize) {
        let patience = Patience { pauses: vec![Duration::ZERO; 6], confirmations: 2 };
        let count = Cell::new(0);
        let look = || {
            let shown = looks[count.get().min(looks.len() - 1)];
            count.set(count.get() + 1);
            async move { Ok(shown()) }
        };
        let report = patience.confirm(|| "k".to_owned(), look).await.unwrap();
        (report, count.get())
    }

    #[tokio::test]
    async fn what_is_clean_is_believed_at_once_and_what_is_wrong_when_it_stays_so() {
        assert_eq!(confirmed(&[clean]).await.1, 1);
        let (report, looks) = confirmed(&[|| wrong("2")]).await;
        assert_eq!((report.imbalance_count, report.figures.packets, looks), (1, 1, 3));
        let (report, looks) = confirmed(&[|| wrong("2"), || wrong("3"), || wrong("3"), clean]).await;
        assert_eq!((report.is_balanced(), looks), (true, 4));
    }

    #[tokio::test]
    async fn another_wrong_each_time_is_none_but_told() {
        let flapping: [fn() -> Look; 7] =
            [|| wrong("2"), || wrong("3"), || wrong("2"), || wrong("3"), || wrong("2"), || wrong("3"), || wrong("2")];
        for looks in [&flapping[..], &[moving], &[|| wrong("2"), moving, || wrong("2"), || wrong("2"), moving]] {
            let (report, count) = confirmed(looks).await;
            assert_eq!((report.imbalance_count, report.undecided, count), (0, vec!["k".to_owned()], 7));
        }
    }
}
