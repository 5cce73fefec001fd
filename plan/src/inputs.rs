//! Every number that a plan takes for granted, with its default and where that comes from.

use serde::Serialize;

use crate::PlanError;

/// An input as it is listed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Input {
    /// Its name for `--set`.
    pub name: &'static str,
    /// Its value now.
    pub value: f64,
    /// What it is, with its unit.
    pub meaning: &'static str,
    /// Where its default comes from: the template, a page of AWS, the code or a document that says it, or nobody has measured it yet.
    pub source: &'static str,
}

macro_rules! inputs {
    ($($field:ident $name:literal $default:literal $source:expr, $meaning:literal;)*) => {
        /// The inputs of a plan.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Inputs {
            $(#[doc = $meaning] pub $field: f64,)*
        }

        impl Default for Inputs {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Inputs {
            /// All inputs, in the order of the way.
            #[must_use]
            pub fn list(&self) -> Vec<Input> {
                vec![$(Input { name: $name, value: self.$field, meaning: $meaning, source: $source },)*]
            }

            fn field(&mut self, name: &str) -> Option<(&'static str, &mut f64)> {
                match name {
                    $($name => Some(($name, &mut self.$field)),)*
                    _ => None,
                }
            }
        }
    };
}

/// The source of the template's parameters.
pub const TEMPLATE: &str = "template.yaml";
/// What the templates fix, or leave to AWS.
const FIXED: &str = "template.yaml, stacks/state.yaml";
const ASSUMED: &str = "assumed";
const GATEWAY: &str = "docs.aws.amazon.com/apigateway/latest/developerguide/limits.html";
const RAMP: &str = "docs.aws.amazon.com/lambda/latest/dg/scaling-behavior.html";
const REQUESTS: &str = "docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html";
const ON_DEMAND: &str = "docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html";
const TABLE_QUOTA: &str = "docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html";
const MEASURED: &str = "docs/PERFORMANCE.md";
const PROBLEM: &str = "shared/src/http/problem.rs";
const TIMEOUTS: &str = "shared/src/timeouts.rs";
const GRAB: &str = "shared/src/service/grab";
const CLIENTS: &str = "clients/js/hongbao.js, clients/rust/src/lib.rs";

inputs! {
    grab_rate "GrabRate" 5_000.0 TEMPLATE, "grabs a second that API Gateway accepts";
    grab_burst "GrabBurst" 5_000.0 FIXED, "burst of grabs that it accepts";
    grab_provisioned "GrabProvisioned" 0.0 TEMPLATE, "environments of grab that always run";
    account_concurrency "AccountConcurrency" 1_000.0 REQUESTS, "executions at once in the account and region";
    grab_ack_ledger "GrabAck" 1.0 TEMPLATE, "1 ledger, 0 redis: when a winner is answered";
    redis_shards "RedisShards" 1.0 TEMPLATE, "shards of the cluster, each with one core for scripts";
    redis_timeout_ms "RedisResponseTimeoutMs" 500.0 "shared/src/config.rs", "ms that a function waits for Redis, twice at most";
    redis_sync "RedisDurability" 1.0 FIXED, "1 sync, 0 async or disabled: whether a write waits for a replica";
    table_warm "TableWarmWrites" 0.0 FIXED, "write units a second that the table takes at once; 0: as a new one";
    reads_warm "TableWarmReads" 0.0 FIXED, "read units a second that the table takes at once; 0: as a new one";

    api_rate "api-rate" 10_000.0 GATEWAY, "requests a second of the account and region";
    api_burst "api-burst" 5_000.0 GATEWAY, "burst of them";
    ramp "ramp" 1_000.0 RAMP, "executions that a function gains in each ramp-seconds";
    ramp_seconds "ramp-seconds" 10.0 RAMP, "seconds in which it gains them, refilled continuously";
    requests_per_execution "requests-per-execution" 10.0 REQUESTS, "requests a second for each execution that is allowed";
    table_new "table-new" 4_000.0 ON_DEMAND, "write units a second of a new table on demand";
    reads_new "reads-new" 12_000.0 ON_DEMAND, "read units a second of a new table on demand";
    reads_quota "reads-quota" 40_000.0 TABLE_QUOTA, "read units a second of a table at most";
    table_quota "table-quota" 40_000.0 TABLE_QUOTA, "write units a second of a table at most";

    network_ms "network-ms" 50.0 ASSUMED, "ms from a user to API Gateway and back";
    cold_ms "cold-ms" 200.0 ASSUMED, "ms of a cold start; the functions' own part is 20 (docs/PERFORMANCE.md)";
    redis_ms "redis-ms" 0.5 ASSUMED, "ms from a function to Redis and back";
    win_us "win-us" 18.2 MEASURED, "µs of a shard's core for a call that holds a slip, with its connection and TLS";
    lose_us "lose-us" 16.4 MEASURED, "the same for a call that finds none";
    reconcile_us "reconcile-us" 43.4 MEASURED, "the same for the call that reconciles a claim";
    handshake_us "handshake-us" 600.0 ASSUMED, "µs of a shard's core for a TLS handshake; each start makes one a shard";
    warm_executions "warm-executions" 0.0 ASSUMED, "environments of grab that still run from the minutes before";
    idle_minutes "idle-minutes" 5.0 ASSUMED, "minutes that Lambda keeps an idle environment; AWS documents no figure";

    tries "tries" 4.0 CLIENTS, "tries of a client before it gives up";
    pause_first_ms "pause-first-ms" 250.0 CLIENTS, "ms of its first pause at most; doubles with each try, full jitter";
    pause_max_ms "pause-max-ms" 4_000.0 CLIENTS, "ms of a pause at most";
    retry_after_ms "retry-after-ms" 1_000.0 PROBLEM, "ms to wait that a function's 503 asks for";
    claim_ms "claim-ms" 3_000.0 TIMEOUTS, "ms within which a throttled claim is tried again";
    doubt_ms "doubt-ms" 100.0 GRAB, "ms at most that a loser in doubt waits before it asks once more; half of it at least";
    final_ms "final-ms" 60_000.0 GRAB, "ms for which a process remembers that a packet of several parts is decided";
    hours "hours" 1.0 ASSUMED, "hours for which raised environments and shards are paid";
}

impl Inputs {
    /// Sets an input from `NAME=VALUE`. Values of the template that are words are accepted as words.
    pub fn set(&mut self, assignment: &str) -> Result<(), PlanError> {
        let (name, text) = assignment.split_once('=').ok_or_else(|| PlanError::NoInput(assignment.to_owned()))?;
        let (name, value) = self.field(name).ok_or_else(|| PlanError::NoInput(name.to_owned()))?;
        *value = match (name, text) {
            ("GrabAck", "ledger") | ("RedisDurability", "sync") => 1.0,
            ("GrabAck", "redis") | ("RedisDurability", "async" | "disabled") => 0.0,
            _ => {
                let number = text.replace(['_', ','], "").parse().ok();
                number.filter(|number| (0.0..=1e12).contains(number)).ok_or(PlanError::BadInput(name, "a number"))?
            }
        };
        let is_whole_count = ["tries", "RedisShards", "ramp-seconds"].contains(&name);
        if is_whole_count && *value < 1.0 {
            return Err(PlanError::BadInput(name, "1 or more"));
        }
        Ok(())
    }

    /// Environments that run when a rush begins.
    #[must_use]
    pub const fn running(&self) -> f64 {
        self.grab_provisioned.max(self.warm_executions).min(self.account_concurrency)
    }

    /// Write units a second that the table takes when the rush begins.
    #[must_use]
    pub fn table_rate(&self) -> f64 {
        self.table_new.max(self.table_warm).min(self.table_quota)
    }

    /// Read units a second that the table takes.
    #[must_use]
    pub fn reads_rate(&self) -> f64 {
        self.reads_new.max(self.reads_warm).min(self.reads_quota)
    }
}
