use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use shared::domain::{Decision, Hold, PartId, Partition, Terms};
use shared::memory::MemoryHot;
use shared::ports::{
    Backlog, GrabAnswer, HotStore, HotStoreError, Loaded, OutboxEntry, PartAnswers, PartGrabs, PartState, Reconciled,
};

use crate::faults::Fault;
use crate::gate::Call;
use crate::history::judge_start;
use crate::mutants::HotMutant;
use crate::process::{Setup, is_settling};
use crate::world::{Life, World};

type Answer<V> = Result<V, HotStoreError>;

/// The hot store as one process reaches it: over an unreliable network, and perhaps on another primary.
pub struct SimHot {
    world: Arc<World>,
    life: Arc<Life>,
    slot: u32,
    mutant: HotMutant,
    setup: Setup,
}

impl SimHot {
    /// The world's hot store, for the process in `slot`.
    pub fn new(world: Arc<World>, life: Arc<Life>, slot: u32, setup: Setup) -> Self {
        let mutant = HotMutant::new(Arc::clone(&world), slot);
        Self { world, life, slot, mutant, setup }
    }

    /// A call: the script runs never, once or twice, now or late, independent of the answer that the caller receives.
    async fn call<V, F>(&self, part: PartId, what: &'static str, script: F) -> Answer<V>
    where
        V: fmt::Debug + Send + 'static,
        F: Fn(&MemoryHot) -> Answer<V> + Send + Sync + 'static,
    {
        let (world, slot) = (&self.world, self.slot);
        world.depart(&self.life, slot, Call::Script).await;
        if world.strikes(Fault::HotRequestLost) {
            return Err(lost());
        }
        let script = Arc::new(script);
        let late = world.strikes(Fault::HotLate);
        let answer = if late { Err(lost()) } else { execute(world, slot, part, what, &*script) };
        if late || world.strikes(Fault::HotTwice) {
            let (world, pause) = (Arc::clone(world), world.late());
            tokio::spawn(async move {
                world.arrive_late(slot, pause).await;
                let _ = execute(&world, slot, part, what, &*script);
            });
        }
        world.travel(&self.life).await;
        let answer = if world.strikes(Fault::HotReplyLost) { Err(lost()) } else { answer };
        world.hear(slot, || format!("{answer:?}"));
        answer
    }
}

impl fmt::Debug for SimHot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimHot").field("slot", &self.slot).finish_non_exhaustive()
    }
}

/// Runs a script.
fn execute<V: fmt::Debug>(
    world: &World,
    slot: u32,
    part: PartId,
    what: &str,
    script: &dyn Fn(&MemoryHot) -> Answer<V>,
) -> Answer<V> {
    world.operated();
    world.before_script(part);
    let answer = script(world.primary(slot));
    world.see_held(part);
    world.note(format_args!("p{slot} {what} {part}: {answer:?}"));
    answer
}

fn lost() -> HotStoreError {
    HotStoreError::Unavailable(Arc::from(Box::from("the simulation lost the answer")))
}

/// The answer of a store in memory, which never waits.
pub fn now<V>(future: impl Future<Output = V>) -> V {
    future.now_or_never().expect("memory answers at once")
}

impl HotStore for SimHot {
    fn lane(&self, part: PartId) -> u32 {
        part.partition().index()
    }

    /// The parts of a call are faulty one by one, so each goes by itself.
    async fn grab_each(&self, grabs: &[PartGrabs]) -> Answer<Vec<PartAnswers>> {
        let mut answers = Vec::new();
        for part_grabs in grabs {
            answers.push(self.grab_one(part_grabs).await?);
        }
        Ok(answers)
    }

    async fn reconcile(
        &self,
        part: PartId,
        count: u32,
        decisions: &[Decision],
        resolved: &[Hold],
    ) -> Answer<Reconciled> {
        let (decisions, resolved) = (decisions.to_vec(), resolved.to_vec());
        self.call(part, "reconcile", move |hot| now(hot.reconcile(part, count, &decisions, &resolved))).await
    }

    async fn release(&self, part: PartId, count: u32, hold: &Hold) -> Answer<()> {
        let hold = hold.clone();
        let (mutant, is_settle) = (self.world.mutant, is_settling());
        let release = move |hot: &MemoryHot| {
            let goes_on = HotMutant::before_release(mutant, hot, part, &hold, is_settle);
            if goes_on { now(hot.release(part, count, &hold)) } else { Ok(()) }
        };
        self.call(part, "release", release).await
    }

    async fn tidy(&self, part: PartId) -> Answer<()> {
        self.call(part, "tidy", move |hot| now(hot.tidy(part))).await
    }

    async fn load(&self, part: PartId, terms: &Terms, is_closed: bool, decisions: &[Decision]) -> Answer<Loaded> {
        if !is_closed {
            self.world.before_load(terms).await;
        }
        let is_closed = self.mutant.load(is_closed);
        let (terms, decisions, mutant) = (terms.clone(), decisions.to_vec(), self.world.mutant);
        let load = move |hot: &MemoryHot| {
            HotMutant::before_load(mutant, hot, part);
            now(hot.load(part, &terms, is_closed, &decisions))
        };
        self.call(part, "load", load).await
    }

    async fn close(&self, part: PartId) -> Answer<bool> {
        let (mutant, is_settle) = (self.world.mutant, is_settling());
        let close = move |hot: &MemoryHot| {
            HotMutant::close(mutant, hot, part, is_settle).unwrap_or_else(|| now(hot.close(part)))
        };
        self.call(part, "close", close).await
    }

    async fn acquire_load_lease(&self, part: PartId, lease: Duration) -> Answer<bool> {
        self.call(part, "acquire_load_lease", move |hot| now(hot.acquire_load_lease(part, lease))).await
    }

    async fn release_load_lease(&self, part: PartId) -> Answer<()> {
        self.call(part, "release_load_lease", move |hot| now(hot.release_load_lease(part))).await
    }

    async fn part_state(&self, part: PartId) -> Answer<Option<PartState>> {
        self.call(part, "part_state", move |hot| now(hot.part_state(part))).await
    }

    async fn pending_parts(&self, partition: Partition) -> Answer<Vec<PartId>> {
        self.mutant.before_pending();
        if now(self.world.primary(self.slot).pending_parts(partition)).is_ok_and(|parts| parts.is_empty()) {
            // Most partitions are empty. An empty answer skips the fault injection.
            return Ok(Vec::new());
        }
        self.world.depart(&self.life, self.slot, Call::Look).await;
        if self.world.strikes(Fault::HotRequestLost) {
            return Err(lost());
        }
        let parts = now(self.world.primary(self.slot).pending_parts(partition));
        self.world.note(format_args!("p{} pending {}: {parts:?}", self.slot, partition.index()));
        self.world.travel(&self.life).await;
        self.world.hear(self.slot, || format!("{parts:?}"));
        parts
    }

    async fn backlog(&self, partition: Partition) -> Answer<Backlog> {
        self.world.depart(&self.life, self.slot, Call::Look).await;
        if self.world.strikes(Fault::HotRequestLost) {
            return Err(lost());
        }
        let backlog = now(self.world.primary(self.slot).backlog(partition));
        self.world.note(format_args!("p{} backlog {}: {backlog:?}", self.slot, partition.index()));
        self.world.travel(&self.life).await;
        self.world.hear(self.slot, || format!("{backlog:?}"));
        backlog
    }

    async fn outbox(&self, part: PartId) -> Answer<Vec<OutboxEntry>> {
        let mutant = self.world.mutant;
        let outbox = move |hot: &MemoryHot| {
            let held = now(hot.outbox(part));
            HotMutant::after_outbox(mutant, hot, part);
            held
        };
        let held = self.call(part, "held", outbox).await?;
        Ok(self.mutant.outbox(part, held))
    }

    async fn park(&self, part: PartId, hold: &Hold, reason: &str) -> Answer<()> {
        let (hold, reason) = (hold.clone(), reason.to_owned());
        self.call(part, "park", move |hot| now(hot.park(part, &hold, &reason))).await
    }
}

impl SimHot {
    async fn grab_one(&self, grabs: &PartGrabs) -> Answer<PartAnswers> {
        let PartGrabs { part, grabbers } = grabs.clone();
        let (world, setup) = (Arc::clone(&self.world), self.setup);
        let grab = move |hot: &MemoryHot| {
            HotMutant::before_grab(&world, hot, part, &grabbers, setup.skew_ms);
            let found = now(hot.grab(part, &grabbers));
            judge_start(&world, part.packet, found.as_ref().ok().and_then(Option::as_deref).unwrap_or_default());
            found
        };
        let mut found = self.call(part, "grab", grab).await?;
        for (grabber, found) in grabs.grabbers.iter().zip(found.iter_mut().flatten()) {
            self.mutant.before_lie(part, grabber, found);
            self.lie(part, found);
            self.mutant.after_grab(part, found);
        }
        Ok(found)
    }

    /// Lets the hot store name another slip than the one that it holds for a user.
    fn lie(&self, part: PartId, found: &mut GrabAnswer) {
        let GrabAnswer::Held { slip, .. } = found else { return };
        let Some(terms) = self.world.terms(part.packet) else { return };
        if self.world.strikes(Fault::Lie) {
            let slips = part.slips(terms.count);
            *slip = self.world.chance.between(slips.start..=slips.end - 1);
        }
    }
}
