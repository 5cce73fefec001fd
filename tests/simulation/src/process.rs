use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use shared::domain::{
    AckMode, Amount, Amounts, DailyLimit, DayZone, Guard, IdempotencyKey, Limits, MAX_MOVEMENT, PacketId,
    PassphraseDigest, SPLIT_VERSION, Seed, Terms, split,
};
use shared::ledger::{Ledger, SendOutcome, SendRequest};
use shared::ports::{Clock, Entropy};
use shared::service::{
    ClosePacket, Failure, GrabSlip, NewPacket, SendPacket, SendPolicy, Settle, Stores, ViewPackets, Wallets,
};

use crate::faults::Fault;
use crate::hot::SimHot;
use crate::table::SimTable;
use crate::world::{Life, SkewedClock, World};

/// The currency of every run.
pub const CURRENCY: &str = "CNY";
/// A caller gives up after this long.
const CALLER_WAITS: Duration = Duration::from_secs(29);
/// A dropped call is polled at most this often before.
const POLLS_MAX: u32 = 40;

tokio::task_local! {
    /// Set in a run of settle.
    static SETTLING: ();
}

/// Runs settle, so that [`is_settling`] is true in it.
pub fn settling<F: Future>(run: F) -> impl Future<Output = F::Output> {
    SETTLING.scope((), run)
}

/// Whether a run of settle asks.
pub fn is_settling() -> bool {
    SETTLING.try_with(|()| ()).is_ok()
}

/// How a process is configured.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The acknowledgement mode of its packets.
    pub ack: AckMode,
    /// The grace of its packets.
    pub grace: Duration,
    /// How far its clock is ahead of the hot store's.
    pub skew_ms: i64,
    /// Whether work continues between requests. If it does, winners are answered before the hot store knows their
    /// claims.
    pub is_never_frozen: bool,
    /// Transactions of one packet's claims that run at once before claims are batched.
    pub claims_at_once: usize,
}

/// One process: the use cases, with caches of their own.
pub struct Process {
    /// Sends packets.
    pub send: SendPacket<SimTable, SimHot>,
    /// Grabs slips.
    pub grab: GrabSlip<SimTable, SimHot>,
    /// Closes packets.
    pub close: ClosePacket<SimTable, SimHot>,
    /// Settles packets.
    pub settle: Settle<SimTable, SimHot>,
    /// Reads packets, claims and histories.
    pub view: ViewPackets<SimTable, SimHot>,
    /// Deposits and withdraws.
    pub wallets: Wallets<SimTable>,
    /// The ledger, which the use cases share.
    pub ledger: Arc<Ledger<SimTable>>,
    /// The process's clock.
    pub clock: Arc<SkewedClock>,
    /// The process's configuration.
    pub setup: Setup,
    world: Arc<World>,
    life: Arc<Life>,
}

/// The zone of a process's days: others have another one, as during a change of it. The date in these is never the same.
fn zone_of(slot: u32) -> DayZone {
    let name = if slot.is_multiple_of(2) { "Pacific/Kiritimati" } else { "Pacific/Pago_Pago" };
    name.parse().expect("a zone")
}

impl Process {
    /// A process in `slot`, without caches.
    pub fn start(world: &Arc<World>, slot: u32, setup: Setup) -> Arc<Self> {
        let life = Arc::<Life>::default();
        let entropy = world.entropy(slot);
        let clock = Arc::new(world.clock(setup.skew_ms));
        let now = || Arc::clone(&clock) as Arc<dyn Clock>;
        let table = SimTable::new(Arc::clone(world), Arc::clone(&life), slot);
        let ledger = Arc::new(Ledger::new(table, Arc::clone(&entropy)));
        let hot = Arc::new(SimHot::new(Arc::clone(world), Arc::clone(&life), slot, setup));
        let stores = Stores::new(Arc::clone(&ledger), hot, now(), entropy);
        let grab = GrabSlip::new(stores.clone(), CURRENCY.to_owned()).with_transactions(setup.claims_at_once);
        let (daily_max, day_zone) = (world.daily_max(), zone_of(slot));
        let policy = SendPolicy {
            currency: CURRENCY.to_owned(),
            ack: setup.ack,
            limits: Limits::default(),
            daily_max,
            day_zone,
        };
        let settle = Settle::new(stores.clone(), setup.grace);
        // Where time stands still, no hold ever becomes old enough.
        let settle = if world.gate.is_some() { settle.with_least_age(Duration::ZERO) } else { settle };
        Arc::new(Self {
            send: SendPacket::new(stores.clone(), policy),
            grab: if setup.is_never_frozen { grab.never_frozen() } else { grab },
            view: ViewPackets::new(stores.clone()),
            close: ClosePacket::new(stores, CURRENCY.to_owned()),
            settle,
            wallets: Wallets::new(Arc::clone(&ledger), now(), CURRENCY.to_owned(), MAX_MOVEMENT),
            ledger,
            clock,
            setup,
            world: Arc::clone(world),
            life,
        })
    }

    /// Sends a packet in several parts, which no user can send if it is small.
    pub async fn send_in_parts(
        &self,
        new: NewPacket,
        parts: u32,
        key: &IdempotencyKey,
        daily_limit: Option<&DailyLimit>,
    ) -> Result<(Terms, SendOutcome), Failure> {
        let terms = self.terms(new, parts);
        let slips = split(terms.split, terms.total, terms.count, terms.cap, terms.seed).expect("it can be split");
        let part = |slips: &[u64]| Amounts::pack(slips).expect("amounts that fit");
        let ranges = terms.id.parts().map(|part| part.slips(terms.count));
        let amounts: Vec<Amounts> =
            ranges.map(|range| part(&slips[range.start as usize..range.end as usize])).collect();
        let request = SendRequest { terms: &terms, amounts: &amounts, key, body_hash: [7; 32], daily_limit };
        let sent = self.ledger.send(&request).await?;
        Ok((terms, sent))
    }

    fn terms(&self, new: NewPacket, parts: u32) -> Terms {
        let mut bytes = [0; 42];
        self.world.chance.fill(&mut bytes);
        let (random, seed) = bytes.split_at(10);
        let created_at = self.clock.now();
        let id = PacketId::new(created_at, parts, random.try_into().expect("ten bytes"));
        // No packet has a start that is past, as `SendPacket` sees to.
        let starts_at = new.starts_at.filter(|at| *at > created_at);
        let has_guard = starts_at.is_some() || new.passphrase.is_some() || new.recipients.is_some();
        let id = if has_guard { id.with_guard() } else { id };
        Terms {
            id,
            sender: new.sender,
            split: new.split,
            split_version: SPLIT_VERSION,
            seed: Seed(seed.try_into().expect("32 bytes")),
            currency: CURRENCY.to_owned(),
            total: new.total,
            count: new.count,
            cap: Amount::new(20_000),
            greeting: new.greeting,
            created_at,
            expires_at: starts_at.unwrap_or(created_at).after(new.expires_in),
            ack: self.setup.ack,
            guard: Guard {
                starts_at,
                passphrase: new.passphrase.map(|words| PassphraseDigest::new(id, &words)),
                recipients: new.recipients,
            },
            limit: new.limit,
            labels: new.labels,
        }
    }

    /// Ends it.
    pub fn kill(&self) {
        self.life.end();
    }

    /// Whether it has ended.
    pub fn is_dead(&self) -> bool {
        self.life.is_over()
    }

    /// The answer that a caller receives for `work`; `None`: none, because the process was killed or the caller went
    /// away.
    pub async fn call<V>(&self, work: impl Future<Output = V>) -> Option<V> {
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
            Either::Right((answer, _)) => answer.ok().flatten(),
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
    /// Starts one process for each of `setups`.
    pub fn start(world: &Arc<World>, setups: Vec<Setup>) -> Self {
        let numbered = (0_u32..).zip(&setups);
        let running = numbered.map(|(slot, setup)| Process::start(world, slot, *setup)).collect();
        Self { world: Arc::clone(world), setups, running: Mutex::new(running) }
    }

    /// Any process. A dead one has been replaced.
    pub fn any(&self) -> Arc<Process> {
        let slot = self.world.chance.between(0..=u32::try_from(self.setups.len() - 1).unwrap());
        let process = Arc::clone(&self.running.lock().unwrap()[slot as usize]);
        if !process.life.is_over() {
            return process;
        }
        self.kill(slot);
        Arc::clone(&self.running.lock().unwrap()[slot as usize])
    }

    /// Kills one process; a new one without caches takes its slot.
    pub fn kill_any(&self) {
        self.world.struck(Fault::Killed);
        let slot = self.world.chance.between(0..=u32::try_from(self.setups.len() - 1).unwrap());
        self.kill(slot);
    }

    /// Kills all processes.
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
