use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest pause before a request: longer than any client should wait.
const SLOW_MAX: Duration = Duration::from_mins(1);

/// What goes wrong, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The share of requests that are answered 503. Half of them are done.
    unavailable: f64,
    /// The share of the other requests that are done, and whose connection then ends without an answer.
    lose_answers: f64,
    /// How long each request waits before it is done.
    slow: Duration,
}

/// Faults of some requests.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What goes wrong, spelled as on the command line.
    faults: Faults,
    /// Only of requests for this route, such as `POST /packets/{packet_id}/grab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    /// Only of requests by this user, or for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// Only of this many requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<u32>,
}

impl Rule {
    /// The route whose requests it is for, if it is for one only.
    pub fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    fn is_for(&self, route: &str, user: Option<&str>) -> bool {
        self.times != Some(0)
            && self.route.as_deref().is_none_or(|own| own == route)
            && self.user_id.as_deref().is_none_or(|own| Some(own) == user)
    }
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fate {
    /// How long it waits first.
    pub pause: Duration,
    /// How it ends.
    pub end: End,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum End {
    /// It is done and answered.
    #[default]
    Answered,
    /// It is answered 503. Whether it is done before, nobody can see.
    Unavailable {
        /// Whether it is.
        is_done: bool,
    },
    /// It is done, and the connection ends without an answer.
    Lost,
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for fault in text.split(',') {
            let (name, value) = fault.split_once('=').unwrap_or((fault, ""));
            match name {
                "lose-answers" => faults.lose_answers = share(value)?,
                "503" => faults.unavailable = share(value)?,
                "slow" => {
                    let pause = value.parse::<SignedDuration>().ok().and_then(|pause| Duration::try_from(pause).ok());
                    let pause = pause.filter(|pause| *pause <= SLOW_MAX);
                    faults.slow = pause.ok_or("slow is a time up to 60s, such as 200ms")?;
                }
                _ => return Err("expected some of lose-answers=0.1,503=0.1,slow=200ms".to_owned()),
            }
        }
        Ok(faults)
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1, such as 0.1".to_owned())
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lose_answers, unavailable, slow } = self;
        write!(f, "lose-answers={lose_answers},503={unavailable},slow={}ms", slow.as_millis())
    }
}

impl Serialize for Faults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Draws what becomes of each request.
#[derive(Debug)]
pub struct Dice {
    /// The faults of the command line.
    first: Faults,
    seed: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    /// The first one that fits a request counts.
    rules: Vec<Rule>,
}

impl State {
    fn new(first: Faults, seed: u64) -> Self {
        let rule = Rule { faults: first, route: None, user_id: None, times: None };
        let rules = if first == Faults::default() { Vec::new() } else { vec![rule] };
        Self { random: StdRng::seed_from_u64(seed), rules }
    }
}

impl Dice {
    /// The same draws for the same seed; without one, others each time.
    pub fn new(faults: Faults, seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| rand::rng().next_u64());
        Self { first: faults, seed, state: Mutex::new(State::new(faults, seed)) }
    }

    /// Begins again, with the faults of the command line.
    pub fn reset(&self) {
        *self.lock() = State::new(self.first, self.seed);
    }

    /// The rules, each with how often it still counts.
    pub fn rules(&self) -> Vec<Rule> {
        self.lock().rules.clone()
    }

    /// Replaces all rules.
    pub fn set(&self, rules: Vec<Rule>) {
        self.lock().rules = rules;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of the next request, which is for this route, and by or for this user.
    pub fn fate(&self, route: &str, user: Option<&str>) -> Fate {
        let State { random, rules } = &mut *self.lock();
        let Some(rule) = rules.iter_mut().find(|rule| rule.is_for(route, user)) else { return Fate::default() };
        rule.times = rule.times.map(|times| times - 1);
        let Faults { lose_answers, unavailable, slow } = rule.faults;
        let is_unavailable = random.random_bool(unavailable);
        let (is_done, is_lost) = (random.random(), random.random_bool(lose_answers));
        let end = match (is_unavailable, is_lost) {
            (true, _) => End::Unavailable { is_done },
            (false, true) => End::Lost,
            (false, false) => End::Answered,
        };
        Fate { pause: slow, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        let faults: Faults = "lose-answers=0.1,503=0.25,slow=200ms".parse().unwrap();
        assert_eq!(faults.to_string(), "lose-answers=0.1,503=0.25,slow=200ms");
        for bad in [
            "",
            "lose-answers",
            "503=1.1",
            "503=-0.1",
            "503=NaN",
            "slow=5",
            "slow=61s",
            "slow=-1s",
            "lose=1",
            "503=0.1,",
        ] {
            assert!(bad.parse::<Faults>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_each_time_and_each_fault_about_as_often_as_asked() {
        let dice = Dice::new("lose-answers=0.2,503=0.4".parse().unwrap(), Some(7));
        let draw = || (0..2_000).map(|_| dice.fate("GET /me/wallet", None).end).collect::<Vec<_>>();
        let first = draw();
        assert_ne!(first, draw());
        dice.reset();
        assert_eq!(first, draw());
        let count = |end| first.iter().filter(|drawn| **drawn == end).count();
        for (end, expected) in [
            (End::Lost, 240),
            (End::Unavailable { is_done: true }, 400),
            (End::Unavailable { is_done: false }, 400),
            (End::Answered, 960),
        ] {
            assert!(count(end).abs_diff(expected) < 100, "{end:?}: {}", count(end));
        }
    }
}
