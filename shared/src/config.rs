//! The configuration of a deployment, from environment variables. All of it is checked at start-up, and one message names
//! every fault.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::time::Duration;

use crate::domain::{AckMode, Amount, DayZone, Limits, MAX_BALANCE, MAX_MOVEMENT, UserRates};
use crate::http::{Alb, Edge, Entrance, Now, ROUTES};
use crate::redis::{Authorities, Connection, IamAuth, RedisConfig, RedisConfigError};
use crate::service::SendPolicy;
use crate::tickets::TicketKeys;

/// The configuration of a process, from its environment variables.
#[derive(Clone, Debug)]
pub struct Config {
    /// `TABLE_NAME`: the ledger's table. Required.
    pub table: String,
    /// `CURRENCY` (`CNY`), `GRAB_ACK` (`ledger`), `MAX_SLIP_AMOUNT` (20000), `MAX_COUNT` (100000): the terms
    /// that a deployment gives every packet.
    pub policy: SendPolicy,
    /// `DAILY_SENT_MAX` (0, none): the most that a user can send on a day, in minor units. `DAY_ZONE` (`Asia/Shanghai`): the time zone in
    /// whose midnights days begin. They are in `policy`.
    ///
    /// `DEPOSIT_MAX` (1000000000000): the most that one deposit can move, in minor units.
    pub deposit_max: Amount,
    /// `USER_WITHDRAWALS` (`false`): whether users can ask for withdrawals. `WITHDRAWAL_MIN` (1), the least of one, is in `policy`.
    pub user_withdrawals: bool,
    /// `REDIS_URL` (required by send, grab, view, settle and operate), `REDIS_CLUSTER` (`false`), `REDIS_CONNECT_TIMEOUT_MS` (1000),
    /// `REDIS_RESPONSE_TIMEOUT_MS` (500): where the hot store is.
    ///
    /// `REDIS_CA` (`system`): the authorities that TLS trusts. `amazon`: those of `ElastiCache`. Else certificates as PEM, or their file.
    ///
    /// `REDIS_AUTH` (`password`, that of the URL, or `iam`), `REDIS_IAM_USER`, `REDIS_IAM_CACHE`, `REDIS_IAM_SERVERLESS`
    /// (`false`): how to sign in to it. `REDIS_SECRET` (none): the secret with the current password, if that of the URL is refused.
    pub redis: Option<RedisConfig>,
    /// `LOG_KEY` (none): the key under which logs name users. Without it they don't.
    pub log_key: Option<String>,
    /// `BASE_PATH` (none): what a custom domain's mapping puts before every path, such as `/hongbao`.
    pub base_path: String,
    /// `USER_RATE` (0, any), `USER_GRABS` (0, any): how often one user may ask.
    pub user_rates: UserRates,
    /// `EDGE_KEY` (none): what `CloudFront` sends in a header, so that users' requests can't go round it.
    pub edge_key: Option<String>,
    /// `ENTRANCE` (`api`): `alb` where an Application Load Balancer calls the function for users. `JWT_ISSUER` and `JWT_AUDIENCE` (required
    /// by `alb`), `CORS_ORIGINS` (none): which tokens count then, and which pages may call. Lists have commas.
    pub alb: Option<Alb>,
    /// `TICKET_SECRET`, `TICKET_KEYS` (none): the secret with the keys that sign tickets, or these keys themselves.
    pub tickets: Option<TicketSource>,
    /// `START_SPREAD_MS` (5000): within which time after a packet's start users who asked early should ask again.
    pub start_spread: Duration,
    /// `OPERATE_REPAIRS` (`false`): whether the function operate runs the commands that repair, and only those, or those that read.
    pub operate_repairs: bool,
    /// `SETTLE_GRACE_MS` (30000): how long after its expiry a packet's refund waits.
    pub settle_grace: Duration,
    /// `EVENT_TARGET` (required by publish): where events go, the URL of a queue or the ARN of an event bus.
    pub event_target: String,
    /// `EVENT_DEAD_LETTERS` (required by publish): the URL of the queue for records of the stream that have no readable event.
    pub event_dead_letters: String,
    /// `WEBHOOK_URL`, `WEBHOOK_SECRET`, `WEBHOOK_QUEUE`, `WEBHOOK_DEAD_LETTERS` (required by notify), `WEBHOOK_ADDRESSES` (`public`): where events go.
    pub webhooks: WebhookConfig,
}

/// Where the keys come from that sign tickets.
#[derive(Clone, Debug)]
pub enum TicketSource {
    /// They never change.
    Keys(TicketKeys),
    /// A secret of Secrets Manager.
    Secret(String),
}

/// Where events go as webhooks.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// The receiver's URL.
    pub url: String,
    /// The secret of Secrets Manager with the secrets that sign.
    pub secret: String,
    /// The URL of the queue that the events come from.
    pub queue: String,
    /// The URL of the queue for those that were not delivered for a day.
    pub dead_letters: String,
    /// The addresses that the receiver may have.
    pub addresses: WebhookAddresses,
}

/// The addresses that a receiver of webhooks may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WebhookAddresses {
    /// Those of the public internet.
    Public,
    /// Also those of this machine itself: the local stack's default.
    PublicOrLoopback,
    /// All.
    Any,
}

/// What a function has no use without.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Needs {
    Ledger,
    BothStores,
    Events,
    Webhooks,
}

/// Everything that is wrong with the environment.
#[derive(thiserror::Error)]
#[error("the configuration is not valid: {0}")]
pub struct ConfigError(String);

/// The last words of a `main` that fails are an error's `Debug` form, and these are for people.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Config {
    /// The configuration of a function that uses both stores.
    pub fn for_both_stores(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::read(&variable, Needs::BothStores)
    }

    /// The configuration of a function that uses only the ledger.
    pub fn for_the_ledger(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::read(&variable, Needs::Ledger)
    }

    /// The configuration of the function that publishes events.
    pub fn for_events(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::read(&variable, Needs::Events)
    }

    /// The configuration of the function that delivers webhooks.
    pub fn for_webhooks(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::read(&variable, Needs::Webhooks)
    }

    /// The entrance of a function with this configuration. It counts what users ask by `now`.
    #[must_use]
    pub fn entrance(&self, now: Now) -> Entrance {
        Entrance::new(Edge::new(&self.base_path, self.user_rates, self.edge_key.as_deref(), now), self.alb.clone())
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>, needs: Needs) -> Result<Self, ConfigError> {
        let mut reader = Reader { variable, faults: String::new() };
        let table = reader.required("TABLE_NAME");
        let currency = reader.parsed("CURRENCY", "CNY".to_owned(), "three capital letters (ISO 4217)", |text| {
            (text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())).then(|| text.to_owned())
        });
        let ack = reader.one_of("GRAB_ACK", [("ledger", AckMode::Ledger), ("redis", AckMode::Redis)]);
        let defaults = Limits::default();
        let slip_amount_max = reader.number(
            "MAX_SLIP_AMOUNT",
            defaults.slip_amount_max.minor_units(),
            1..=Limits::SLIP_AMOUNT_CEILING.minor_units(),
        );
        let count_max = reader.number("MAX_COUNT", defaults.count_max, 1..=Limits::COUNT_CEILING);
        let deposit_max = MAX_MOVEMENT.minor_units();
        let deposit_max = Amount::new(reader.number("DEPOSIT_MAX", deposit_max, 1..=deposit_max));
        let user_withdrawals = reader.parsed("USER_WITHDRAWALS", false, "true or false", |text| text.parse().ok());
        let withdrawal_min = reader.number("WITHDRAWAL_MIN", 1, 1..=MAX_MOVEMENT.minor_units());
        let daily_max = reader.number("DAILY_SENT_MAX", 0, 0..=MAX_BALANCE.minor_units());
        let daily_max = Some(Amount::new(daily_max)).filter(|most| *most > Amount::ZERO);
        let zone = reader.day_zone();
        let settle_grace = reader.number("SETTLE_GRACE_MS", 30_000_u64, 0..=3_600_000);
        let start_spread = reader.number("START_SPREAD_MS", 5_000_u64, 0..=600_000);
        let operate_repairs = reader.parsed("OPERATE_REPAIRS", false, "true or false", |text| text.parse().ok());
        let base_path = reader.parsed("BASE_PATH", String::new(), "a path such as /hongbao, of no route", base_path);
        let user_rates = UserRates {
            requests_a_second: reader.number("USER_RATE", 0, 0..=10_000),
            grabs_a_minute: reader.number("USER_GRABS", 0, 0..=10_000),
        };
        let alb = reader.alb();
        let tickets = reader.tickets();
        let log_key = reader.get("LOG_KEY");
        let edge_key = reader.get("EDGE_KEY");
        let webhooks = reader.webhooks(needs == Needs::Webhooks);
        let event_target = reader.wanted("EVENT_TARGET", needs == Needs::Events);
        let event_dead_letters = reader.wanted("EVENT_DEAD_LETTERS", needs == Needs::Events);
        let redis = (needs == Needs::BothStores).then(|| reader.redis());
        let limits = Limits {
            slip_amount_max: Amount::new(slip_amount_max),
            count_max,
            withdrawal_min: Amount::new(withdrawal_min),
        };
        let config = Self {
            table,
            policy: SendPolicy { currency, ack, limits, daily_max, day_zone: zone },
            deposit_max,
            user_withdrawals,
            operate_repairs,
            redis,
            log_key,
            base_path,
            user_rates,
            edge_key,
            alb,
            tickets,
            start_spread: Duration::from_millis(start_spread),
            settle_grace: Duration::from_millis(settle_grace),
            event_target,
            event_dead_letters,
            webhooks,
        };
        if reader.faults.is_empty() { Ok(config) } else { Err(ConfigError(reader.faults)) }
    }
}

/// A path of a custom domain's mapping. If a route began like it, nobody could tell which of the two a request means.
fn base_path(text: &str) -> Option<String> {
    let is_good = |part: &str| {
        !part.is_empty()
            && !part.bytes().all(|byte| byte == b'.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    let path = text.strip_prefix('/')?;
    let first = |path: &str| path.split('/').nth(1).map(str::to_owned);
    let begins_a_route = ROUTES.iter().any(|route| first(route.path) == first(text));
    (path.split('/').all(is_good) && !begins_a_route).then(|| text.to_owned())
}

/// Reads variables and collects what is wrong with them. The value that it returns for a faulty one is never used.
struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    faults: String,
}

impl Reader<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Notes what is wrong with a variable. It never shows a value, because one of them holds a password.
    fn fault(&mut self, name: &str, what: &str) {
        let separator = if self.faults.is_empty() { "" } else { "; " };
        // Writing to a `String` can't fail.
        let _ = write!(self.faults, "{separator}{name} {what}");
    }

    fn required(&mut self, name: &str) -> String {
        self.get(name).unwrap_or_else(|| {
            self.fault(name, "is required");
            String::new()
        })
    }

    /// The same, which some functions can do without.
    fn wanted(&mut self, name: &str, is_required: bool) -> String {
        if is_required { self.required(name) } else { self.get(name).unwrap_or_default() }
    }

    fn parsed<V>(&mut self, name: &str, default: V, expected: &str, parse: impl Fn(&str) -> Option<V>) -> V {
        let Some(text) = self.get(name) else { return default };
        parse(&text).unwrap_or_else(|| {
            self.fault(name, &format!("must be {expected}"));
            default
        })
    }

    /// One of two words; the first is the default.
    fn one_of<V: Copy>(&mut self, name: &str, known: [(&str, V); 2]) -> V {
        let [(first, default), (other, _)] = known;
        let value = |text: &str| known.into_iter().find(|(word, _)| *word == text).map(|(_, value)| value);
        self.parsed(name, default, &format!("{first} or {other}"), value)
    }

    fn number<N>(&mut self, name: &str, default: N, range: std::ops::RangeInclusive<N>) -> N
    where
        N: Copy + FromStr + PartialOrd + fmt::Display,
    {
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        self.parsed(name, default, &expected, |text| text.parse().ok().filter(|number| range.contains(number)))
    }

    fn day_zone(&mut self) -> DayZone {
        let name = self.get("DAY_ZONE").unwrap_or_else(|| DayZone::DEFAULT.to_owned());
        name.parse().unwrap_or_else(|()| {
            self.fault("DAY_ZONE", "must be a time zone of the IANA, such as Asia/Shanghai");
            DayZone::UTC
        })
    }

    fn alb(&mut self) -> Option<Alb> {
        let is_alb = self.one_of("ENTRANCE", [("api", false), ("alb", true)]);
        let list = |text: String| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        let issuer = self.wanted("JWT_ISSUER", is_alb);
        let audiences = list(self.wanted("JWT_AUDIENCE", is_alb));
        let origins = list(self.get("CORS_ORIGINS").unwrap_or_default());
        is_alb.then_some(Alb { issuer, audiences, origins })
    }

    fn tickets(&mut self) -> Option<TicketSource> {
        let keys = self.get("TICKET_KEYS").and_then(|text| match TicketKeys::parse(&text) {
            Ok(keys) => Some(TicketSource::Keys(keys)),
            Err(error) => {
                self.fault("TICKET_KEYS", &error.to_string());
                None
            }
        });
        keys.or_else(|| self.get("TICKET_SECRET").map(TicketSource::Secret))
    }

    fn webhooks(&mut self, are_needed: bool) -> WebhookConfig {
        let url = self.wanted("WEBHOOK_URL", are_needed);
        let secret = self.wanted("WEBHOOK_SECRET", are_needed);
        let queue = self.wanted("WEBHOOK_QUEUE", are_needed);
        let dead_letters = self.wanted("WEBHOOK_DEAD_LETTERS", are_needed);
        let known = [("public", WebhookAddresses::Public), ("any", WebhookAddresses::Any)];
        let addresses = self.one_of("WEBHOOK_ADDRESSES", known);
        WebhookConfig { url, secret, queue, dead_letters, addresses }
    }

    fn redis(&mut self) -> RedisConfig {
        let mut redis = RedisConfig::new(self.required("REDIS_URL"));
        redis.cluster = self.parsed("REDIS_CLUSTER", false, "true or false", |text| text.parse().ok());
        redis.ca = self.get("REDIS_CA").map(Into::into).unwrap_or_default();
        let connect = self.number("REDIS_CONNECT_TIMEOUT_MS", 1_000, 1..=60_000);
        let response = self.number("REDIS_RESPONSE_TIMEOUT_MS", 500, 1..=60_000);
        redis.connect_timeout = Duration::from_millis(connect);
        redis.response_timeout = Duration::from_millis(response);
        redis.iam = self.iam_auth(&redis.url);
        redis.secret = self.get("REDIS_SECRET");
        if redis.iam.is_some() && redis.secret.is_some() {
            self.fault("REDIS_SECRET", "has no use for REDIS_AUTH=iam");
        }
        self.check(&redis);
        redis
    }

    fn iam_auth(&mut self, url: &str) -> Option<IamAuth> {
        let by_iam = self.one_of("REDIS_AUTH", [("password", false), ("iam", true)]);
        if !by_iam {
            return None;
        }
        // For some minutes a token is as good as a password, so it must not travel in the open.
        if !url.is_empty() && url.split(',').any(|url| !url.trim().starts_with("rediss://") || url.contains('@')) {
            self.fault("REDIS_URL", "must be rediss:// and without a user for REDIS_AUTH=iam");
        }
        let (user, cache) = (self.required("REDIS_IAM_USER"), self.required("REDIS_IAM_CACHE"));
        for (name, id) in [("REDIS_IAM_USER", &user), ("REDIS_IAM_CACHE", &cache)] {
            if !id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
                self.fault(name, "must be an id of ElastiCache: of a-z 0-9 and -");
            }
        }
        let serverless = self.parsed("REDIS_IAM_SERVERLESS", false, "true or false", |text| text.parse().ok());
        Some(IamAuth { user, cache, serverless })
    }

    /// Adds the faults that the Redis client finds to all others.
    fn check(&mut self, redis: &RedisConfig) {
        if redis.ca.check().is_err() {
            self.fault("REDIS_CA", "must be system, amazon, certificates (PEM) or a file of them");
        }
        let redis = RedisConfig { ca: Authorities::System, ..redis.clone() };
        if redis.url.is_empty() {
            return;
        }
        match Connection::new(&redis) {
            Ok(_) => {}
            Err(RedisConfigError::SeveralUrls) => self.fault("REDIS_URL", "may name several servers of a cluster only"),
            Err(_) => self.fault("REDIS_URL", "is not valid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::for_both_stores(|name| {
            variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let config = read(&[("TABLE_NAME", "t"), ("REDIS_URL", "redis://localhost")]).unwrap();
        assert_eq!(config.policy.currency, "CNY");
        assert_eq!(config.policy.ack, AckMode::Ledger);
        assert_eq!(config.policy.limits, Limits::default());
        assert!(!config.redis.unwrap().cluster);
    }

    #[test]
    fn a_limit_is_one_of_the_days_of_a_zone() {
        let limit = |more: &[(&str, &str)]| {
            let needed = [("TABLE_NAME", "t"), ("REDIS_URL", "redis://localhost")];
            read(&[&needed, more].concat()).map(|config| (config.policy.daily_max, config.policy.day_zone))
        };
        let max = ("DAILY_SENT_MAX", "500");
        assert_eq!(limit(&[]).unwrap().0, None);
        let (most, zone) = limit(&[max]).unwrap();
        assert_eq!((most, zone.name()), (Some(Amount::new(500)), "Asia/Shanghai"));
        let (_, named) = limit(&[max, ("DAY_ZONE", "America/Sao_Paulo")]).unwrap();
        assert_eq!(named.name(), "America/Sao_Paulo");
        for zone in ["Asia/Peking", "CST", "+08:00", "s3cret"] {
            // A zone is also checked where there is no limit yet.
            let error = limit(&[("DAY_ZONE", zone)]).unwrap_err().to_string();
            let expected = "DAY_ZONE must be a time zone of the IANA, such as Asia/Shanghai";
            assert_eq!(error, format!("the configuration is not valid: {expected}"));
        }
    }

    #[test]
    fn one_message_names_every_fault_and_shows_no_value() {
        let error = read(&[
            ("CURRENCY", "yuan"),
            ("GRAB_ACK", "s3cret"),
            ("MAX_COUNT", "100001"),
            ("MAX_SLIP_AMOUNT", "0"),
            ("REDIS_CLUSTER", "yes"),
            ("REDIS_RESPONSE_TIMEOUT_MS", "-1"),
        ]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "the configuration is not valid: TABLE_NAME is required; \
             CURRENCY must be three capital letters (ISO 4217); GRAB_ACK must be ledger or redis; \
             MAX_SLIP_AMOUNT must be an integer from 1 to 1000000000; MAX_COUNT must be an integer from 1 to 100000; \
             REDIS_URL is required; REDIS_CLUSTER must be true or false; \
             REDIS_RESPONSE_TIMEOUT_MS must be an integer from 1 to 60000"
        );
    }

    #[test]
    fn an_invalid_redis_is_named_with_the_other_faults() {
        let faults = |variables: &[(&str, &str)]| {
            let error = read(variables).unwrap_err();
            assert_eq!(format!("{error:?}"), error.to_string());
            error.to_string().replace("the configuration is not valid: ", "")
        };
        let url = ("REDIS_URL", "http://user:s3cret@localhost");
        let ca = ("REDIS_CA", "/nowhere/ca.pem");
        let bad = "TABLE_NAME is required; REDIS_CA must be system, amazon, certificates (PEM) or a file of them; \
                   REDIS_URL is not valid";
        assert_eq!(faults(&[url, ca]), bad);
        let ca = ("REDIS_CA", "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n");
        assert!(faults(&[("TABLE_NAME", "t"), ("REDIS_URL", "rediss://a"), ca]).starts_with("REDIS_CA must be "));
        let several = ("REDIS_URL", "redis://a,redis://b");
        assert_eq!(faults(&[("TABLE_NAME", "t"), several]), "REDIS_URL may name several servers of a cluster only");
        assert!(read(&[("TABLE_NAME", "t"), several, ("REDIS_CLUSTER", "true")]).is_ok());
    }

    #[test]
    fn events_need_somewhere_to_go() {
        let error = Config::for_events(|_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the configuration is not valid: TABLE_NAME is required; EVENT_TARGET is required; EVENT_DEAD_LETTERS is required"
        );
    }

    #[test]
    fn webhooks_need_a_url_a_secret_and_a_queue() {
        let error =
            Config::for_webhooks(|name| (name == "WEBHOOK_ADDRESSES").then(|| "loopback".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the configuration is not valid: TABLE_NAME is required; WEBHOOK_URL is required; WEBHOOK_SECRET is required; \
             WEBHOOK_QUEUE is required; WEBHOOK_DEAD_LETTERS is required; WEBHOOK_ADDRESSES must be public or any"
        );
        let needed = ["TABLE_NAME", "WEBHOOK_URL", "WEBHOOK_SECRET", "WEBHOOK_QUEUE", "WEBHOOK_DEAD_LETTERS"];
        let config = Config::for_webhooks(|name| needed.contains(&name).then(|| "x".to_owned())).unwrap();
        assert_eq!(config.webhooks.addresses, WebhookAddresses::Public);
        assert!(read(&[("TABLE_NAME", "t"), ("REDIS_URL", "redis://a")]).unwrap().webhooks.url.is_empty());
    }

    #[test]
    fn tokens_need_a_user_a_cache_and_tls() {
        let by_iam = |url: &'static str, more: &[(&'static str, &'static str)]| {
            read(&[&[("TABLE_NAME", "t"), ("REDIS_AUTH", "iam"), ("REDIS_URL", url)], more].concat())
        };
        let names = [("REDIS_IAM_USER", "functions"), ("REDIS_IAM_CACHE", "hongbao-1")];
        let auth = by_iam("rediss://a", &names).unwrap().redis.unwrap().iam.unwrap();
        assert_eq!(auth, IamAuth { user: "functions".into(), cache: "hongbao-1".into(), serverless: false });
        let serverless = by_iam("rediss://a", &[names[0], names[1], ("REDIS_IAM_SERVERLESS", "true")]);
        assert!(serverless.unwrap().redis.unwrap().iam.unwrap().serverless);
        for (url, more, fault) in [
            ("redis://a", &names[..], "REDIS_URL must be rediss:// and without a user for REDIS_AUTH=iam"),
            ("rediss://user:s3cret@a", &names, "REDIS_URL must be rediss:// and without a user for REDIS_AUTH=iam"),
            ("rediss://a", &names[..1], "REDIS_IAM_CACHE is required"),
            ("rediss://a", &[names[0], ("REDIS_IAM_CACHE", "A&b=c")], "REDIS_IAM_CACHE must be an id of ElastiCache"),
            (
                "rediss://a",
                &[names[0], names[1], ("REDIS_IAM_SERVERLESS", "1")],
                "REDIS_IAM_SERVERLESS must be true or false",
            ),
        ] {
            let error = by_iam(url, more).unwrap_err().to_string();
            assert!(error.contains(fault) && !error.contains("s3cret") && !error.contains(';'), "{error}");
        }
        let neither = read(&[("TABLE_NAME", "t"), ("REDIS_URL", "redis://a"), ("REDIS_AUTH", "token")]);
        assert!(neither.unwrap_err().to_string().ends_with("REDIS_AUTH must be password or iam"));
        let password = read(&[("TABLE_NAME", "t"), ("REDIS_URL", "redis://a"), ("REDIS_AUTH", "password")]);
        assert_eq!(password.unwrap().redis.unwrap().iam, None);
    }
}
