//! The report of a run, or the sum of several, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use shared::crash::POINTS;

/// The figures of one run, or of several.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// Duration of the faults, in seconds.
    pub seconds: u64,
    /// Workers that died at a crash point, by point.
    pub kills_at_points: BTreeMap<String, u64>,
    /// Workers that were killed at any line.
    pub kills_at_random: u64,
    /// Workers that ended because a store did not answer at their start.
    pub failed_starts: u64,
    /// Harms to Redis that lost acknowledged data, or may have, by kind.
    pub redis_losses: BTreeMap<String, u64>,
    /// Harms to Redis without a loss, by kind.
    pub redis_faults: BTreeMap<String, u64>,
    /// Requests to `DynamoDB` with a fault, by kind.
    pub dynamodb_faults: BTreeMap<String, u64>,
    /// Chunks sent to Redis with a fault, by kind.
    pub connection_faults: BTreeMap<String, u64>,
    /// Answers to clients, by kind.
    pub answers: BTreeMap<String, u64>,
    /// Clients' attempts without an answer, which they repeated.
    pub retries: u64,
    /// Packets in the ledger.
    pub packets: u64,
    /// Refunded slips.
    pub slips_refunded: u64,
    /// Promises that equal the ledger's claims.
    pub promises_kept: u64,
    /// Denials whose user has no claim.
    pub denials_true: u64,
    /// Claims of denied users, by an earlier attempt without an answer that was carried out later.
    pub late_claims: u64,
    /// Promises in `redis` mode that Redis then lost.
    pub promises_lost_with_redis: u64,
    /// Recovery times: from a loss's end to the first good answer to a grab, in milliseconds, by kind of loss.
    pub recovery_ms: BTreeMap<String, Vec<u64>>,
    /// Number of violations.
    pub violations: u64,
    /// The first violations.
    pub violated: Vec<String>,
}

impl Report {
    /// Adds another run's figures.
    pub fn add(&mut self, other: Self) {
        self.seeds.extend(other.seeds);
        self.seconds += other.seconds;
        for (counts, more) in [
            (&mut self.kills_at_points, other.kills_at_points),
            (&mut self.redis_losses, other.redis_losses),
            (&mut self.redis_faults, other.redis_faults),
            (&mut self.dynamodb_faults, other.dynamodb_faults),
            (&mut self.connection_faults, other.connection_faults),
            (&mut self.answers, other.answers),
        ] {
            for (what, count) in more {
                *counts.entry(what).or_default() += count;
            }
        }
        self.kills_at_random += other.kills_at_random;
        self.failed_starts += other.failed_starts;
        self.retries += other.retries;
        self.packets += other.packets;
        self.slips_refunded += other.slips_refunded;
        self.promises_kept += other.promises_kept;
        self.denials_true += other.denials_true;
        self.late_claims += other.late_claims;
        self.promises_lost_with_redis += other.promises_lost_with_redis;
        for (how, times) in other.recovery_ms {
            self.recovery_ms.entry(how).or_default().extend(times);
        }
        self.violations += other.violations;
        self.violated.extend(other.violated);
    }

    /// Workers that were killed, at crash points or at random.
    #[must_use]
    pub fn kills(&self) -> u64 {
        sum(&self.kills_at_points) + self.kills_at_random
    }

    /// Grabs with an answer.
    #[must_use]
    pub fn grabs(&self) -> u64 {
        let answered = |what: &&String| what.starts_with("grab: ") && !what.ends_with("no answer");
        self.answers.keys().filter(answered).map(|what| self.answers[what]).sum()
    }

    /// Crash points at which no worker died.
    #[must_use]
    pub fn points_missed(&self) -> Vec<&'static str> {
        POINTS.iter().copied().filter(|point| !self.kills_at_points.contains_key(*point)).collect()
    }

    /// The recovery time that `percent` of all losses did not exceed, in milliseconds.
    #[must_use]
    pub fn recovery(&self, percent: usize) -> Option<u64> {
        percentile(self.recovery_ms.values().flatten().copied().collect(), percent)
    }
}

/// The value that `percent` of `values` do not exceed.
fn percentile(mut values: Vec<u64>, percent: usize) -> Option<u64> {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied()
}

/// The sum of counts.
fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = String::new();
        let groups = [
            ("Kills at crash points", &self.kills_at_points),
            ("Redis losses and rollbacks", &self.redis_losses),
            ("Redis faults without a loss", &self.redis_faults),
            ("DynamoDB faults", &self.dynamodb_faults),
            ("Faults of connections to Redis", &self.connection_faults),
            ("Answers", &self.answers),
        ];
        for (title, counts) in groups {
            writeln!(lines, "{title:<48}{:>12}", sum(counts))?;
            for (what, count) in counts {
                writeln!(lines, "  {what:<46}{count:>12}")?;
            }
        }
        writeln!(lines, "{:<48}{:>12}", "Recovery p50 / p99 / longest, in ms", "")?;
        for (how, times) in &self.recovery_ms {
            let [p50, p99, longest] = [50, 99, 100].map(|percent| percentile(times.clone(), percent).unwrap_or(0));
            writeln!(lines, "  {how:<42}{:>16}", format!("{p50} / {p99} / {longest}"))?;
        }
        let millis = |percent| self.recovery(percent).map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
        for (what, value) in [
            ("Seeds", format!("{:?}", self.seeds)),
            ("Seconds of faults", self.seconds.to_string()),
            ("Kills, at crash points and at random", self.kills().to_string()),
            ("Workers that could not start", self.failed_starts.to_string()),
            ("Grabs answered", self.grabs().to_string()),
            ("Attempts repeated by clients", self.retries.to_string()),
            ("Packets in the ledger", self.packets.to_string()),
            ("Slips refunded", self.slips_refunded.to_string()),
            ("Promises kept", self.promises_kept.to_string()),
            ("True denials", self.denials_true.to_string()),
            ("Claims by an attempt without an answer", self.late_claims.to_string()),
            ("Promises in redis mode lost with Redis", self.promises_lost_with_redis.to_string()),
            ("Recovery p50", millis(50)),
            ("Recovery p99", millis(99)),
            ("Crash points missed", format!("{:?}", self.points_missed())),
            ("Violations", self.violations.to_string()),
        ] {
            writeln!(lines, "{what:<48}{value:>12}")?;
        }
        for violation in &self.violated {
            writeln!(lines, "  {violation}")?;
        }
        f.write_str(&lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(what: &str, count: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([(what.to_owned(), count)])
    }

    #[test]
    fn reports_add_up() {
        let one = Report {
            seeds: vec![1],
            seconds: 60,
            kills_at_points: counts("grab.after_claim", 2),
            kills_at_random: 3,
            answers: counts("grab: grabbed", 4),
            recovery_ms: BTreeMap::from([("FLUSHALL".to_owned(), vec![30, 10])]),
            ..Report::default()
        };
        let other = Report {
            kills_at_points: counts("mark_settled.after", 1),
            answers: counts("grab: no answer", 7),
            recovery_ms: BTreeMap::from([("FLUSHALL".to_owned(), vec![20])]),
            violations: 1,
            violated: vec!["so".to_owned()],
            ..one.clone()
        };
        let mut sum = one;
        sum.add(other);
        assert_eq!((sum.seeds.len(), sum.seconds, sum.kills(), sum.grabs(), sum.violations), (2, 120, 9, 4, 1));
        assert_eq!((sum.recovery(50), sum.recovery(99)), (Some(20), Some(30)));
        assert_eq!(sum.points_missed().len(), POINTS.len() - 2);
    }

    #[test]
    fn an_empty_list_has_no_percentile() {
        assert_eq!(Report::default().recovery(99), None);
    }
}
