//! What a rush costs, from the same list of prices and work as `scripts/cost.py`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::PlanError;
use crate::inputs::Inputs;
use crate::outcome::Outcome;

/// The list of prices and work.
const LIST: &str = include_str!("../../scripts/cost.json");

type Figures = BTreeMap<String, (f64, String)>;

/// Prices, and the work of a request.
#[derive(Clone, Debug)]
pub struct Costs {
    prices: Figures,
    work: Figures,
}

/// A part of a cost, in dollars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// What it is for.
    pub of: &'static str,
    /// Dollars.
    pub dollars: f64,
}

/// The work of one request.
#[derive(Default)]
struct Work {
    milliseconds: f64,
    writes: f64,
    reads: f64,
    /// Bytes of its lines in the function's log.
    logged: f64,
    redis_writes: f64,
}

impl Costs {
    /// The recorded list.
    pub fn recorded() -> Result<Self, PlanError> {
        let mut list: BTreeMap<String, Figures> = serde_json::from_str(LIST).map_err(PlanError::Costs)?;
        let mut take = |name: &str| list.remove(name).unwrap_or_default();
        Ok(Self { prices: take("prices"), work: take("work") })
    }

    /// A figure of the work of a request. A name that the list lacks is 0; a test compares the sums with those of the script.
    pub(crate) fn work(&self, name: &str) -> f64 {
        self.work.get(name).map_or(0.0, |(value, _)| *value)
    }

    fn price(&self, name: &str) -> f64 {
        self.prices.get(name).map_or(0.0, |(value, _)| *value)
    }

    fn line(&self, bytes: &str) -> f64 {
        self.work(bytes) + self.work("event-bytes")
    }

    /// Dollars of a million wins, losses and sends of a packet, without those of the page.
    #[must_use]
    pub fn a_million(&self, inputs: &Inputs) -> [f64; 3] {
        let win = Work {
            milliseconds: self.work("winner-ms"),
            writes: self.work("winner-writes"),
            logged: self.line("win-log") + self.line("win-metrics"),
            redis_writes: self.work("sync-writes"),
            ..Work::default()
        };
        let loss = Work {
            milliseconds: self.work("loser-ms"),
            reads: self.work("loser-reads"),
            logged: self.line("loss-log") + self.line("loss-metrics") / self.work("losses-a-line"),
            ..Work::default()
        };
        let send = Work {
            milliseconds: self.work("send-ms"),
            writes: self.work("packet-writes"),
            reads: self.work("send-reads"),
            logged: self.line("request-log"),
            redis_writes: 1.0,
        };
        [win, loss, send].map(|work| self.dollars(&work, inputs) * 1e6)
    }

    /// Dollars of one request.
    fn dollars(&self, request: &Work, inputs: &Inputs) -> f64 {
        let (price, work) = (|name| self.price(name), |name| self.work(name));
        let syncs = inputs.redis_sync;
        let seconds = (request.milliseconds + syncs * request.redis_writes * work("sync-ms")) / 1e3;
        let accessed = self.line("access-log");
        let logged = request.logged + work("platform-log");
        let between_zones = work("zone-bytes") * (work("zones") - 1.0) / work("zones");
        let redis_bytes = if request.redis_writes > 0.0 { work("sync-bytes") } else { 0.0 };
        let million = price("api-price")
            + price("request-price")
            + request.writes * price("write-price")
            + request.reads * price("read-price");
        let gigabyte = (logged + accessed) * (price("log-price") + price("kept-log-price"))
            + between_zones * price("zone-price")
            + work("answer-bytes") * price("out-price")
            + syncs * redis_bytes * price("sync-price");
        million / 1e6 + gigabyte / 1e9 + seconds * work("memory-mb") / 1024.0 * price("gb-second-price")
    }

    /// What a rush costs by its requests: its packet, its calls, the claim items that losers read, and the tries that Lambda refused. Tries
    /// that API Gateway itself refuses cost nothing.
    fn of_requests(&self, outcome: &Outcome, inputs: &Inputs) -> f64 {
        let [win, loss, send] = self.a_million(inputs);
        let wins = outcome.committed as f64;
        let losses = (outcome.invocations as f64 - wins).max(0.0);
        let refused = (outcome.accepted - outcome.invocations) as f64;
        let reads = outcome.claim_reads as f64;
        (wins * win + losses * loss + send + reads * self.price("read-price") + refused * self.price("api-price")) / 1e6
    }

    /// What rushes cost: their requests, and what runs beyond the template's defaults for the hours of the plan.
    #[must_use]
    pub fn of_rushes<'a>(&self, outcomes: impl IntoIterator<Item = &'a Outcome>, inputs: &Inputs) -> [Cost; 4] {
        let requests = outcomes.into_iter().map(|outcome| self.of_requests(outcome, inputs)).sum();
        let gigabytes = self.work("memory-mb") / 1024.0;
        let seconds = inputs.hours * 3_600.0;
        let shards = (inputs.redis_shards - 1.0).max(0.0);
        let warmed = (inputs.table_warm - inputs.table_new).max(0.0) * self.price("warm-price")
            + (inputs.reads_warm - inputs.reads_new).max(0.0) * self.price("warm-read-price");
        [
            Cost { of: "requests, and the packets", dollars: requests },
            Cost {
                of: "environments that always run",
                dollars: inputs.grab_provisioned * gigabytes * seconds * self.price("provisioned-price"),
            },
            Cost {
                of: "shards beyond the first",
                dollars: shards * self.work("nodes") * inputs.hours * self.price("node-price"),
            },
            Cost { of: "warming the table, once", dollars: warmed },
        ]
    }
}
