//! The keys of operators, which `hongbao-admin key` makes.

use std::collections::HashSet;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::header::RETRY_AFTER;
use http::{HeaderValue, Response};
use lambda_http::Body;
use lambda_http::aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use local::gateway::sign_in::bearer;
use local::gateway::{Arrival, event, problem};
use postgres_ledger::PostgresTable;
use shared::domain::OPERATOR_KEY;
use shared::http::{Code, rights_for};
use shared::ledger::{Ledger, hash_of_key};

/// How many keys an address may try in a minute. One that this process has seen before does not count.
const TRIES_A_MINUTE: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// Knows operators by their keys.
pub struct Operators {
    ledger: Arc<Ledger<PostgresTable>>,
    tries: RateLimiter<
        IpAddr,
        HashMapStateStore<IpAddr>,
        DefaultClock,
        NoOpMiddleware<<DefaultClock as governor::clock::Clock>::Instant>,
    >,
    /// The hashes of good keys. Somebody else who guesses from the same address does not lock out their owners.
    seen: Mutex<HashSet<String>>,
}

impl Operators {
    /// The operators of a ledger.
    pub fn new(ledger: Arc<Ledger<PostgresTable>>) -> Self {
        Self { ledger, tries: RateLimiter::hashmap(Quota::per_minute(TRIES_A_MINUTE)), seen: Mutex::default() }
    }

    /// Says which operator sends a request, if their key is good. A key without the right to it has no name. The key is read each
    /// time, so that one that is revoked counts no more at once.
    pub async fn authorize(&self, arrival: Arrival<'_>) -> Result<Option<ApiGatewayRequestAuthorizer>, Response<Body>> {
        let key = bearer(&arrival.parts.headers).filter(|token| token.starts_with(OPERATOR_KEY));
        let Some(hash) = key.map(hash_of_key) else { return Ok(None) };
        let is_seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(&hash);
        if !is_seen && let Err(not_until) = self.tries.check_key(&network(arrival.caller)) {
            tracing::warn!(caller = %arrival.caller, "too many keys were tried");
            let wait = not_until.wait_time_from(DefaultClock::default().now()).as_secs() + 1;
            let mut answer = problem::of(arrival.request_id, Code::TooManyRequests, "Too many keys were tried.");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
            return Err(answer);
        }
        let found = self.ledger.operator_key(&hash).await.map_err(|error| {
            tracing::warn!(error = shared::error_chain(&error), "a key can't be read");
            problem::unavailable(arrival.request_id, "The ledger did not answer.")
        })?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(key) = found else {
            seen.remove(&hash);
            tracing::warn!(caller = %arrival.caller, "an unknown key was refused");
            return Ok(None);
        };
        seen.insert(hash);
        // What no route has is answered as such to each operator.
        let is_allowed =
            arrival.operation.is_none_or(|asked| rights_for(asked).iter().any(|right| key.rights.contains(right)));
        Ok(Some(event::of_operator(is_allowed.then(|| key.name.to_string()).as_deref())))
    }

    /// Forgets addresses that have not tried keys for a while.
    pub fn forget(&self) {
        self.tries.retain_recent();
    }
}

/// The addresses that count as one: the owner of one address of IPv6 mostly has all of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_together() {
        let network = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(
            (network("192.0.2.7"), network("2001:db8:0:1:2:3:4:5")),
            ("192.0.2.7".to_owned(), "2001:db8:0:1::".to_owned())
        );
    }
}
