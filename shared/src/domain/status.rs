use serde::Serialize;

use super::packet::Terms;
use super::time::Timestamp;

/// Whether and how a packet has ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// Whether it has expired.
    pub is_past: bool,
    /// When the operator closed it, by the ledger.
    pub closed_at: Option<Timestamp>,
    /// Whether it is settled, by the ledger: nothing of it changes any more.
    pub is_settled: bool,
}

impl End {
    /// Whether nobody can grab it any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_past || self.closed_at.is_some() || self.is_settled
    }
}

/// The state of a packet, by the names that answers use.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its start is ahead.
    Scheduled,
    /// It can be grabbed.
    Open,
    /// Every slip is claimed.
    SoldOut,
    /// Its time is over.
    Expired,
    /// The operator has closed it.
    Closed,
    /// The ledger says that it is settled: every slip is claimed or refunded, and nothing of it changes any more.
    Settled,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Scheduled, Self::Open, Self::SoldOut, Self::Expired, Self::Closed, Self::Settled];

    /// The name that answers use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Open => "open",
            Self::SoldOut => "sold_out",
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::Settled => "settled",
        }
    }

    /// The status with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The state at `now` of a packet with these terms and this end, of which so many slips are claimed.
    ///
    /// Clocks decide as little as possible, because those of two processes differ. They only say whether a packet without a claim has begun,
    /// and whether one with open slips has expired.
    #[must_use]
    pub fn of(terms: &Terms, end: &End, claimed_count: u32, now: Timestamp) -> Self {
        if end.is_settled {
            Self::Settled
        } else if end.closed_at.is_some() {
            Self::Closed
        } else if claimed_count >= terms.count {
            Self::SoldOut
        } else if end.is_past {
            Self::Expired
        } else if claimed_count == 0 && terms.guard.starts_at.is_some_and(|starts_at| now < starts_at) {
            Self::Scheduled
        } else {
            Self::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::Guard;

    #[test]
    fn a_status_follows_from_end_claims_and_time() {
        let start = Timestamp::from_ms(15);
        let guard = Guard { starts_at: Some(start), ..Guard::default() };
        let terms = Terms { guard, ..Terms::sample() };
        let (open, past) = (End::default(), End { is_past: true, ..End::default() });
        let closed = End { closed_at: Some(start), ..past };
        let settled = End { is_settled: true, ..closed };
        let before = start.before(Duration::from_millis(1));
        for (end, claimed, now, status) in [
            (open, 0, before, Status::Scheduled),
            (open, 1, before, Status::Open),
            (open, 0, start, Status::Open),
            (open, 2, start, Status::Open),
            (open, 3, before, Status::SoldOut),
            (past, 2, start, Status::Expired),
            (past, 0, before, Status::Expired),
            (past, 3, start, Status::SoldOut),
            (closed, 3, start, Status::Closed),
            (closed, 0, before, Status::Closed),
            (settled, 3, start, Status::Settled),
            (settled, 0, before, Status::Settled),
        ] {
            assert_eq!(Status::of(&terms, &end, claimed, now), status, "{end:?}, {claimed} claimed at {now}");
        }
    }
}
