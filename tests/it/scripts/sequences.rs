//! Random sequences of calls, faults and late duplicates against a ledger in the test. Checks the invariants after
//! every step, and that all orders of decisions lead to the same state.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::*;

/// Slips of the packet, in two parts.
const SLIPS: u32 = 7;
/// For one change of a script of many.
const CASES_FOR_A_CHANGE: u32 = 50;
const USERS: [&str; 5] = ["}", "h0:1", "3", "ann", "g1:2:3"];

#[derive(Clone, Debug)]
enum Step {
    /// A script call.
    Call(Call),
    /// An earlier call is executed once more, late.
    Again(Index),
    /// Any hold that ever existed is committed or refused by the ledger.
    Commit(Index),
    /// A slip is refunded if it has no decision.
    Refund(u32),
    /// A snapshot of a part is taken.
    Keep(usize),
    /// A part is rolled back.
    RollBack(usize),
    /// A part is lost, with or without its place in the queue.
    Lose { part: usize, queue: bool },
    /// The packet expires.
    Expire,
}

#[derive(Clone, Debug)]
enum Call {
    Grab {
        part: usize,
        users: Vec<&'static str>,
    },
    /// Some of the existing decisions, in any order.
    Reconcile {
        part: usize,
        decisions: Vec<Index>,
    },
    /// A load by a process that read the decisions some time ago.
    Load {
        part: usize,
        known: Index,
    },
    Park {
        part: usize,
        hold: Index,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let part = || 0..2_usize;
    let index = any::<Index>;
    let grab = (part(), prop::sample::subsequence(&USERS[..], 1..=USERS.len()).prop_shuffle());
    prop_oneof![
        6 => grab.prop_map(|(part, users)| Step::Call(Call::Grab { part, users })),
        6 => index().prop_map(Step::Commit),
        1 => (0..SLIPS).prop_map(Step::Refund),
        5 => (part(), prop::collection::vec(index(), 0..5))
            .prop_map(|(part, decisions)| Step::Call(Call::Reconcile { part, decisions })),
        3 => (part(), index()).prop_map(|(part, known)| Step::Call(Call::Load { part, known })),
        1 => (part(), index()).prop_map(|(part, hold)| Step::Call(Call::Park { part, hold })),
        3 => index().prop_map(Step::Again),
        1 => part().prop_map(Step::Keep),
        1 => part().prop_map(Step::RollBack),
        2 => (part(), prop::bool::weighted(0.25)).prop_map(|(part, queue)| Step::Lose { part, queue }),
        1 => prop::bool::weighted(0.2).prop_filter_map("rarely", |expire| expire.then_some(Step::Expire)),
    ]
}

/// A snapshot of a part's keys, each with its expiry.
#[derive(Clone, Debug)]
struct Kept {
    keys: Vec<Option<(Vec<u8>, i64)>>,
    is_pending: bool,
}

/// A packet in a real hot store and in a ledger of the test.
struct Sequence<'a> {
    rig: &'a Rig,
    parts: Vec<Packet>,
    is_expired: bool,
    /// The ledger: decisions in the order in which they were made. None ever changes.
    decisions: Vec<Decision>,
    /// Every hold that was ever answered, with its part.
    holds: Vec<(usize, Hold)>,
    calls: Vec<(Call, usize)>,
    kept: Vec<Option<Kept>>,
}

impl<'a> Sequence<'a> {
    async fn new(rig: &'a Rig, ack: AckMode) -> Self {
        let mut packet = Packet::in_parts(2, SLIPS);
        packet.terms.ack = ack;
        let parts: Vec<Packet> = packet.terms.id.parts().map(|part| Packet { part, ..packet.clone() }).collect();
        for part in &parts {
            rig.load(part, &[]).await;
        }
        let (decisions, holds, calls) = (Vec::new(), Vec::new(), Vec::new());
        Self { rig, parts, is_expired: false, decisions, holds, calls, kept: vec![None, None] }
    }

    fn decision(&self, slip: u32) -> Option<&Decision> {
        self.decisions.iter().find(|decision| decision.slip == slip)
    }

    fn claim(&self, user: &UserId) -> Option<&Decision> {
        self.decisions.iter().find(|decision| decision.owner.user() == Some(user))
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Call(call) => {
                let decisions = self.decisions.len();
                self.call(&call, decisions).await;
                self.calls.push((call, decisions));
            }
            Step::Again(which) => {
                if !self.calls.is_empty() {
                    let (call, decisions) = which.get(&self.calls).clone();
                    self.call(&call, decisions).await;
                }
            }
            Step::Commit(which) => {
                if !self.holds.is_empty() {
                    let (_, Hold { slip, user, at }) = which.get(&self.holds).clone();
                    if self.decision(slip).is_none() && self.claim(&user).is_none() {
                        self.decisions.push(Decision { at, ..won(slip, user.as_str()) });
                    }
                }
            }
            Step::Refund(slip) => {
                if self.decision(slip).is_none() {
                    self.decisions.push(refunded(slip));
                }
            }
            Step::Keep(part) => self.kept[part] = Some(self.keep(part).await),
            Step::RollBack(part) => {
                if let Some(kept) = self.kept[part].clone() {
                    self.restore(part, &kept).await;
                }
            }
            Step::Lose { part, queue } => {
                let keys = self.parts[part].keys();
                self.rig.forget(self.parts[part].part).await;
                if queue {
                    let () = self.rig.run(["ZREM", &keys.pending, &keys.name]).await;
                }
            }
            Step::Expire => {
                self.is_expired = true;
                self.let_expire().await;
            }
        }
    }

    /// Makes `call` as at the time of `decisions` decisions.
    async fn call(&mut self, call: &Call, decisions: usize) {
        match call {
            Call::Grab { part, users } => self.grab(*part, users).await,
            Call::Reconcile { part, decisions: which } => {
                let known = &self.decisions[..decisions];
                let which: Vec<Decision> =
                    if known.is_empty() { Vec::new() } else { which.iter().map(|i| i.get(known).clone()).collect() };
                self.reconcile(*part, &which).await;
            }
            Call::Load { part, known } => {
                let part = &self.parts[*part];
                let decisions = &self.decisions[..known.index(decisions + 1)];
                let expires_at = if self.is_expired { now() } else { part.terms.expires_at };
                let terms = Terms { expires_at, ..part.terms.clone() };
                let loaded = self.rig.store.load(part.part, &terms, false, decisions).await.unwrap();
                let is_loaded = self.rig.state(part.part).await.terms.contains_key(fields::EXPIRES_AT);
                assert!(is_loaded || loaded == Loaded::Expired);
                assert!(self.is_expired || loaded == Loaded::Yes);
            }
            Call::Park { part, hold } => {
                if !self.holds.is_empty() {
                    let hold = &hold.get(&self.holds).1;
                    self.rig.store.park(self.parts[*part].part, hold, "a reason").await.unwrap();
                }
            }
        }
    }

    async fn grab(&mut self, part: usize, users: &[&str]) {
        let grabbers: Vec<Grabber> = users.iter().map(|user| grabber(user)).collect();
        let packet = &self.parts[part];
        let slips = packet.part.slips(SLIPS);
        let Some(found) = self.rig.store.grab(packet.part, &grabbers).await.unwrap() else { return };
        let state = self.rig.state(packet.part).await;
        for (Grabber { user, .. }, found) in grabbers.into_iter().zip(found) {
            match found {
                GrabAnswer::Confirmed(claim) => assert_eq!(self.claim(&user), Some(&claim.decision(&user))),
                GrabAnswer::Held { slip, left, fresh } => {
                    assert!(slips.contains(&slip));
                    assert!(!fresh || !self.is_expired, "a slip after expiry");
                    let at = packet.terms.expires_at.before(left);
                    self.holds.push((part, Hold { slip, user, at }));
                }
                GrabAnswer::Gone { certain } => {
                    assert!(self.is_expired, "{user} meets a loss");
                    assert_eq!(certain, packet.terms.ack == AckMode::Redis);
                }
                GrabAnswer::SoldOut { certain } | GrabAnswer::Over { certain, .. } => {
                    let is_refunded = self.decisions.iter().any(|decision| decision.owner == Owner::Refunded);
                    let is_over = matches!(found, GrabAnswer::Over { .. });
                    assert!(!is_over || is_refunded, "{user} meets a refund");
                    assert!(state.free.is_empty(), "{user} was denied a free slip");
                    if packet.terms.ack == AckMode::Redis {
                        assert!(certain);
                        continue;
                    }
                    let is_final = slips.clone().all(|slip| self.decision(slip).is_some());
                    let has_none = self.claim(&user).is_none_or(|decision| !slips.contains(&decision.slip));
                    assert!(!certain || is_final && has_none, "{user} was denied with certainty");
                }
                GrabAnswer::Refused(_) | GrabAnswer::NotStarted { .. } | GrabAnswer::Closed { .. } => {
                    panic!("{found:?}")
                }
            }
        }
    }

    /// Reconciles a part with decisions, and settles all of its holds.
    async fn reconcile(&self, part: usize, decisions: &[Decision]) {
        let part = self.parts[part].part;
        let held = self.rig.store.outbox(part).await.unwrap();
        let held: Vec<Hold> = held.into_iter().map(|held| held.hold).collect();
        let reconciled = self.rig.store.reconcile(part, SLIPS, decisions, &held).await.unwrap();
        let state = self.rig.state(part).await;
        let expected = if !state.terms.contains_key(fields::EXPIRES_AT) {
            Reconciled::NotLoaded
        } else if state.decided.len() == part.slips(SLIPS).len() {
            Reconciled::Final
        } else {
            Reconciled::Loaded
        };
        assert_eq!(reconciled, expected);
        assert_eq!(state.is_pending, !state.held.is_empty(), "the queue");
    }

    async fn keep(&self, part: usize) -> Kept {
        let packet = &self.parts[part];
        let PartKeys { part: hash, free, known, .. } = packet.keys();
        let mut keys = Vec::new();
        for key in [hash, free, known] {
            let value: Option<Vec<u8>> = self.rig.run(["DUMP", &key]).await;
            let expiry: i64 = self.rig.run(["PEXPIRETIME", &key]).await;
            keys.push(value.map(|value| (value, expiry.max(0))));
        }
        Kept { keys, is_pending: self.rig.state(packet.part).await.is_pending }
    }

    async fn restore(&self, part: usize, kept: &Kept) {
        let PartKeys { name, part: hash, free, known, pending, .. } = self.parts[part].keys();
        for (key, value) in [hash, free, known].iter().zip(&kept.keys) {
            let () = self.rig.run(["DEL", key]).await;
            if let Some((value, expiry)) = value {
                let mut restore = cmd("RESTORE");
                restore.arg(key).arg(expiry).arg(value).arg("ABSTTL");
                let () = self.rig.connection.run(&restore.into()).await.unwrap();
            }
        }
        if kept.is_pending {
            let () = self.rig.run(["ZADD", &pending, "1", &name]).await;
        } else {
            let () = self.rig.run(["ZREM", &pending, &name]).await;
        }
        // A rollback does not turn time back.
        if self.is_expired {
            self.let_expire().await;
        }
    }

    async fn let_expire(&self) {
        for part in &self.parts {
            self.rig.expire(part.part).await;
        }
    }

    /// The invariants of every part, after every step.
    async fn check(&self) {
        for packet in &self.parts {
            let state = self.rig.state(packet.part).await;
            self.check_outbox(&state);
            if state.terms.contains_key(fields::EXPIRES_AT) {
                self.check_slips(packet, &state);
                self.check_claims(&state);
            } else {
                assert!(state.claims.is_empty() && state.free.is_empty() && state.decided.is_empty(), "{state:?}");
            }
        }
    }

    /// Every hold was answered before, and is pending.
    fn check_outbox(&self, state: &State) {
        for OutboxEntry { hold, .. } in state.held.values() {
            let is_it = |seen: &Hold| seen.slip == hold.slip && seen.user == hold.user;
            assert!(self.holds.iter().any(|(_, seen)| is_it(seen)), "{hold:?} was never given");
        }
        assert!(state.held.is_empty() || state.is_pending, "a hold out of the queue");
    }

    /// Every slip is exactly one of free, held, decided. (After expiry it may be none: no slip becomes free then.)
    fn check_slips(&self, packet: &Packet, state: &State) {
        let slips = packet.part.slips(SLIPS);
        for slip in slips.clone() {
            let free = state.free.iter().filter(|free| **free == slip).count();
            let held = usize::from(state.held.contains_key(&slip));
            let decision = usize::from(state.decided.contains(&(slip - slips.start)));
            let sum = free + held + decision;
            assert!(sum == 1 || sum == 0 && self.is_expired, "slip {slip}: {free} {held} {decision}");
            assert!(decision == 0 || self.decision(slip).is_some(), "slip {slip} has no decision");
        }
        assert!(state.free.iter().chain(state.held.keys()).all(|slip| slips.contains(slip)), "{state:?}");
        assert_eq!(state.terms[fields::KNOWN_COUNT], state.decided.len().to_string());
        assert_eq!(state.terms[fields::SLIP_COUNT], slips.len().to_string());
    }

    /// A confirmed claim has a decision.
    fn check_claims(&self, state: &State) {
        for (user, value) in state.claims.iter().filter(|(_, value)| !value.starts_with('h')) {
            let decision = self.claim(&id(user)).expect("a decision");
            assert_eq!(*value, format!("g{}:{}:{}", decision.slip, decision.amount, decision.at.ms()));
        }
    }

    /// Reconciles all decisions in two ways from the same state, and compares the results.
    async fn converge(&self, one: &[Index], other: &[Index]) {
        for part in 0..self.parts.len() {
            let start = self.keep(part).await;
            let mut ends = Vec::new();
            for draws in [one, other] {
                self.restore(part, &start).await;
                for batch in batches(&self.decisions, draws) {
                    self.reconcile(part, &batch).await;
                    self.check().await;
                }
                ends.push(self.rig.state(self.parts[part].part).await.sorted());
            }
            assert_eq!(ends[0], ends[1]);
            self.check_end(part, &ends[0]);
            // A lost part leaves the queue by then, even if there was nothing to reconcile.
            self.reconcile(part, &self.decisions).await;
            let exactly = self.rig.state(self.parts[part].part).await;
            self.reconcile(part, &self.decisions).await;
            assert_eq!(self.rig.state(self.parts[part].part).await, exactly, "once more");
        }
    }

    /// A user with a claim has no hold, and every decision is known.
    fn check_end(&self, part: usize, end: &State) {
        let part = self.parts[part].part;
        for OutboxEntry { hold, .. } in end.held.values() {
            assert!(self.decision(hold.slip).is_none() && self.claim(&hold.user).is_none(), "{hold:?}");
        }
        if end.terms.contains_key(fields::EXPIRES_AT) {
            let slips = part.slips(SLIPS);
            let decided = self.decisions.iter().map(|decision| decision.slip).filter(|slip| slips.contains(slip));
            assert_eq!(end.decided, decided.map(|slip| slip - slips.start).collect());
            let owners: BTreeSet<&str> =
                self.decisions.iter().filter_map(|decision| Some(decision.owner.user()?.as_str())).collect();
            let confirmed = end.claims.iter().filter(|(_, value)| value.starts_with('g'));
            assert_eq!(confirmed.map(|(user, _)| &**user).collect::<BTreeSet<_>>(), owners);
        }
    }
}

/// `decisions` in an order and in batches drawn from `draws`, some of them twice.
fn batches(decisions: &[Decision], draws: &[Index]) -> Vec<Vec<Decision>> {
    let mut left = decisions.to_vec();
    let mut order = Vec::new();
    for draw in draws.iter().cycle() {
        if left.is_empty() {
            break;
        }
        order.push(left.remove(draw.index(left.len())));
        if draw.index(3) == 0 {
            order.push(draw.get(&order).clone());
        }
    }
    order.chunks(draws[0].index(4) + 1).map(<[Decision]>::to_vec).collect()
}

/// Runs `cases` random sequences on the rig that `rig` makes.
fn run(cases: u32, rig: impl AsyncFnOnce() -> Rig) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rig = runtime.block_on(rig());
    let mut config = Config { cases, failure_persistence: None, ..Config::default() };
    if let Some(seed) = judging_seed() {
        config.rng_seed = RngSeed::Fixed(seed);
        config.cases = CASES_FOR_A_CHANGE;
        // It does not matter how short the shortest failing sequence is.
        config.max_shrink_iters = 0;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => rand::random(),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    let orders = || prop::collection::vec(any::<Index>(), 2 * SLIPS as usize);
    let ack = prop_oneof![Just(AckMode::Ledger), Just(AckMode::Redis)];
    let sequences = (ack, prop::collection::vec(step(), 1..40), orders(), orders());
    let result = TestRunner::new(config).run(&sequences, |(ack, steps, one, other)| {
        runtime.block_on(async {
            let mut sequence = Sequence::new(&rig, ack).await;
            for step in steps {
                sequence.step(step).await;
                sequence.check().await;
            }
            sequence.converge(&one, &other).await;
        });
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}\nPROPTEST_RNG_SEED={seed} repeats it");
    }
}

#[test]
fn on_one_node_each_slip_has_one_user_and_decisions_lead_to_one_state() {
    run(256, Rig::on_one_node);
}

#[test]
fn on_a_cluster_each_slip_has_one_user_and_decisions_lead_to_one_state() {
    run(64, Rig::in_a_cluster);
}
