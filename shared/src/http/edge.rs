use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use lambda_http::Request;

use super::edge_key::EdgeKey;
use super::problem::{Code, Limit, Problem};
use super::route::{Operation, asked, without_base_path};
use crate::domain::{Timestamp, UserId, UserRates};

/// After so many requests, users who made none for a while are forgotten.
const FORGET_AFTER: u32 = 4_096;

/// What says the time.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What every request to a function goes through before it is answered.
#[derive(Clone, Debug)]
pub struct Edge {
    base_path: String,
    key: EdgeKey,
    limiter: Option<Arc<UserRateLimiter>>,
}

impl Edge {
    /// The edge of a function behind `base_path`, which lets each user ask at these rates. With a `key` users' requests must come through
    /// `CloudFront`, which sends it. Rates are by `now`.
    pub fn new(base_path: &str, rates: UserRates, key: Option<&str>, now: Now) -> Self {
        let limiter = UserRateLimiter::new(rates, &ProcessClock(now));
        Self { base_path: base_path.to_owned(), key: EdgeKey::new(key), limiter: limiter.map(Arc::new) }
    }

    /// The request as handlers expect it: without the base path, and with what limits the rates of its caller.
    #[must_use]
    pub fn receive(&self, request: Request) -> Request {
        let mut request = self.key.check(without_base_path(request, &self.base_path));
        if let Some(limiter) = &self.limiter {
            request.extensions_mut().insert(Arc::clone(limiter));
        }
        request
    }
}

/// The time since now, which no step of the machine's clock changes.
pub fn steady() -> Now {
    let begun = Instant::now();
    Arc::new(move || Timestamp::from_ms(0).after(begun.elapsed()))
}

/// The process's clock, as the limiter asks for it.
#[derive(Clone)]
pub struct ProcessClock(Now);

impl Clock for ProcessClock {
    /// The time since the epoch.
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_millis((self.0)().ms())
    }
}

impl fmt::Debug for ProcessClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessClock")
    }
}

type Limiter<C> = RateLimiter<UserId, HashMapStateStore<UserId>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Counts each user's requests and grabs in this process.
#[derive(Debug)]
pub struct UserRateLimiter<C: Clock = ProcessClock> {
    clock: C,
    requests: Option<Limiter<C>>,
    grabs: Option<Limiter<C>>,
    rates: UserRates,
    received: AtomicU32,
}

impl<C: Clock + Clone> UserRateLimiter<C> {
    /// A limiter for these rates; `None`: there is nothing to count.
    fn new(rates: UserRates, clock: &C) -> Option<Self> {
        let limiter = |quota| RateLimiter::new(quota, HashMapStateStore::default(), clock.clone());
        let requests = NonZeroU32::new(rates.requests_a_second).map(Quota::per_second).map(limiter);
        let grabs = NonZeroU32::new(rates.grabs_a_minute).map(Quota::per_minute).map(limiter);
        let has_any = requests.is_some() || grabs.is_some();
        has_any.then(|| Self { requests, grabs, rates, clock: clock.clone(), received: AtomicU32::new(0) })
    }

    /// Counts a request; or which limit its user is above, and for how long they have to wait.
    fn count(&self, user: &UserId, is_grab: bool) -> Result<(), (Limit, Duration)> {
        if self.received.fetch_add(1, Ordering::Relaxed) % FORGET_AFTER == FORGET_AFTER - 1 {
            self.requests.iter().chain(&self.grabs).for_each(RateLimiter::retain_recent);
        }
        let wait = |limiter: &Limiter<C>| Some(limiter.check_key(user).err()?.wait_time_from(self.clock.now()));
        let UserRates { requests_a_second, grabs_a_minute } = self.rates;
        if let Some(wait) = self.requests.as_ref().and_then(wait) {
            return Err((Limit::RequestsASecond(requests_a_second), wait));
        }
        match self.grabs.as_ref().filter(|_| is_grab).and_then(wait) {
            Some(wait) => Err((Limit::GrabsAMinute(grabs_a_minute), wait)),
            None => Ok(()),
        }
    }
}

/// Counts a request of `user`. Refuses it if they ask too often.
pub(super) fn within_rate(request: &Request, user: &UserId) -> Result<(), Problem> {
    let Some(limiter) = request.extensions().get::<Arc<UserRateLimiter>>() else { return Ok(()) };
    let is_grab = asked(request).is_ok_and(|asked| asked.operation == Operation::GrabPacket);
    limiter.count(user, is_grab).map_err(|(limit, wait)| Problem {
        limit: Some(Box::new(limit)),
        // It is rounded up.
        retry_after_s: Some(wait.as_secs() + 1),
        ..Problem::new(Code::TooManyRequests, "You ask too often. Try again later.")
    })
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[test]
    fn each_user_has_a_rate_of_their_own() {
        let clock = FakeRelativeClock::default();
        let rates = UserRates { requests_a_second: 3, grabs_a_minute: 2 };
        let limiter = UserRateLimiter::new(rates, &clock).unwrap();
        let (ann, bob) = (user("ann"), user("bob"));
        for _ in 0..2 {
            limiter.count(&ann, true).unwrap();
        }
        let (limit, wait) = limiter.count(&ann, true).unwrap_err();
        assert_eq!(limit, Limit::GrabsAMinute(2));
        assert!(wait > Duration::from_secs(29) && wait <= Duration::from_secs(30), "{wait:?}");
        let (limit, wait) = limiter.count(&ann, false).unwrap_err();
        assert_eq!(limit, Limit::RequestsASecond(3));
        assert!(wait <= Duration::from_millis(334), "{wait:?}: the refused grab was a request");
        limiter.count(&bob, true).unwrap();
        clock.advance(Duration::from_millis(334));
        limiter.count(&ann, false).unwrap();
        clock.advance(Duration::from_secs(30));
        limiter.count(&ann, true).unwrap();
        assert!(limiter.count(&ann, true).is_err());
    }

    #[test]
    fn users_who_rest_are_forgotten() {
        let clock = FakeRelativeClock::default();
        let limiter = UserRateLimiter::new(UserRates { requests_a_second: 1, grabs_a_minute: 0 }, &clock).unwrap();
        let known = || limiter.requests.as_ref().unwrap().len();
        for number in 0..FORGET_AFTER - 1 {
            limiter.count(&user(&format!("u{number}")), false).unwrap();
        }
        assert_eq!(known(), FORGET_AFTER as usize - 1);
        clock.advance(Duration::from_secs(2));
        limiter.count(&user("late"), false).unwrap();
        assert_eq!(known(), 1);
    }

    #[test]
    fn without_rates_there_is_no_limiter() {
        let rates = UserRates { requests_a_second: 0, grabs_a_minute: 0 };
        assert!(UserRateLimiter::new(rates, &FakeRelativeClock::default()).is_none());
    }
}
