//! A rush: packets, and the order of the grabs. A heat: one run of a scheme through a rush.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

/// One grab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// The packet's index.
    pub packet: usize,
    /// The user's index.
    pub user: usize,
}

/// Packets and their grabs.
#[derive(Debug)]
pub struct Rush {
    /// The number of packets.
    pub packets: usize,
    /// Slips per packet.
    pub slips: u32,
    /// The grabs, in the order of their arrival.
    pub requests: Vec<Request>,
    /// Whether all grabs exist from the beginning, so that latencies count from there. Otherwise a client makes the next grab
    /// after the answer to the one before.
    pub at_once: bool,
    /// How many grabs come in a second, if they come at a pace. Latencies then count from when a grab is due.
    pub per_s: Option<f64>,
    /// The users' names.
    pub users: Vec<String>,
}

/// The number of grabs after which a user's repeat follows in [`Rush::with_repeats`].
const REPEATED_AFTER: usize = 500;

impl Rush {
    fn new(packets: usize, slips: u32, requests: Vec<Request>, at_once: bool) -> Self {
        let users = requests.iter().map(|request| request.user).max().map_or(0, |most| most + 1);
        let users = (0..users).map(|user| format!("user-{user:07}")).collect();
        Self { packets, slips, requests, at_once, per_s: None, users }
    }

    /// (A) One packet, with a user per slip.
    #[must_use]
    pub fn all_win(slips: u32) -> Self {
        Self { at_once: false, ..Self::crowd(slips, slips) }
    }

    /// (B) One packet, and more users than slips, all at once.
    #[must_use]
    pub fn crowd(slips: u32, users: u32) -> Self {
        Self::new(1, slips, (0..users as usize).map(|user| Request { packet: 0, user }).collect(), true)
    }

    /// (C) Many packets with a user per slip, in turn.
    #[must_use]
    pub fn spread(packets: usize, slips: u32) -> Self {
        let request = |n| Request { packet: n % packets, user: n };
        Self::new(packets, slips, (0..packets * slips as usize).map(request).collect(), false)
    }

    /// (D) As [`Self::all_win`], and each user asks twice.
    #[must_use]
    pub fn with_repeats(slips: u32) -> Self {
        let users: Vec<usize> = (0..slips as usize).collect();
        let twice = users.chunks(REPEATED_AFTER).flat_map(|some| some.iter().chain(some));
        Self::new(1, slips, twice.map(|&user| Request { packet: 0, user }).collect(), false)
    }

    /// When a request is due, if they come at a pace.
    #[must_use]
    pub fn due(&self, begun: Instant, request: usize) -> Option<Instant> {
        self.per_s.map(|per_s| begun + Duration::from_secs_f64(request as f64 / per_s))
    }

    /// Nanoseconds of a request: since `begun` if all requests exist from then, else since `asked`.
    #[must_use]
    pub fn nanos(&self, begun: Instant, asked: Instant, answered: Instant) -> u64 {
        let since = if self.at_once { begun } else { asked };
        u64::try_from((answered - since).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The answer to a grab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Got {
    /// The user has this slip, from now on or from before. Designs without slip numbers count their wins instead.
    Slip(u64),
    /// No slip.
    Nothing,
}

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

/// What a design must not do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mistakes {
    /// Slips given out beyond those of the packets.
    pub oversold: u64,
    /// Users who have two slips of one packet.
    pub double_winners: u64,
}

impl Heat {
    /// Counts the slips by owner.
    #[must_use]
    pub fn mistakes(&self, rush: &Rush) -> Mistakes {
        let (mut owned, mut winners, mut doubles) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut taken = vec![0; rush.packets];
        for answer in &self.answers {
            let Request { packet, user } = rush.requests[answer.request];
            let Got::Slip(slip) = answer.got else { continue };
            // The same slip again is a repeated answer.
            if owned.insert((packet, user, slip)) {
                taken[packet] += 1;
                if !winners.insert((packet, user)) {
                    doubles.insert((packet, user));
                }
            }
        }
        let oversold = taken.iter().map(|taken: &u64| taken.saturating_sub(rush.slips.into())).sum();
        Mistakes { oversold, double_winners: doubles.len() as u64 }
    }
}

/// What a Redis has done by its own counters, since its start.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Calls of scripts.
    pub calls: u64,
}

impl Usage {
    /// Reads the counters.
    pub fn read(redis: &mut Connection) -> RedisResult<Self> {
        let info: String = redis::cmd("INFO").arg("cpu").arg("commandstats").query(redis)?;
        let count = |name: &str| -> u64 {
            let text = info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            // Seconds such as "1.234567" are read as microseconds.
            let digits = text.split(',').next().unwrap_or_default().trim().replace('.', "");
            digits.parse().unwrap_or(0)
        };
        let cpu_us = count("used_cpu_sys:") + count("used_cpu_user:");
        Ok(Self { cpu_us, calls: count("cmdstat_eval:calls=") + count("cmdstat_evalsha:calls=") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(rush: &Rush, got: &[Got]) -> (u64, u64) {
        let answers = got.iter().enumerate().map(|(request, got)| Answer { request, got: *got, nanos: 1 }).collect();
        let heat = Heat { elapsed: Duration::from_secs(1), answers, calls: 0, cpu_us: 0 };
        let Mistakes { oversold, double_winners } = heat.mistakes(rush);
        (oversold, double_winners)
    }

    #[test]
    fn a_heat_counts_slips_by_owner() {
        let rush = Rush::crowd(2, 4);
        assert_eq!(mistakes(&rush, &[Got::Slip(1), Got::Slip(2), Got::Nothing, Got::Nothing]), (0, 0));
        assert_eq!(mistakes(&rush, &[Got::Slip(1), Got::Slip(2), Got::Slip(3), Got::Nothing]), (1, 0));
        let twice = Rush::with_repeats(2);
        let repeated = [Got::Slip(1), Got::Slip(2), Got::Slip(1), Got::Slip(2)];
        assert_eq!(mistakes(&twice, &repeated), (0, 0), "a repeat is no second slip");
        assert_eq!(mistakes(&twice, &[Got::Slip(1), Got::Slip(2), Got::Slip(3), Got::Nothing]), (1, 1));
    }

    #[test]
    fn each_packet_of_a_spread_rush_has_a_user_for_each_slip() {
        let rush = Rush::spread(10, 3);
        let of_packet = |packet| rush.requests.iter().filter(|request| request.packet == packet).count();
        assert_eq!((0..10).map(of_packet).collect::<Vec<_>>(), [3; 10]);
        assert_eq!(rush.users.len(), 30);
    }
}
