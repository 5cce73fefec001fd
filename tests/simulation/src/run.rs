mod close;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::thread;
use std::time::Duration;

use audit::books::Books;
use shared::domain::{
    Amount, DailyLimit, DayZone, Mandate, Movement, MovementFilter, PacketId, Passphrase, PassphraseDigest, RequestKey,
    Timestamp, UserId, WithdrawalEnd, WithdrawalRequest,
};
use shared::ledger::{DepositOutcome, EndOutcome, Ledger, SendOutcome as LedgerSend, WithdrawalOutcome};
use shared::ports::Clock;
use shared::service::{Failure, GrabOutcome, RunReport, SendOutcome, ViewError, Voucher};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::audit::audit;
use crate::faults::{Chance, Fault, Struck};
use crate::history::{AnswerCounts, History};
use crate::mutants::Mutant;
use crate::plan::{EXTRA, GrabPlan, PacketPlan, Plan};
use crate::process::{Process, Setup, Slots, settling};
use crate::table::Near;
use crate::trace::{Kind, Violation};
use crate::world::{Known, Tally, World};

/// How long a run of settle may take.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(55);
/// From this age on, no hold is too young for settle.
const OLD_ENOUGH: Duration = Duration::from_secs(6);
/// After this long no late message is left.
const ALL_ARRIVED: Duration = Duration::from_mins(1);

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What happened in the run.
    pub tally: Tally,
    /// What users were answered.
    pub answers: AnswerCounts,
}

/// Runs `seed`, with or without a mutant. Keeps all events if `readable`.
///
/// # Panics
/// If the simulation itself is wrong.
pub fn run(seed: u64, mutant: Option<Mutant>, readable: bool) -> Outcome {
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed, mutant, readable);
        let mut plan = Plan::draw(&world.chance);
        plan.schedule(&Chance::new(!seed), world.now());
        plan.restrain(&Chance::new(seed.rotate_left(32)));
        plan.share_limits(&Chance::new(!seed.rotate_left(32)));
        world.limit(plan.daily_max);
        world.note(format_args!("{plan:?}"));
        let slots = Slots::start(&world, plan.setups.clone());
        let run = Run {
            world: Arc::clone(&world),
            slots,
            plan,
            history: History::default(),
            keys: Mutex::default(),
            in_doubt: Mutex::default(),
        };
        Arc::new(run).go().await
    })
}

/// The results of many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The number of runs.
    pub runs: u64,
    /// The faults that struck.
    pub struck: Struck,
    /// Store calls that were executed.
    pub operations: u64,
    /// What users were answered.
    pub answers: AnswerCounts,
    /// Seeds of runs that broke a promise, lowest first, each with its first violation.
    pub failed: Vec<(u64, Violation)>,
}

impl Totals {
    fn add(&mut self, seed: u64, mut outcome: Outcome) {
        self.runs += 1;
        self.struck.merge(&outcome.tally.struck);
        self.operations += outcome.tally.operations;
        for (answer, count) in outcome.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        if !outcome.tally.violations.is_empty() {
            self.failed.push((seed, outcome.tally.violations.remove(0)));
        }
    }
}

/// Runs all `seeds` on `threads` threads, and calls `progress` after each. Ends early once that returns true.
///
/// # Panics
/// If a run panics.
pub fn run_all(
    seeds: Range<u64>,
    mutant: Option<Mutant>,
    threads: usize,
    mut progress: impl FnMut(&Totals) -> bool,
) -> Totals {
    let mut totals = Totals::default();
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    thread::scope(|scope| {
        let (results, done) = mpsc::channel();
        for _ in 0..threads {
            let results = results.clone();
            let (next, stop) = (&next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || results.send((seed, run(seed, mutant, false))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (seed, outcome) in done {
            totals.add(seed, outcome);
            if progress(&totals) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    totals.failed.sort_by_key(|(seed, _)| *seed);
    totals
}

thread_local! {
    /// Panics on this thread, which runs one seed at a time.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts panics from now on. Panics of detached tasks would go unnoticed otherwise.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
}

struct Run {
    world: Arc<World>,
    slots: Slots,
    plan: Plan,
    history: History,
    /// The packet ids that the answers named for each packet's key.
    keys: Mutex<Vec<(usize, PacketId)>>,
    /// The packets whose deposit has perhaps not reached the sender's wallet.
    in_doubt: Mutex<BTreeSet<usize>>,
}

/// How a send ended.
#[derive(Debug)]
enum Sent {
    Packet(PacketId),
    /// By the process' clock the packet's start is past.
    TooLate,
    /// The sender is suspended.
    Suspended,
    /// Insufficient balance, the day's limit, or the key is another request's.
    No,
}

fn key<K: FromStr<Err: Debug>>(name: &str, number: usize) -> K {
    format!("{name}-{number}").parse().unwrap()
}

impl Run {
    async fn go(self: Arc<Self>) -> Outcome {
        self.trouble().await;
        self.world.heal();
        sleep(ALL_ARRIVED).await;
        if self.world.chance.happens(500) {
            self.slots.restart();
        }
        self.empty_the_outbox().await;
        for ban in &self.plan.bans {
            self.lift_suspension(&ban.user).await;
        }
        for number in 0..self.plan.packets.len() {
            self.lift_suspension(&self.plan.packets[number].new.sender).await;
            self.send(number, true).await;
        }
        self.ask_again("before they are settled").await;
        self.close_quietly().await;
        self.expire_all().await;
        self.ask_again("after they were settled").await;
        self.check().await;
        if PANICS.replace(0) > 0 {
            self.world.violated(Kind::Answer, "a task panicked".to_owned());
        }
        Outcome { tally: self.world.tally(), answers: self.history.counts() }
    }

    /// All planned events, with faults.
    async fn trouble(self: &Arc<Self>) {
        let (chance, plan) = (&self.world.chance, &self.plan);
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        let at = || plan.active * chance.between(0..=1_000) / 1_000;
        for (number, packet) in plan.packets.iter().enumerate() {
            for _ in 0..packet.sends {
                let jitter = chance.millis(0..=10);
                tasks.push(self.spawn(packet.at + jitter, move |run| async move { run.send(number, false).await }));
            }
            for grab in &packet.grabs {
                let (when, grab) = (packet.at + grab.at, grab.clone());
                tasks.push(self.spawn(when, move |run| async move { run.grab(number, &grab).await }));
            }
            if chance.happens(300) {
                tasks.push(self.spawn(at(), move |run| async move { run.withdraw(number).await }));
            }
        }
        for (number, at) in plan.closes.clone() {
            tasks.push(self.spawn(at, move |run| async move { run.close_any(number).await }));
        }
        for number in plan.closes_at_load.clone() {
            tasks.push(self.spawn(Duration::ZERO, move |run| async move { run.close_at_load(number).await }));
        }
        for (number, at) in plan.half_closes.clone() {
            tasks.push(self.spawn(at, move |run| async move { run.close_half(number).await }));
        }
        for suspension in &plan.suspensions {
            let sender = &plan.packets[suspension.packet].new.sender;
            let (sender, same) = (sender.clone(), sender.clone());
            tasks.push(self.spawn(suspension.from, move |run| async move { run.suspend(&sender, false).await }));
            tasks.push(self.spawn(suspension.to, move |run| async move { run.lift_suspension(&same).await }));
        }
        for ban in &plan.bans {
            self.world.ban(&ban.user);
            let (user, other) = (ban.user.clone(), ban.user.clone());
            tasks.push(self.spawn(ban.from, move |run| async move { run.suspend(&user, true).await }));
            tasks.push(self.spawn(ban.to, move |run| async move { run.lift_suspension(&other).await }));
        }
        for _ in 0..plan.settles {
            let doubled = self.world.rate(Fault::Doubled) > 0;
            let (when, times) = (at(), if doubled { 2 } else { 1 });
            for _ in 0..times {
                tasks.push(self.spawn(when, |run| async move {
                    let _ = run.settle().await;
                }));
            }
            if doubled {
                self.world.struck(Fault::Doubled);
            }
        }
        for fault in [Fault::Wiped, Fault::RolledBack, Fault::Split, Fault::Killed] {
            if self.world.rate(fault) > 0 {
                for _ in 0..chance.between(1..=3) {
                    tasks.push(self.spawn(at(), move |run| async move { run.strike(fault) }));
                }
            }
        }
        tasks.push(self.spawn(at(), |run| async move {
            let _ = run.audit().await;
        }));
        for _ in 0..chance.between(0..=2) {
            tasks.push(self.spawn(at(), |run| async move { run.look_for_seeds().await }));
        }
        for task in tasks {
            task.await.expect("a client of the simulation panicked");
        }
    }

    fn spawn<F>(self: &Arc<Self>, when: Duration, work: impl FnOnce(Arc<Self>) -> F + Send + 'static) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let run = Arc::clone(self);
        tokio::spawn(async move {
            sleep(when).await;
            work(run).await;
        })
    }

    fn strike(&self, fault: Fault) {
        match fault {
            Fault::Wiped => self.world.wipe(),
            Fault::RolledBack => self.world.roll_back(),
            Fault::Split => self.world.split_primaries(),
            _ => self.slots.kill_any(),
        }
    }

    /// Deposits the packet's amount and a little more into the sender's wallet, always under the same id.
    /// Returns whether it has surely arrived.
    async fn fund(&self, number: usize) -> bool {
        let (process, new) = (self.slots.any(), &self.plan.packets[number].new);
        let amount = Amount::new(new.total.minor_units() + EXTRA);
        let id = key("fund", number);
        let answer = process.call(process.wallets.deposit(&new.sender, &id, amount, None)).await;
        match &answer {
            Some(Ok(DepositOutcome::Moved | DepositOutcome::Replayed)) | None => {}
            Some(Ok(outcome)) => self.world.violated(Kind::Answer, format!("a deposit: {outcome:?}")),
            Some(Err(failure)) => self.defect("a deposit", failure),
        }
        let is_funded = matches!(answer, Some(Ok(_)));
        let mut in_doubt = self.in_doubt.lock().unwrap();
        if is_funded {
            in_doubt.remove(&number)
        } else {
            in_doubt.insert(number)
        };
        is_funded
    }

    /// Whether no other packet of the sender can have taken this one's money, since its own did not come.
    fn is_alone(&self, number: usize) -> bool {
        let sender = |number: usize| &self.plan.packets[number].new.sender;
        self.in_doubt.lock().unwrap().iter().all(|other| *other == number || sender(*other) != sender(number))
    }

    /// The operator suspends a user, also for `grabs`.
    async fn suspend(&self, user: &UserId, grabs: bool) {
        let process = self.slots.any();
        let reason = "a simulation".parse().expect("a reason");
        if let Some(Err(failure)) = process.call(process.wallets.suspend(user, reason, grabs, Mandate::default())).await
        {
            self.defect("a suspension", &failure);
        }
    }

    /// The operator lifts a suspension, if there is one.
    async fn lift_suspension(&self, user: &UserId) {
        let process = self.slots.any();
        if let Some(Err(failure)) = process.call(process.wallets.lift_suspension(user, Mandate::default())).await {
            self.defect("the end of a suspension", &failure);
        }
    }

    async fn withdraw(&self, number: usize) {
        let (process, sender) = (self.slots.any(), &self.plan.packets[number].new.sender);
        let id = key("withdraw", number);
        let is_pending = number.is_multiple_of(2);
        let request = WithdrawalRequest { pending: is_pending, ..WithdrawalRequest::at_once(id, Amount::new(EXTRA)) };
        let answer = process.call(process.wallets.withdraw(sender, &request, None)).await;
        match answer {
            Some(Ok(WithdrawalOutcome::IdReused | WithdrawalOutcome::TooManyPending)) => {
                self.world.violated(Kind::Answer, format!("a withdrawal: {answer:?}"));
            }
            Some(Err(failure)) => self.defect("a withdrawal", &failure),
            _ => {}
        }
        if is_pending {
            self.reserve(number).await;
            self.end_withdrawal(sender, &request.id).await;
        }
    }

    /// Reserves as much for another withdrawal, which stays pending: a wallet that reserves nothing else refuses to end one twice by itself.
    async fn reserve(&self, number: usize) {
        let (sender, now) = (&self.plan.packets[number].new.sender, self.world.now());
        let ledger = Ledger::new(Near(Arc::clone(&self.world)), Arc::new(Chance::new(u64::MAX - number as u64)));
        ledger.deposit(sender, &key("more", number), Amount::new(EXTRA), None, now).await.expect("a table in memory");
        let request = WithdrawalRequest::pending(key("reserve", number), Amount::new(EXTRA));
        ledger.withdraw(sender, &request, None, None, now).await.expect("a table in memory");
    }

    /// Two processes end a withdrawal at once, in two ways.
    async fn end_withdrawal(&self, sender: &UserId, id: &RequestKey) {
        let (one, other) = (self.slots.any(), self.slots.any());
        let paid = WithdrawalEnd::Post(Some(Amount::new(EXTRA / 2)));
        let (voided, posted) = tokio::join!(
            one.call(one.wallets.end_withdrawal(sender, id, WithdrawalEnd::Void(None), None)),
            other.call(other.wallets.end_withdrawal(sender, id, paid, None)),
        );
        if let (Some(Ok(EndOutcome::Ended(_))), Some(Ok(EndOutcome::Ended(_)))) = (&voided, &posted) {
            self.world.violated(Kind::Answer, format!("a withdrawal ended twice: {voided:?}, {posted:?}"));
        }
        for answer in [voided, posted] {
            match answer {
                Some(Err(failure)) => self.defect("the end of a withdrawal", &failure),
                Some(Ok(EndOutcome::AboveAmount(_))) => {
                    self.world.violated(Kind::Answer, format!("the end of a withdrawal: {answer:?}"));
                }
                _ => {}
            }
        }
    }

    /// Sends a packet, always under the same key.
    async fn send(&self, number: usize, is_quiet: bool) {
        let tries = if is_quiet { 1 } else { 3 };
        for _ in 0..tries {
            let is_funded = self.fund(number).await;
            let process = self.slots.any();
            let answer = process.call(self.send_by(&process, number)).await;
            self.world.note(format_args!("the sender of packet {number} receives {answer:?}"));
            match answer {
                Some(Ok(Sent::Packet(id))) => {
                    self.keys.lock().unwrap().push((number, id));
                    return;
                }
                Some(Ok(Sent::TooLate)) => {
                    let starts_at = self.plan.packets[number].new.starts_at;
                    if starts_at.is_none_or(|starts_at| process.clock.now() < starts_at) {
                        self.world.violated(Kind::Answer, format!("packet {number} is refused before its start"));
                    }
                    return;
                }
                Some(Ok(Sent::Suspended)) => {
                    if self.plan.suspensions.iter().all(|suspension| suspension.packet != number) {
                        self.world.violated(Kind::Answer, format!("the sender of packet {number} is not suspended"));
                    }
                }
                Some(Ok(Sent::No)) if is_funded && self.is_alone(number) => {
                    self.world.violated(Kind::Answer, format!("packet {number} is funded and was not sent"));
                }
                Some(Err(failure)) => self.defect("a send", &failure),
                Some(Ok(Sent::No)) | None => {}
            }
            if is_quiet && self.is_alone(number) {
                self.world.violated(Kind::Liveness, format!("packet {number} can't be sent"));
            }
            sleep(self.world.chance.millis(1..=2_000)).await;
        }
    }

    /// Sends a packet through one process.
    async fn send_by(&self, process: &Process, number: usize) -> Result<Sent, Failure> {
        let PacketPlan { new, parts, .. } = &self.plan.packets[number];
        let mut new = new.clone();
        // The hot store's clock gives it the planned lifetime.
        let skew = u64::try_from(-process.setup.skew_ms).unwrap_or_default();
        new.expires_in += Duration::from_millis(skew);
        let id = key("send", number);
        let Some(parts) = parts else {
            // The body is the same for every process.
            new.expires_in = self.plan.packets[number].new.expires_in + self.plan.skew();
            return Ok(match process.send.send(new, &id).await? {
                SendOutcome::Sent(terms) | SendOutcome::Replayed(terms) => Sent::Packet(terms.id),
                SendOutcome::StartOutOfRange => Sent::TooLate,
                SendOutcome::Suspended => Sent::Suspended,
                // Nobody pauses sending.
                SendOutcome::KeyReused
                | SendOutcome::InsufficientBalance
                | SendOutcome::DailyLimitExceeded { .. }
                | SendOutcome::Paused
                | SendOutcome::NoTicketKeys
                | SendOutcome::LimitNeedsLedger => Sent::No,
            });
        };
        let daily_limit = self.plan.daily_max.map(|most| DailyLimit { most, zone: DayZone::UTC });
        let (terms, sent) = process.send_in_parts(new, *parts, &id, daily_limit.as_ref()).await?;
        Ok(match sent {
            LedgerSend::Sent => Sent::Packet(terms.id),
            LedgerSend::Replayed(id) => Sent::Packet(id),
            LedgerSend::Suspended => Sent::Suspended,
            LedgerSend::KeyReused | LedgerSend::InsufficientBalance | LedgerSend::DailyLimitExceeded => Sent::No,
        })
    }

    fn defect(&self, what: &str, failure: &Failure) {
        if matches!(failure, Failure::Defect(_)) {
            self.world.violated(Kind::Answer, format!("{what}: {}", shared::error_chain(failure)));
        }
    }

    /// A user asks until an answer arrives, or the tries are used up.
    async fn grab(&self, number: usize, grab: &GrabPlan) {
        for _ in 0..grab.tries {
            if let Some(id) = self.any_id(number)
                && self.ask(id, grab).await.is_some()
                && self.world.chance.happens(700)
            {
                return;
            }
            sleep(self.world.chance.millis(1..=1_500)).await;
        }
    }

    /// A packet's id; now and then one that is not committed yet, since ids get about.
    fn any_id(&self, number: usize) -> Option<PacketId> {
        let sender = &self.plan.packets[number].new.sender;
        let known = self.world.known().into_iter().filter(|known| known.terms.sender == *sender);
        let (committed, others): (Vec<Known>, Vec<Known>) = known.partition(|known| known.committed.is_some());
        let ids = if committed.is_empty() || !others.is_empty() && self.world.chance.happens(50) {
            others
        } else {
            committed
        };
        let ids: Vec<PacketId> = ids.iter().map(|known| known.terms.id).collect();
        (!ids.is_empty()).then(|| self.world.chance.pick(&ids))
    }

    /// One call of a user, with its answer, if any.
    async fn ask(&self, id: PacketId, grab: &GrabPlan) -> Option<GrabOutcome> {
        let process = self.slots.any();
        let words = if grab.is_right { "open" } else { "shut" };
        let digest = PassphraseDigest::new(id, &Passphrase::new(words));
        let asked = self.history.ask(&self.world, id, &grab.user, grab.is_right);
        let answer = process.call(process.grab.grab(id, &grab.user, Some(digest), &Voucher::Operator)).await;
        let outcome = answer.as_ref().and_then(|answer| answer.as_ref().ok()).cloned();
        self.history.answer(&self.world, asked, answer, self.plan.skew());
        outcome
    }

    async fn settle(&self) -> Option<RunReport> {
        let process = self.slots.any();
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let answer = process.call(settling(process.settle.run(0..=255, deadline))).await;
        self.world.note(format_args!("settle: {answer:?}"));
        let _ = self.audit().await;
        match answer? {
            Ok(report) => Some(report),
            Err(failure) => {
                self.defect("a run of settle", &failure);
                None
            }
        }
    }

    /// Without faults, one run of settle empties the outbox.
    async fn empty_the_outbox(&self) {
        sleep(OLD_ENOUGH).await;
        let report = self.settle().await;
        let is_done = report.as_ref().is_some_and(|report| report.outbox_left == Some(0) && report.parked == 0);
        let left = self.world.left_in_outboxes();
        if !is_done || !left.is_empty() {
            self.world.violated(Kind::Liveness, format!("the outbox is not empty: {report:?}, {left:?}"));
        }
    }

    /// Without faults, every user asks for every packet once more with the right passphrase, and receives an answer.
    async fn ask_again(&self, when: &str) {
        for Known { terms, committed } in self.world.known() {
            let number = self.plan.packets.iter().position(|packet| packet.new.sender == terms.sender);
            let packet = &self.plan.packets[number.expect("a packet of the plan")];
            let mut asked = BTreeSet::new();
            for grab in &packet.grabs {
                if !asked.insert(&grab.user) || committed.is_none() && asked.len() > 1 {
                    continue;
                }
                let right = GrabPlan { is_right: true, ..grab.clone() };
                // In `redis` mode the outcome may be unknown until the packet is settled.
                let must = when.starts_with("after") || terms.ack == shared::domain::AckMode::Ledger;
                if self.ask(terms.id, &right).await.is_none() && must {
                    let what = format!("{} is not answered {when}, of {} ({committed:?})", grab.user, terms.id);
                    self.world.violated(Kind::Liveness, what);
                }
            }
        }
    }

    /// Lets all packets expire and their grace pass; then one run of settle ends them.
    async fn expire_all(&self) {
        self.empty_the_outbox().await;
        let last = self.world.known().iter().map(|known| known.terms.expires_at).max().unwrap_or_default();
        let grace = self.plan.setups.iter().map(|Setup { grace, .. }| *grace).max().unwrap_or_default();
        let until: Timestamp = last.after(grace + self.plan.skew() + Duration::from_secs(1));
        sleep(until.since(self.world.now())).await;
        self.look_for_seeds().await;
        let report = self.settle().await;
        let is_done = report.as_ref().is_some_and(|report| report.due_left == 0);
        if !is_done {
            self.world.violated(Kind::Liveness, format!("expired packets are not settled: {report:?}"));
        }
        if self.world.chance.happens(300) {
            // By then the hot store has forgotten the packets.
            sleep(Duration::from_hours(2)).await;
        }
    }

    /// Nobody sees a packet's seed, which tells all amounts, before the ledger has a decision for every slip.
    async fn look_for_seeds(&self) {
        for Known { terms, .. } in self.world.known() {
            let process = self.slots.any();
            let seen = process.call(process.view.packet(terms.id, &terms.sender, &Voucher::Operator)).await;
            let Some(Ok(view)) = seen else { continue };
            let is_early = self.world.mutant == Some(Mutant::SeedAtExpiry) && process.clock.now() >= terms.expires_at;
            if !view.is_decided && !is_early {
                continue;
            }
            let Some(books) = self.audit().await else { return };
            let decided = books.packets.get(&terms.id.to_string()).map_or(0, |packet| packet.decisions.len());
            if decided < terms.count as usize {
                let what = format!("{} shows its seed with {decided} of {} slips decided", terms.id, terms.count);
                self.world.violated(Kind::Secrecy, what);
            }
        }
    }

    async fn audit(&self) -> Option<Books> {
        match audit(self.world.table.items(), &self.world.known()).await {
            Ok(books) => Some(books),
            Err(violation) => {
                self.world.violated(violation.kind, violation.what);
                None
            }
        }
    }

    /// All checks at the end.
    async fn check(&self) {
        let Some(books) = self.audit().await else { return };
        for (id, packet) in &books.packets {
            if !packet.settled {
                self.world.violated(Kind::Liveness, format!("{id} is not settled"));
            }
        }
        let keys = self.keys.lock().unwrap().clone();
        for (number, id) in &keys {
            let others = keys.iter().any(|(other, sent)| other == number && sent != id);
            if others || !books.packets.contains_key(&id.to_string()) {
                self.world.violated(Kind::Promise, format!("packet {number} was sent as {id}: {keys:?}"));
            }
        }
        for Known { terms, .. } in self.world.known() {
            self.world.judge_closed(terms.id, false);
        }
        self.check_views(&books).await;
        self.history.check(&self.world, &books);
    }

    /// The views show the ledger's content.
    async fn check_views(&self, books: &Books) {
        let process = self.slots.any();
        for Known { terms, .. } in self.world.known() {
            let seen = process.call(process.view.packet(terms.id, &terms.sender, &Voucher::Operator)).await;
            let right = match (&seen, books.packets.get(&terms.id.to_string())) {
                (Some(Err(ViewError::NotFound)), None) => true,
                (Some(Ok(view)), Some(packet)) => {
                    view.summary.claimed_count as usize == packet.claims.len()
                        && view.summary.decided_count() as usize == packet.decisions.len()
                }
                _ => false,
            };
            if !right {
                self.world.violated(Kind::Answer, format!("{} is shown as {seen:?}", terms.id));
            }
            let all = MovementFilter::default();
            let moved = process.call(process.wallets.movements(&terms.sender, all, None, 100)).await;
            let is_sorted = |moved: &[Movement]| moved.is_sorted_by(|one, other| one.at >= other.at);
            let moved = moved.and_then(Result::ok).filter(|moved| moved.next.is_none() && is_sorted(&moved.rows));
            let sum = moved.map(|moved| moved.rows.iter().map(|movement| movement.amount).sum::<i64>());
            let wallet = process.call(process.wallets.wallet(&terms.sender)).await;
            let balance = books.balances.get(terms.sender.as_str()).copied().unwrap_or_default();
            let right = matches!(&wallet, Some(Ok(wallet)) if wallet.balance.minor_units() == balance)
                && sum.and_then(|sum| u64::try_from(sum).ok()) == Some(balance);
            if !right {
                let what =
                    format!("{} has {balance}, is shown {wallet:?}, and the movements sum to {sum:?}", terms.sender);
                self.world.violated(Kind::Wallet, what);
            }
        }
    }
}
