//! A heat: one run of a scheme through a rush, and its counts.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use redis::{Commands, Connection, RedisResult};
use serde::Serialize;

use crate::rush::{Got, Rush};

/// An answer and its latency.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The request's index in the rush.
    pub request: usize,
    /// The slip, if any.
    pub got: Got,
    /// Nanoseconds until the answer.
    pub nanos: u64,
}

/// The result of one run of a scheme through a rush.
#[derive(Debug)]
pub struct Heat {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// All answers: fewer than requests if the time was over before.
    pub answers: Vec<Answer>,
    /// Round trips to Redis.
    pub calls: u64,
    /// Redis' processor time, in microseconds.
    pub cpu_us: u64,
}

/// The slips of a heat, counted by owner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Shares {
    /// Users who have a slip, summed over the packets.
    pub winners: u64,
    /// Slips given out beyond those of the packets.
    pub oversold: u64,
    /// Users who have two slips of one packet.
    pub double_winners: u64,
    /// Slips that nobody has although users without one asked. `None` if the time was over first.
    pub left: Option<u64>,
}

impl Heat {
    /// Counts the slips by owner.
    #[must_use]
    pub fn shares(&self, rush: &Rush) -> Shares {
        let mut slips_of = HashSet::new();
        let (mut winners, mut doubles) = (HashSet::new(), HashSet::new());
        let mut taken = vec![0; rush.packets];
        for answer in &self.answers {
            let request = rush.requests[answer.request];
            let Got::Slip(slip) = answer.got else { continue };
            // The same slip again is a repeated answer.
            if slips_of.insert((request.packet, request.user, slip)) {
                taken[request.packet] += 1;
                if !winners.insert((request.packet, request.user)) {
                    doubles.insert((request.packet, request.user));
                }
            }
        }
        let slips = u64::from(rush.slips);
        let finished = self.answers.len() == rush.requests.len();
        Shares {
            winners: winners.len() as u64,
            oversold: taken.iter().map(|taken: &u64| taken.saturating_sub(slips)).sum(),
            double_winners: doubles.len() as u64,
            left: finished.then(|| taken.iter().map(|taken| slips.saturating_sub(*taken)).sum()),
        }
    }
}

/// What a server has done by its own counters, since its start or between two readings.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Calls of scripts.
    pub calls: u64,
    /// Bytes that its clients sent to it.
    pub received: u64,
    /// Bytes that it sent to them.
    pub sent: u64,
}

impl Usage {
    /// Reads the counters.
    pub fn read(redis: &mut Connection) -> RedisResult<Self> {
        let info: String = redis::cmd("INFO").arg("cpu").arg("stats").arg("commandstats").query(redis)?;
        let seconds = |name: &str| -> u64 {
            let text = info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            // "1.234567"
            text.trim().replace('.', "").parse().unwrap_or(0)
        };
        let count = |name: &str| -> u64 {
            let text = info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            text.trim().split(',').next().and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        Ok(Self {
            cpu_us: seconds("used_cpu_sys:") + seconds("used_cpu_user:"),
            calls: count("cmdstat_eval:calls=") + count("cmdstat_evalsha:calls="),
            received: count("total_net_input_bytes:"),
            sent: count("total_net_output_bytes:"),
        })
    }

    /// What was done since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            cpu_us: self.cpu_us - before.cpu_us,
            calls: self.calls - before.calls,
            received: self.received - before.received,
            sent: self.sent - before.sent,
        }
    }
}

/// A field of Redis' `INFO server`. Empty if it has none of this name.
pub fn info(redis: &redis::Client, name: &str) -> RedisResult<String> {
    let info: String = redis::cmd("INFO").arg("server").query(&mut redis.get_connection()?)?;
    let said = info.lines().filter_map(|line| line.split_once(':')).find(|(said, _)| *said == name);
    Ok(said.map(|(_, value)| value.trim().to_owned()).unwrap_or_default())
}

/// A server's name and version, such as "Valkey 9.1.2". Valkey also has a `redis_version`, that of the Redis it is compatible with.
pub fn server_of(redis: &redis::Client) -> RedisResult<String> {
    let valkey = info(redis, "valkey_version")?;
    if valkey.is_empty() {
        Ok(format!("Redis {}", info(redis, "redis_version")?))
    } else {
        Ok(format!("Valkey {valkey}"))
    }
}

/// Deletes all keys of a Redis.
pub fn empty(redis: &mut Connection) -> RedisResult<()> {
    redis.flushall()
}

/// The number at the end of a user's name.
pub fn number(user: &str) -> Result<u32, std::num::ParseIntError> {
    user.rsplit('-').next().unwrap_or_default().parse()
}

/// Nanoseconds of a request: since `begun` if all requests of the rush exist from then, else since `asked`.
#[must_use]
pub fn nanos(rush: &Rush, begun: Instant, asked: Instant, answered: Instant) -> u64 {
    let since = if rush.at_once { begun } else { asked };
    u64::try_from((answered - since).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(answers: &[(usize, Got)]) -> Heat {
        let answer = |&(request, got): &(usize, Got)| Answer { request, got, nanos: 1 };
        let answers = answers.iter().map(answer).collect();
        Heat { elapsed: Duration::from_secs(1), answers, calls: 0, cpu_us: 0 }
    }

    #[test]
    fn a_heat_counts_slips_by_owner() {
        let rush = Rush::crowd(2, 4);
        let shares = heat(&[(0, Got::Slip(1)), (1, Got::Slip(2)), (2, Got::Nothing), (3, Got::Nothing)]).shares(&rush);
        assert_eq!(shares, Shares { winners: 2, oversold: 0, double_winners: 0, left: Some(0) });
        let shares = heat(&[(0, Got::Slip(1)), (1, Got::Slip(2)), (2, Got::Slip(3)), (3, Got::Nothing)]).shares(&rush);
        assert_eq!(shares, Shares { winners: 3, oversold: 1, double_winners: 0, left: Some(0) });
        let shares = heat(&[(0, Got::Slip(1)), (1, Got::Nothing)]).shares(&rush);
        assert_eq!(shares, Shares { winners: 1, oversold: 0, double_winners: 0, left: None });
    }

    #[test]
    fn a_repeat_is_no_second_slip() {
        let rush = Rush::with_repeats(2);
        let all = [(0, Got::Slip(1)), (1, Got::Slip(2)), (2, Got::Slip(1)), (3, Got::Slip(2))];
        assert_eq!(heat(&all).shares(&rush), Shares { winners: 2, oversold: 0, double_winners: 0, left: Some(0) });
        let all = [(0, Got::Slip(1)), (1, Got::Slip(2)), (2, Got::Slip(3)), (3, Got::Nothing)];
        assert_eq!(heat(&all).shares(&rush), Shares { winners: 2, oversold: 1, double_winners: 1, left: Some(0) });
    }
}
