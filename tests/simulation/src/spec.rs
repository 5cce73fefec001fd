//! A packet as a sequential object, for a linearizability checker.
//!
//! The ledger tells what happened to the slips, so its commits are the writes of a history.
//! - A slip is *taken* between the winner's first call and the commit of its decision.
//! - A slip is *refunded* at the commit.
//! - A slip *strays* if it was held for a user who never got it. From then on it may be gone for others, as the promise
//!   about `sold_out` allows.
//!
//! The answers are the reads.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// Steps after which the checker gives up on a history.
const STEPS_MAX: u64 = 20_000;

/// An operation on a packet. Users are numbered.
#[derive(Clone, Debug)]
pub enum Op {
    /// A user asks for a slip.
    Ask(usize),
    /// A slip becomes the claim of a user.
    Take { user: usize, slip: u32 },
    /// A slip goes back to the sender.
    Refund(u32),
    /// A slip is held for a user who never gets it.
    Stray(u32),
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Ret {
    /// A write is done.
    Done,
    /// The user has this slip.
    Slip(u32),
    /// Every slip is gone, and the user has none.
    SoldOut,
    /// Another "no slip" answer; the user has none.
    No,
}

/// A call, with its beginning and perhaps its end.
#[derive(Clone, Debug)]
pub struct Call {
    /// The operation.
    pub op: Op,
    /// The tick at which it began.
    pub invoked: u64,
    /// The tick at which it ended, and its result; `None`: perhaps it never took place.
    pub returned: Option<(u64, Ret)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Slip {
    Free,
    Stray,
    Gone,
}

#[derive(Clone, Debug)]
struct Packet {
    slips: Vec<Slip>,
    owners: BTreeMap<usize, u32>,
    steps: Rc<Cell<u64>>,
}

impl Packet {
    fn answer(&self, user: usize) -> Ret {
        match self.owners.get(&user) {
            Some(slip) => Ret::Slip(*slip),
            None if self.slips.contains(&Slip::Free) => Ret::No,
            None => Ret::SoldOut,
        }
    }
}

impl SequentialSpec for Packet {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match *op {
            Op::Ask(user) => return self.answer(user),
            Op::Take { user, slip } => {
                self.owners.insert(user, slip);
                self.slips[slip as usize] = Slip::Gone;
            }
            Op::Refund(slip) => self.slips[slip as usize] = Slip::Gone,
            Op::Stray(slip) if self.slips[slip as usize] == Slip::Free => self.slips[slip as usize] = Slip::Stray,
            Op::Stray(_) => {}
        }
        Ret::Done
    }

    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX {
            return false;
        }
        match *op {
            Op::Ask(user) => {
                let right = self.answer(user);
                right == *ret || *ret == Ret::No && right == Ret::SoldOut
            }
            Op::Take { user, slip } if self.owners.contains_key(&user) || self.slips[slip as usize] == Slip::Gone => {
                false
            }
            Op::Refund(slip) if self.slips[slip as usize] == Slip::Gone => false,
            _ => self.invoke(op) == *ret,
        }
    }
}

/// Whether a sequential order explains the history; `None`: it is too long to decide.
pub fn is_linearizable(slips: u32, mut calls: Vec<Call>) -> Option<bool> {
    // The checker tries its threads in order. The order in which the calls ended is nearly always right.
    calls.sort_by_key(|call| call.returned.map_or(u64::MAX, |(tick, _)| tick));
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * calls.len());
    for (thread, call) in calls.iter().enumerate() {
        events.push((call.invoked, false, thread));
        events.extend(call.returned.map(|(tick, _)| (tick, true, thread)));
    }
    events.sort_unstable();
    let steps = Rc::new(Cell::new(0));
    let packet = Packet { slips: vec![Slip::Free; slips as usize], owners: BTreeMap::new(), steps: Rc::clone(&steps) };
    let mut tester = LinearizabilityTester::new(packet);
    for (_, is_return, thread) in events {
        let call = &calls[thread];
        let entered = match call.returned {
            Some((_, ret)) if is_return => tester.on_return(thread, ret).map(drop),
            _ => tester.on_invoke(thread, call.op.clone()).map(drop),
        };
        entered.expect("each thread has one call");
    }
    let consistent = tester.is_consistent();
    (consistent || steps.get() <= STEPS_MAX).then_some(consistent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: Op, invoked: u64, returned: u64, ret: Ret) -> Call {
        Call { op, invoked, returned: Some((returned, ret)) }
    }

    #[test]
    fn sold_out_before_the_last_slip_is_asked_for_is_found() {
        let take = |user, slip, from, to| call(Op::Take { user, slip }, from, to, Ret::Done);
        let fine = vec![take(0, 0, 1, 4), take(1, 1, 2, 9), call(Op::Ask(2), 3, 5, Ret::SoldOut)];
        assert_eq!(is_linearizable(2, fine), Some(true), "the second slip may have been gone at once");
        let wrong = vec![take(0, 0, 1, 4), take(1, 1, 6, 9), call(Op::Ask(2), 3, 5, Ret::SoldOut)];
        assert_eq!(is_linearizable(2, wrong), Some(false));
        let stray = Call { op: Op::Stray(1), invoked: 2, returned: None };
        let excused = vec![take(0, 0, 1, 4), take(1, 1, 6, 9), call(Op::Ask(2), 3, 5, Ret::SoldOut), stray];
        assert_eq!(is_linearizable(2, excused), Some(true), "it was held for somebody else then");
    }

    #[test]
    fn an_answer_that_takes_a_slip_back_is_found() {
        let take = call(Op::Take { user: 0, slip: 0 }, 1, 4, Ret::Done);
        for (ret, right) in [(Ret::Slip(0), true), (Ret::SoldOut, false), (Ret::No, false)] {
            let history = vec![take.clone(), call(Op::Ask(0), 5, 6, ret)];
            assert_eq!(is_linearizable(1, history), Some(right), "{ret:?}");
        }
    }
}
