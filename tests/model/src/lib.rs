//! The protocol of a packet as a state machine, small enough for a checker to visit every reachable state.
//!
//! It mirrors the engine step by step. A step is one outside effect: a script of the hot store, a transaction of the
//! ledger, or a consistent read. Between two steps all other actors may act, any actor may die, the packet may expire,
//! and the hot store may lose data.
//!
//! | here | in the engine (`shared/src`) |
//! |---|---|
//! | [`hot`]: `grab`, `reconcile`, `load`, `close`, `outbox` | `redis/lua/{grab,reconcile,load,close,outbox}.lua` |
//! | [`ledger`]: `claim`, `refund` | `ledger/claim.rs`, `ledger/refund.rs`, with the retries of `ledger/commit.rs` |
//! | [`grab`]: `Pass`, `InDoubt` | `GrabSlip::grab` and `pass` in `service/grab/mod.rs` |
//! | [`grab`]: `Commit`, `Release`, `Reconcile` | `GrabSlip::commit` and `reconcile`; `HotStore::release` |
//! | [`grab`]: `NotLoaded`, `ReadPart`, `Load`, `ReadRepair` | `Loader::ensure_alone`, `load`, `repair_alone` in `service/load.rs` |
//! | [`grab`]: `Forgotten`, `IsSettled`, `SinceSettled` | `GrabSlip::expired_and_forgotten` |
//! | [`state::State::is_final`] | `service/grab/final_packets.rs`, `GrabSlip::answer_final` |
//! | [`protocol::Action::WinElsewhere`] | the bounds of `Write::Add` in `writes` of `ledger/claim.rs`; `service/grab/winners.rs`, `GrabSlip::answer_winner` |
//! | [`settle`]: `Ready` to `IsEmpty` | `Outboxes::drain`, `persist` in `service/settle/outbox.rs`; `Settle::drain` in `service/settle/refund.rs` |
//! | [`settle`]: `Packet` to `ReconcileParts` | `Settle::try_portion`, `refund_chunk`, `reconcile` in `service/settle/refund.rs` |
//! | [`settle`]: `Operator`, `Closing` | `ClosePacket::close`, `Closer::close_part` in `service/close.rs` |
//! | [`state::State::sending`] | `SendPacket::send` in `service/send.rs` |
//!
//! Faults:
//! - An actor dies after any of its writes.
//! - A transaction's result is unknown, and it is sent again.
//! - A call is executed a second time, or after its actor has died.
//! - A grab whose claim is committed answers before the hot store is reconciled, which may also never happen. So does one whose claim is
//!   refused before its hold is released.
//! - A run of settle can't commit a hold, or release it, and goes on without it. It can't close a part: without promises it goes on to the refund.
//! - The hot store, or the node of one part, goes back to an earlier state, or loses everything.
//! - A loader knows no decision.
//! - The clocks of two processes differ.
//!
//! Left out, because it would show no more:
//! - times and amounts: a claim item carries both, and never changes. So the pause before the second pass takes no time here;
//! - the order of free slips: a grab takes the lowest. A slip that is put back may come before or after the others;
//! - how much a user has won: a packet's limit is reached at some moment, or is not. A limit of amounts may refuse one slip and allow a
//!   smaller one;
//! - guards and parked holds: they only remove steps;
//! - the loader's read of whether the packet is closed, in instances without a close;
//! - the lease of a load: any number of processes may load at once;
//! - batched claims: they equal single claims without another step in between.
//!
//! A query of decisions is one step here; `DynamoDB` reads it item by item. The model has no hot store that invents
//! holds.
//!
//! Two properties look ahead from each state. If all actors died now and the packet expired, one run of settle leaves nothing behind.
//! If a user asked again now, and nobody else did anything, they would learn the truth.
//!
//! [`properties`] lists the properties of each state, [`instance`] the checked bounds, and [`instance::Mutant`] the mistakes that the
//! checker must find.

pub mod grab;
pub mod hot;
pub mod instance;
pub mod ledger;
pub mod properties;
pub mod protocol;
pub mod settle;
pub mod state;

use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, Model, Path};

use instance::{Instance, Mutant, of_mutant};
pub use protocol::{Action, Protocol};
pub use state::State;

/// The longest counterexample to search for, in steps.
const DEPTH_MAX: usize = 20;

/// The result for one instance.
pub struct Report {
    /// Number of different states.
    pub states: usize,
    /// Duration of the check.
    pub time: Duration,
    /// Whether every state that can be reached was visited.
    pub is_complete: bool,
    /// Properties that should always hold, and do not.
    pub broken: Vec<&'static str>,
    /// Events that should happen in some instance, and do not in this one.
    pub missed: Vec<&'static str>,
}

/// Visits every state of an instance.
pub fn check(instance: &Instance) -> Report {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checker = Protocol(*instance).checker().threads(threads).spawn_dfs().join();
    let found = checker.discoveries();
    let properties: Vec<_> = checker.model().properties();
    let names = |wanted: Expectation, is_found: bool| {
        let wanted = properties.iter().filter(move |property| property.expectation == wanted);
        wanted.map(|property| property.name).filter(|name| found.contains_key(name) == is_found).collect()
    };
    Report {
        states: checker.unique_state_count(),
        time: started.elapsed(),
        // The checker ends when it has a discovery for each property, or has visited every state.
        is_complete: checker.is_done() && found.len() < properties.len(),
        broken: names(Expectation::Always, true),
        missed: names(Expectation::Sometimes, false),
    }
}

/// The shortest way, in steps, to a state that breaks the property that a mutant should break, if there is one.
pub fn refute(mutant: Mutant) -> Option<Vec<Action>> {
    let (instance, property) = of_mutant(mutant);
    // Increases the depth step by step: a checker continues for a while after a discovery, and keeps the last one.
    (2..DEPTH_MAX).find_map(|depth| {
        let checker = Protocol(instance).checker().target_max_depth(depth).spawn_bfs().join();
        checker.discovery(property).map(Path::into_actions)
    })
}

impl Report {
    /// Whether every state was visited and no property is broken.
    pub fn is_good(&self) -> bool {
        self.is_complete && self.broken.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, time, is_complete, broken, .. } = self;
        let all = if *is_complete { "all" } else { "NOT ALL" };
        write!(f, "{all} {states} states, {:.1} s", time.as_secs_f64())?;
        broken.iter().try_for_each(|name| write!(f, "; BROKEN: {name}"))
    }
}
