//! The replay of one packet's steps.

mod hot;
mod ledger;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model_wide::call::{Call, Reply};
use model_wide::close::Operator;
use model_wide::grab::{Answer, At, Grab};
use model_wide::hot::{GrabAnswer, Hot};
use model_wide::instance::{Ack, Instance, PARTS, Part, SLIPS, Slip, USERS, User};
use model_wide::protocol::{Action, Actor as ModelActor, Fate, Protocol};
use model_wide::set::Set;
use model_wide::settle::Settle;
use model_wide::state::{Sender, State};
use shared::domain::{AckMode, PacketId, PartId, Terms, Timestamp, UserId};
use shared::service::GrabOutcome;
use stateright::Model;

use self::hot::is_part_of;
use self::ledger::refusals;
use super::Missing;
use super::log::{Actor, Entry, Event};
use super::reached::{Doing, Reached, Snapshot};
use crate::world::SECOND_PRIMARY_AHEAD;

/// Slips of one refund: `REFUND_SLIPS_MAX`.
const CHUNK: usize = 90;
/// Faults that the model's bounds allow at each step.
const FAULTS: u8 = 100;
/// Each user by themselves: any of them may be the model's actor.
const ONE: [[User; 1]; USERS] = {
    let mut one = [[0; 1]; USERS];
    let mut user = 0;
    while (user as usize) < USERS {
        one[user as usize] = [user];
        user += 1;
    }
    one
};

/// Why a replay ends.
pub enum Stop {
    /// The model does not have this.
    Missing(Missing),
    /// The model does not make this step, or does it otherwise.
    Differs(String),
}

type Result<V = ()> = std::result::Result<V, Stop>;

/// One packet, as the model has it.
pub struct Packet {
    terms: Arc<Terms>,
    instance: Instance,
    state: State,
    /// The hot store and the expiry of the second primary, while there are two.
    second: (Hot, bool),
    users: Vec<UserId>,
    /// The hot store before each of the latest scripts.
    kept: VecDeque<Hot>,
    scripts: u64,
    /// What each process, and each run of settle, can have come to.
    reached: BTreeMap<Actor, Reached>,
    /// The reply of each step that somebody may still receive, by entry.
    replies: BTreeMap<usize, Replies>,
    /// The period in which each request began, by entry.
    asked: BTreeMap<usize, usize>,
    steps: u64,
    is_over: bool,
}

/// The replies of one entry.
#[derive(Clone, Debug)]
enum Replies {
    /// To these calls.
    Each(Vec<(Call, Reply)>),
    /// To one reconcile, which may be several together.
    Reconciled { part: Part, decisions: Set, holds: Vec<(Slip, User)> },
    /// A snapshot.
    Seen(Snapshot),
    /// To these claims: refused.
    Refused(Vec<(Slip, User)>),
}

fn differs<V>(what: impl Into<String>) -> Result<V> {
    Err(Stop::Differs(what.into()))
}

fn small(number: u32) -> u8 {
    u8::try_from(number).expect("the packet is small")
}

impl Packet {
    /// A packet that is not sent yet.
    pub fn new(terms: Arc<Terms>) -> std::result::Result<Self, Missing> {
        if terms.count as usize > SLIPS || terms.id.part_count() as usize > PARTS {
            return Err(Missing::Large);
        }
        let ack = if terms.ack == AckMode::Redis { Ack::Redis } else { Ack::Ledger };
        let instance = Instance {
            name: "a history",
            ack,
            slips: small(terms.count),
            parts: small(terms.id.part_count()),
            orders: [[0; PARTS]; USERS],
            grabs: &ONE[0],
            tries: 0,
            settlers: 0,
            chunk: CHUNK,
            rollbacks: FAULTS,
            wipes: FAULTS,
            copies: FAULTS,
            // With `GRAB_ACK=redis` the grace is longer than the clocks differ.
            early_refund: ack == Ack::Ledger,
            closes: true,
            mutant: None,
        };
        let mut state = State::new(&instance);
        state.ledger.sent = false;
        state.sender = Sender::Done;
        state.operator = Operator::Done;
        Ok(Self {
            terms,
            instance,
            state,
            second: (Hot::default(), false),
            users: Vec::new(),
            kept: VecDeque::new(),
            scripts: 0,
            reached: BTreeMap::new(),
            replies: BTreeMap::new(),
            asked: BTreeMap::new(),
            steps: 0,
            is_over: false,
        })
    }

    /// The packet's id.
    pub fn id(&self) -> PacketId {
        self.terms.id
    }

    /// Steps that the model has made.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Replays an entry.
    pub fn replay(&mut self, entries: &[Entry], number: usize) -> Result {
        if self.is_over {
            if matches!(entries[number].event, Event::Script { .. }) {
                self.keep();
            }
            return Ok(());
        }
        let result = self.event(entries, number);
        self.is_over = result.is_err();
        result
    }

    fn event(&mut self, entries: &[Entry], number: usize) -> Result {
        let Entry { at, actor, event } = &entries[number];
        let (at, actor) = (*at, *actor);
        self.expire(at);
        match event {
            Event::Script { primary, part, script, seen, pending } => {
                self.keep();
                let ahead = if *primary == 1 { SECOND_PRIMARY_AHEAD } else { Duration::ZERO };
                self.on_primary(*primary, at.after(ahead), |this| {
                    this.script(number, at, actor, *part, script, seen)?;
                    this.forget(at.after(ahead));
                    this.compare_part(*part, seen, *pending, at)
                })
            }
            Event::Transaction { what, outcome, decided, settled, closed, .. } => {
                self.transaction(number, at, actor, what, *outcome)?;
                self.compare_ledger(decided, *settled, *closed)
            }
            Event::Read(_, read) => self.read(number, at, actor, read),
            Event::Told { of, lies } => {
                self.told(at, actor, *of, lies);
                Ok(())
            }
            Event::Pending(parts) => {
                // A part that fails does not stop the next.
                let id = self.terms.id;
                for part in parts.iter().filter(|part| part.packet == id) {
                    let parts = Set::of(small(part.index));
                    self.begin(at, actor, Doing::Settle(Settle::Outbox { parts, refunding: false }));
                }
                Ok(())
            }
            Event::Blocked(_) => Err(Stop::Missing(Missing::Blocked)),
            Event::Ask(_, user) => {
                let (user, instance) = (self.user(user), self.instance);
                let since = self.reached(actor).ask(&instance, at, number, user);
                self.asked.insert(number, since);
                Ok(())
            }
            Event::Answer { asked, answer } => {
                let Event::Ask(_, user) = &entries[*asked].event else { return Ok(()) };
                self.answer(actor, *asked, user, answer.as_ref())
            }
            Event::Lost { to, node } => self.lose(*to, *node),
            Event::Split => {
                self.second = (self.state.hot, self.state.expired);
                // From now on each primary lacks what the other one promises.
                self.state.lost = true;
                Ok(())
            }
            Event::Joined { second_wins } => {
                self.on_primary(1, at.after(SECOND_PRIMARY_AHEAD), |_| Ok(()))?;
                let (hot, _) = std::mem::take(&mut self.second);
                if *second_wins {
                    self.state.lose(hot);
                }
                Ok(())
            }
        }
    }

    /// The number of a user, who gets one when they first show up.
    fn user(&mut self, user: &UserId) -> User {
        let place = self.users.iter().position(|known| known == user).unwrap_or_else(|| {
            let order = PartId::probe_order(self.terms.id, user).map(|part| small(part.index));
            for (place, part) in self.instance.orders[self.users.len()].iter_mut().zip(order) {
                *place = part;
            }
            self.users.push(user.clone());
            self.users.len() - 1
        });
        User::try_from(place).expect("a packet of the simulation has few users")
    }

    fn reached(&mut self, actor: Actor) -> &mut Reached {
        self.reached.entry(actor).or_default()
    }

    fn begin(&mut self, now: Timestamp, actor: Actor, doing: Doing) {
        let instance = self.instance;
        self.reached(actor).begin(&instance, now, doing);
    }

    /// An event without an actor.
    fn happen(&mut self, action: Action) {
        if let Some(next) = Protocol(self.instance).next_state(&self.state, action) {
            self.state = next;
        }
    }

    /// Makes a step in the model, if the model allows it, and returns the reply. The actor does not receive it: it stays where it
    /// is, until its process receives it.
    fn make(&mut self, doing: Doing, call: Call) -> Result<Reply> {
        let who = match doing {
            Doing::Grab(user, at) => {
                self.instance.grabs = &ONE[usize::from(user)];
                self.state.grabs[0] = Grab { tries: 1, at };
                ModelActor::Grab(0, user)
            }
            Doing::Settle(settle) => {
                self.state.settles[0] = settle;
                ModelActor::Settle(0)
            }
            Doing::Send(sender) => {
                self.state.sender = sender;
                ModelActor::Sender
            }
            Doing::Close(operator) => {
                self.state.operator = operator;
                ModelActor::Operator
            }
        };
        self.state.faults.copies = FAULTS;
        let (protocol, action) = (Protocol(self.instance), Action::Step(who, call, Fate::Unanswered));
        let mut allowed = Vec::new();
        protocol.actions(&self.state, &mut allowed);
        let reply = allowed.contains(&action).then(|| self.reply(call));
        if reply.is_some() {
            self.happen(action);
            self.steps += 1;
        }
        self.state.grabs[0] = Grab { tries: 0, at: At::START };
        self.state.settles[0] = Settle::Done;
        self.state.sender = Sender::Done;
        self.state.operator = Operator::Done;
        reply.map_or_else(|| differs(format!("the model does not allow: {action}")), Ok)
    }

    /// What the model replies to a call, which changes nothing.
    fn reply(&self, call: Call) -> Reply {
        State::clone(&self.state).execute(&self.instance, call)
    }

    /// The states of an actor in which it may make these calls.
    fn making(&mut self, actor: Actor, is_it: impl Fn(Call) -> bool) -> Vec<(Doing, Call)> {
        let instance = self.instance;
        self.reached(actor).making(&instance, is_it)
    }

    /// A state of an actor in which it may make a call.
    fn maker(&mut self, actor: Actor, call: Call) -> Result<Doing> {
        let maker = self.making(actor, |made| made == call).first().map(|(doing, _)| *doing);
        maker.map_or_else(|| differs(format!("nobody of {actor:?} is about to: {call}")), Ok)
    }

    /// A step with one call and one reply, which the store gives too.
    fn step(&mut self, number: usize, actor: Actor, call: Call, real: Reply) -> Result {
        let maker = self.maker(actor, call)?;
        let reply = self.make(maker, call)?;
        agree(call, reply, real)?;
        self.replies.insert(number, Replies::Each(vec![(call, reply)]));
        Ok(())
    }

    /// A caller receives the reply of an earlier entry.
    fn told(&mut self, at: Timestamp, actor: Actor, of: usize, lies: &[(UserId, u32)]) {
        let Some(replies) = self.replies.remove(&of) else { return };
        let lies: Vec<(User, Slip)> = lies.iter().map(|(user, slip)| (self.user(user), small(*slip))).collect();
        self.state.lost |= !lies.is_empty();
        let (instance, ledger) = (self.instance, self.state.ledger);
        if actor.run.is_some() {
            // A run goes on to the refunds whatever becomes of the outboxes.
            self.begin(at, actor, Doing::Settle(Settle::Packet));
        }
        let reached = self.reached(actor);
        match replies {
            Replies::Each(each) => {
                for (call, reply) in each {
                    let lie = lies.iter().find(|(who, _)| matches!(call, Call::Grab { user, .. } if user == *who));
                    let reply = lie.map_or(reply, |(_, slip)| Reply::GrabAnswer(GrabAnswer::Held(*slip)));
                    reached.told(&instance, at, |made| match (made, call) {
                        // A transaction may not say what prevented it. Then that is read.
                        (Call::Claim { slip, user }, Call::ReadDecisions(slips)) if slips.has(slip) => {
                            refusals(&ledger, slip, user)
                        }
                        (Call::Claim { slip, user }, Call::ReadClaim(other)) if user == other => {
                            refusals(&ledger, slip, user)
                        }
                        _ => answers(made, call, reply).into_iter().collect(),
                    });
                }
            }
            Replies::Reconciled { part, decisions, holds } => reached.told(&instance, at, |made| {
                is_part_of(made, part, decisions, &holds).then_some(Reply::Done).into_iter().collect()
            }),
            Replies::Seen(snapshot) => reached.see(&instance, at, snapshot),
            Replies::Refused(refused) => {
                for (slip, user) in refused {
                    let is_it = |made| made == Call::Claim { slip, user };
                    reached.told(
                        &instance,
                        at,
                        |made| if is_it(made) { refusals(&ledger, slip, user) } else { Vec::new() },
                    );
                }
            }
        }
    }

    fn answer(
        &mut self,
        actor: Actor,
        asked: usize,
        user: &UserId,
        answer: Option<&std::result::Result<GrabOutcome, ()>>,
    ) -> Result {
        let (user, since) = (self.user(user), self.asked.remove(&asked).unwrap_or_default());
        let Some(answer) = answer else { return Ok(()) };
        let reached = self.reached(actor);
        reached.end();
        let answer = match answer {
            Ok(GrabOutcome::Grabbed { claim, .. }) => Answer::Grabbed(small(claim.slip)),
            Ok(GrabOutcome::SoldOut) => Answer::SoldOut,
            Ok(GrabOutcome::Expired) => Answer::Expired,
            Ok(GrabOutcome::Closed) => Answer::Closed,
            // The model has no guards, and no packets that do not exist.
            Ok(GrabOutcome::Refused(_) | GrabOutcome::NotStarted { .. } | GrabOutcome::NotFound) | Err(()) => {
                return Ok(());
            }
        };
        if !reached.may_answer(user, answer, since) {
            return differs(format!("{user} is answered {answer:?}, which no grab of process {} gives", actor.process));
        }
        self.steps += 1;
        if let Answer::Grabbed(_) = answer {
            self.instance.grabs = &ONE[usize::from(user)];
            self.state.grabs[0] = Grab { tries: 1, at: At::START };
            self.state.advance(&self.instance, 0, Err(answer));
        }
        if self.state.wrong.grabbed {
            differs(format!("{user} is answered {answer:?}, which is not theirs"))
        } else {
            Ok(())
        }
    }
}

fn agree(call: Call, reply: Reply, real: Reply) -> Result {
    if reply == real { Ok(()) } else { differs(format!("{call}: the model replies {reply:?}, the store {real:?}")) }
}

/// The reply to `made`, if `call` with its `reply` answers it. A read of more slips answers a read of fewer.
fn answers(made: Call, call: Call, reply: Reply) -> Option<Reply> {
    match (made, call, reply) {
        (Call::ReadDecisions(slips), Call::ReadDecisions(all), Reply::Set(found)) if all.covers(slips) => {
            Some(Reply::Set(found.within(slips)))
        }
        _ => (made == call).then_some(reply),
    }
}
