//! What the work of one process, or of one run of settle, can have come to.

use std::collections::BTreeMap;
use std::time::Duration;

use model_wide::call::{Call, Reply};
use model_wide::close::Operator;
use model_wide::grab::{Answer, At};
use model_wide::hot::GrabAnswer;
use model_wide::instance::{Ack, Instance, Part, User};
use model_wide::set::Set;
use model_wide::settle::Settle;
use model_wide::state::Sender;
use shared::domain::Timestamp;

/// How long a process remembers that a packet is final (`TTL` in `service/grab/final_packets.rs`), and what clocks may differ by.
const REMEMBERED: Duration = Duration::from_mins(2);

/// A state of one of the model's actors.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Doing {
    /// The sender.
    Send(Sender),
    /// A grab of a user.
    Grab(User, At),
    /// A run of settle.
    Settle(Settle),
    /// The operator.
    Close(Operator),
}

/// Every state that the work can have reached, by the replies that the process received. A state stays reached: requests share
/// calls, and work for a caller who went away goes on.
///
/// Each state is marked with the period of requests that led to it. A request may share what another one began, but only while
/// somebody has been asking ever since.
#[derive(Debug, Default)]
pub struct Reached {
    /// The entry that began the current period.
    since: usize,
    /// Requests without an answer so far.
    asking: u32,
    doing: BTreeMap<Doing, usize>,
    answers: Vec<(User, Answer, usize)>,
    snapshots: Vec<Snapshot>,
    /// What losers were answered after each part gave them a certain "no": the process knows that the packet is final.
    final_answers: Vec<(Answer, Timestamp)>,
}

/// What an exhausted part would answer each user, while the process may remember it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub part: Part,
    pub until: Timestamp,
    /// By user.
    pub found: Vec<GrabAnswer>,
}

impl Reached {
    /// A user asks. Returns the beginning of the period.
    pub fn ask(&mut self, instance: &Instance, now: Timestamp, entry: usize, user: User) -> usize {
        if self.asking == 0 {
            self.since = entry;
        }
        self.asking += 1;
        self.reach(instance, now, Doing::Grab(user, At::START), self.since);
        self.since
    }

    /// A request has its answer. One whose caller went away goes on.
    pub fn end(&mut self) {
        self.asking = self.asking.saturating_sub(1);
    }

    /// Other work begins.
    pub fn begin(&mut self, instance: &Instance, now: Timestamp, doing: Doing) {
        self.reach(instance, now, doing, self.since);
    }

    /// Whether a request that began in the period `since` may give this answer.
    pub fn may_answer(&self, user: User, answer: Answer, since: usize) -> bool {
        self.answers.iter().any(|(who, what, period)| *who == user && *what == answer && *period >= since)
    }

    /// The states whose next call may be one of these, each with that call.
    pub fn making(&self, instance: &Instance, is_it: impl Fn(Call) -> bool) -> Vec<(Doing, Call)> {
        let each = self.doing.keys().flat_map(|doing| doing.calls(instance).into_iter().map(|call| (*doing, call)));
        each.filter(|(_, call)| is_it(*call)).collect()
    }

    /// The callers of a step receive its possible replies.
    pub fn told(&mut self, instance: &Instance, now: Timestamp, replies: impl Fn(Call) -> Vec<Reply>) {
        let told: Vec<_> = self.doing.iter().map(|(doing, period)| (*doing, *period)).collect();
        for (doing, period) in told {
            if let Doing::Grab(user, At::START) = doing {
                self.claim_read(now, user, period, replies(Call::ReadClaim(user)));
            }
            for call in doing.calls(instance) {
                for reply in replies(call) {
                    self.go(instance, now, doing, call, reply, period);
                }
            }
        }
    }

    /// The process may have read the claim of a user of a final packet (`answer_by_claim`).
    fn claim_read(&mut self, now: Timestamp, user: User, period: usize, replies: Vec<Reply>) {
        self.final_answers.retain(|(_, since)| now < since.after(REMEMBERED));
        for reply in replies {
            let answers = match reply {
                Reply::Slip(Some(slip)) if !self.final_answers.is_empty() => vec![Answer::Grabbed(slip)],
                Reply::Slip(None) => self.final_answers.iter().map(|(answer, _)| *answer).collect(),
                _ => Vec::new(),
            };
            self.answers.extend(answers.into_iter().map(|answer| (user, answer, period)));
        }
    }

    /// The process receives a snapshot, which it may remember.
    pub fn see(&mut self, instance: &Instance, now: Timestamp, snapshot: Snapshot) {
        self.snapshots.retain(|old| now < old.until);
        self.told(instance, now, |call| snapshot.reply(call).into_iter().collect());
        self.snapshots.push(snapshot);
    }

    fn go(&mut self, instance: &Instance, now: Timestamp, doing: Doing, call: Call, reply: Reply, period: usize) {
        match doing {
            Doing::Grab(user, at) => {
                let next = at.next(instance, call, reply);
                self.grab(instance, now, user, next, period);
                if let (At::Pass { .. }, Err(no)) = (at, next) {
                    self.lost(instance, now, user, no, period);
                }
            }
            Doing::Settle(settle) => {
                self.reach(instance, now, Doing::Settle(settle.next(instance, call, reply)), period);
            }
            Doing::Close(operator) => {
                self.reach(instance, now, Doing::Close(operator.next(instance, reply)), period);
            }
            Doing::Send(_) => {}
        }
    }

    /// A pass has ended, perhaps because every part says a certain "no". The process may remember the packet as final.
    fn lost(&mut self, instance: &Instance, now: Timestamp, user: User, no: Answer, period: usize) {
        let words = match no {
            // The clock of the process decides between the two.
            Answer::SoldOut | Answer::Expired => vec![Answer::SoldOut, Answer::Expired],
            Answer::Closed => vec![Answer::Closed],
            _ => return,
        };
        for no in words {
            self.grab(instance, now, user, Err(no), period);
            if instance.ack == Ack::Ledger {
                self.final_answers.retain(|(answer, _)| *answer != no);
                self.final_answers.push((no, now));
            }
        }
    }

    fn grab(&mut self, instance: &Instance, now: Timestamp, user: User, next: Result<At, Answer>, period: usize) {
        match next {
            Ok(at) => self.reach(instance, now, Doing::Grab(user, at), period),
            Err(answer) if self.may_answer(user, answer, period) => {}
            Err(answer) => self.answers.push((user, answer, period)),
        }
    }

    fn reach(&mut self, instance: &Instance, now: Timestamp, doing: Doing, period: usize) {
        if self.doing.get(&doing).is_some_and(|before| *before >= period) {
            return;
        }
        self.doing.insert(doing, period);
        match doing {
            Doing::Grab(user, at) => {
                // A reconcile may not reach the hot store.
                if let Some(next) = at.unreached() {
                    self.grab(instance, now, user, next, period);
                }
                let known: Vec<Snapshot> = self.snapshots.iter().filter(|known| now < known.until).cloned().collect();
                for call in doing.calls(instance) {
                    for reply in known.iter().filter_map(|snapshot| snapshot.remembered(call)) {
                        self.go(instance, now, doing, call, reply, period);
                    }
                }
            }
            // A hold may not be committed in time. The run goes on without it.
            Doing::Settle(Settle::Persist(..)) => {
                for call in doing.calls(instance) {
                    self.go(instance, now, doing, call, Reply::Done, period);
                }
            }
            Doing::Settle(settle) => {
                if let Some(next) = settle.unreached(instance) {
                    self.reach(instance, now, Doing::Settle(next), period);
                }
            }
            Doing::Send(_) | Doing::Close(_) => {}
        }
    }
}

impl Snapshot {
    /// What the snapshot replies to a call.
    fn reply(&self, call: Call) -> Option<Reply> {
        let Call::Grab { part, user } = call else { return None };
        self.found.get(usize::from(user)).filter(|_| part == self.part).map(|found| Reply::GrabAnswer(*found))
    }

    /// What a process that remembers it replies. Users with a hold must probe again.
    fn remembered(&self, call: Call) -> Option<Reply> {
        self.reply(call).filter(|reply| !matches!(reply, Reply::GrabAnswer(GrabAnswer::Held(_))))
    }
}

impl Doing {
    /// The calls that may come next.
    pub fn calls(self, instance: &Instance) -> Vec<Call> {
        let mut calls = Vec::with_capacity(2);
        match self {
            Self::Send(Sender::Pay) => calls.push(Call::Send),
            Self::Send(Sender::Load(parts)) => {
                calls.extend(parts.first().map(|part| Call::Load { part, decisions: Set::NONE, closed: false }));
            }
            Self::Send(Sender::Done) => {}
            Self::Grab(user, at) => at.calls(instance, user, Set::NONE, &mut calls),
            Self::Settle(settle) => settle.calls(instance, true, &mut calls),
            Self::Close(operator) => operator.calls(instance, &mut calls),
        }
        calls
    }
}
