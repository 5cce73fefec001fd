use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use shared::domain::{AckMode, Limits};
use shared::ledger::Ledger;
use shared::ports::{Clock, Entropy};
use shared::service::{Failure, GrabSlip, SendPacket, SendPolicy, Settle, Stores, ViewPackets, Wallets};

use crate::faults::Fault;
use crate::hot::SimHot;
use crate::table::SimTable;
use crate::world::{Life, SkewedClock, World};

/// The currency of every run.
pub const CURRENCY: &str = "CNY";
/// So few are a crowd here.
const CROWD: usize = 2;
/// After this long a caller gives up.
const CALLER_WAITS: Duration = Duration::from_secs(29);
/// The most times that a call which is dropped is polled before.
const POLLS_MAX: u32 = 40;

/// How a process is configured.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// When its packets' grabs are answered.
    pub ack: AckMode,
    /// How long after its expiry a packet's refund waits.
    pub grace: Duration,
    /// How far its clock is ahead of the hot store's.
    pub skew_ms: i64,
    /// Whether it goes on between requests: then winners are answered before the hot store knows of their claims.
    pub runs_on: bool,
    /// So many transactions of a packet's claims are under way at once before claims go together.
    pub claims_at_once: usize,
}

/// The use cases as one process has them, with caches of its own.
pub struct Process {
    /// Sending.
    pub send: SendPacket<SimTable, SimHot>,
    /// Grabbing.
    pub grab: GrabSlip<SimTable, SimHot>,
    /// Settling.
    pub settle: Settle<SimTable, SimHot>,
    /// Looking.
    pub view: ViewPackets<SimTable, SimHot>,
    /// Money in and out.
    pub wallets: Wallets<SimTable>,
    /// What they stand on.
    pub ledger: Arc<Ledger<SimTable>>,
    /// Its clock.
    pub clock: Arc<SkewedClock>,
    /// How it is configured.
    pub setup: Setup,
    world: Arc<World>,
    life: Arc<Life>,
}

impl Process {
    fn start(world: &Arc<World>, slot: u32, setup: Setup) -> Arc<Self> {
        let life = Arc::<Life>::default();
        let entropy = || Arc::clone(&world.chance) as Arc<dyn Entropy>;
        let clock = Arc::new(SkewedClock::new(world.start(), setup.skew_ms));
        let now = || Arc::clone(&clock) as Arc<dyn Clock>;
        let table = SimTable::new(Arc::clone(world), Arc::clone(&life), slot);
        let ledger = Arc::new(Ledger::new(table, entropy()));
        let hot = Arc::new(SimHot::new(Arc::clone(world), Arc::clone(&life), slot));
        let stores = Stores::new(Arc::clone(&ledger), hot, now(), entropy());
        let grab = GrabSlip::new(stores.clone(), CURRENCY.to_owned()).with_bulk_min(CROWD);
        let grab = grab.with_transactions(setup.claims_at_once);
        let policy = SendPolicy { currency: CURRENCY.to_owned(), ack: setup.ack, limits: Limits::default() };
        Arc::new(Self {
            send: SendPacket::new(stores.clone(), policy),
            grab: if setup.runs_on { grab.running_on() } else { grab },
            view: ViewPackets::new(stores.clone(), CURRENCY.to_owned()),
            settle: Settle::new(stores, setup.grace),
            wallets: Wallets::new(Arc::clone(&ledger), now(), CURRENCY.to_owned()),
            ledger,
            clock,
            setup,
            world: Arc::clone(world),
            life,
        })
    }

    /// What a caller hears of `work`; `None`: nothing, since the process was killed, or the caller went away.
    pub async fn call<V>(&self, work: impl Future<Output = Result<V, Failure>>) -> Option<Result<V, Failure>> {
        let mut polls = self.world.strikes(Fault::Dropped).then(|| self.world.chance.between(1..=POLLS_MAX));
        let mut work = pin!(work);
        let work = poll_fn(move |context| match &mut polls {
            Some(0) => Poll::Ready(None),
            left => {
                if let Some(left) = left {
                    *left -= 1;
                }
                work.as_mut().poll(context).map(Some)
            }
        });
        let work = pin!(tokio::time::timeout(CALLER_WAITS, work));
        let ended = pin!(self.life.ended());
        match select(ended, work).await {
            Either::Left(_) => None,
            Either::Right((heard, _)) => heard.ok().flatten(),
        }
    }
}

/// The processes of a run, each in its slot.
pub struct Slots {
    world: Arc<World>,
    setups: Vec<Setup>,
    running: Mutex<Vec<Arc<Process>>>,
}

impl Slots {
    /// One process for each of `setups`.
    pub fn start(world: &Arc<World>, setups: Vec<Setup>) -> Self {
        let numbered = (0_u32..).zip(&setups);
        let running = numbered.map(|(slot, setup)| Process::start(world, slot, *setup)).collect();
        Self { world: Arc::clone(world), setups, running: Mutex::new(running) }
    }

    /// One of the processes; one that is dead has a successor by now.
    pub fn any(&self) -> Arc<Process> {
        let slot = self.world.chance.between(0..=u32::try_from(self.setups.len() - 1).unwrap());
        let process = Arc::clone(&self.running.lock().unwrap()[slot as usize]);
        if !process.life.is_over() {
            return process;
        }
        self.kill(slot);
        Arc::clone(&self.running.lock().unwrap()[slot as usize])
    }

    /// Kills one of the processes. Another one takes its place, which knows nothing.
    pub fn kill_any(&self) {
        self.world.struck(Fault::Killed);
        let slot = self.world.chance.between(0..=u32::try_from(self.setups.len() - 1).unwrap());
        self.kill(slot);
    }

    /// Kills all of them.
    pub fn restart(&self) {
        for slot in 0..u32::try_from(self.setups.len()).unwrap() {
            self.kill(slot);
        }
    }

    fn kill(&self, slot: u32) {
        self.world.note(format_args!("p{slot} is killed"));
        let successor = Process::start(&self.world, slot, self.setups[slot as usize]);
        let killed = std::mem::replace(&mut self.running.lock().unwrap()[slot as usize], successor);
        killed.life.end();
    }
}
