//! The transactions and reads of the ledger.

use model_wide::call::{Call, Reply};
use model_wide::close::{Closing, Operator};
use model_wide::instance::{SLIPS, Slip, User, sum};
use model_wide::ledger::{ClaimOutcome, Decision, Ledger};
use model_wide::set::Set;
use model_wide::state::Sender;
use shared::domain::{Timestamp, UserId};

use super::{Packet, Replies, Result, agree, differs, small};
use crate::conformance::log::{Actor, Outcome, Read, Transaction};
use crate::conformance::reached::Doing;

impl Packet {
    pub(super) fn transaction(
        &mut self,
        number: usize,
        at: Timestamp,
        actor: Actor,
        what: &Transaction,
        outcome: Outcome,
    ) -> Result {
        let is_done = outcome == Outcome::Committed;
        match what {
            Transaction::Send => {
                if is_done {
                    self.make(Doing::Send(Sender::Pay), Call::Send)?;
                }
                // A repeated send of a packet that is sent may load it.
                let parts = if self.state.ledger.sent { self.instance.parts } else { 0 };
                for part in 0..parts {
                    self.begin(at, actor, Doing::Send(Sender::Load(Set::of(part))));
                }
                Ok(())
            }
            Transaction::Commit(claims) => self.commit(number, actor, claims, is_done),
            Transaction::Refund(slips, is_sum) => {
                let slips: Set = slips.iter().map(|slip| small(*slip)).collect();
                if !is_sum {
                    return differs(format!("a refund of slips {slips} of another amount"));
                }
                self.settle(number, at, actor, Call::Refund { slips, sum: sum(slips) }, is_done)
            }
            Transaction::Close => {
                if is_done {
                    self.make(Doing::Close(Operator::Mark), Call::MarkClosed)?;
                }
                self.close(at, actor);
                Ok(())
            }
            Transaction::Settle => self.settle(number, at, actor, Call::MarkSettled, true),
        }
    }

    /// A process that has found a packet closed may be about to close its parts, all at once.
    fn close(&mut self, at: Timestamp, actor: Actor) {
        for part in 0..self.instance.parts {
            self.begin(at, actor, Doing::Close(Operator::Close(Closing::Part(Set::of(part)))));
        }
    }

    fn commit(&mut self, number: usize, actor: Actor, claims: &[(u32, UserId, bool)], is_done: bool) -> Result {
        let (mut replies, mut refused) = (Vec::new(), Vec::new());
        for (slip, user, is_right) in claims {
            let (slip, user) = (small(*slip), self.user(user));
            let call = Call::Claim { slip, user };
            let maker = self.maker(actor, call)?;
            if !is_right {
                return differs(format!("{call}, with another amount"));
            }
            let reply = self.reply(call);
            let stood = matches!(reply, Reply::Claim(ClaimOutcome::Already { slip: own, .. }) if own == slip);
            let commits = reply == Reply::Claim(ClaimOutcome::Committed);
            if is_done && !commits && !stood {
                return differs(format!("{call}: the ledger commits it, the model replies {reply:?}"));
            }
            if is_done {
                self.make(maker, call)?;
            } else if !commits {
                refused.push((slip, user));
            }
            replies.push((call, reply));
        }
        if !is_done && refused.is_empty() {
            return differs(format!("the ledger refuses {claims:?}, the model commits them"));
        }
        // Claims that went together are sent again one by one.
        let told = if is_done { Replies::Each(replies) } else { Replies::Refused(refused) };
        self.replies.insert(number, told);
        Ok(())
    }

    /// A transaction of a run of settle.
    fn settle(&mut self, number: usize, at: Timestamp, actor: Actor, call: Call, is_done: bool) -> Result {
        self.learn_in_the_way(at, actor, call);
        let maker = self.maker(actor, call)?;
        let ledger = self.state.ledger;
        let mut reply = self.make(maker, call)?;
        if let Reply::Set(in_the_way) = reply {
            // Only under the same token is a refund said to be done twice.
            let refunded = |slip: Slip| ledger.decisions[usize::from(slip)] == Decision::Refunded;
            if is_done && in_the_way.into_iter().all(refunded) {
                reply = Reply::Set(Set::NONE);
            } else if in_the_way.is_empty() != is_done {
                return differs(format!("{call}: done: {is_done}, where the model finds {in_the_way} in the way"));
            }
        }
        self.replies.insert(number, Replies::Each(vec![(call, reply)]));
        Ok(())
    }

    /// A run whose refund was refused goes on without the slips that the answer showed. These may be only some of the decided ones.
    fn learn_in_the_way(&mut self, at: Timestamp, actor: Actor, call: Call) {
        let decided = self.state.ledger.decided();
        let kept = if let Call::Refund { slips, .. } = call { slips } else { Set::NONE };
        let refund = |made| matches!(made, Call::Refund { slips, .. } if slips.covers(kept) && slips != kept);
        for (doing, made) in self.making(actor, refund) {
            let Call::Refund { slips, .. } = made else { continue };
            let in_the_way = slips.without(kept);
            if let Doing::Settle(settle) = doing
                && decided.covers(in_the_way)
            {
                let next = settle.next(&self.instance, made, Reply::Set(in_the_way));
                self.begin(at, actor, Doing::Settle(next));
            }
        }
    }

    pub(super) fn read(&mut self, number: usize, at: Timestamp, actor: Actor, read: &Read) -> Result {
        let each = match read {
            Read::Decisions(slips, found) => {
                let slips: Set = (slips.start..slips.end.min(self.terms.count)).map(small).collect();
                let found: Set = found.iter().map(|slip| small(*slip)).collect();
                let call = Call::ReadDecisions(slips);
                (call, Reply::Set(found))
            }
            Read::Claim(user, found) => {
                let user = self.user(user);
                (Call::ReadClaim(user), Reply::Slip(found.map(small)))
            }
            Read::Packet(Some((settled, closed))) => {
                if *closed && actor.run.is_none() {
                    self.close(at, actor);
                }
                (Call::ReadPacket, Reply::Packet { settled: *settled, closed: *closed })
            }
            Read::Packet(None) => return Ok(()),
        };
        if !self.state.ledger.sent {
            return Ok(());
        }
        agree(each.0, self.reply(each.0), each.1)?;
        self.replies.insert(number, Replies::Each(vec![each]));
        Ok(())
    }

    /// The decisions must be as in the model.
    pub(super) fn compare_ledger(&mut self, decided: &[(u32, Option<UserId>)], settled: bool, closed: bool) -> Result {
        let mut decisions = [Decision::Absent; SLIPS];
        for (slip, owner) in decided {
            let owner = owner.as_ref().map_or(Decision::Refunded, |owner| Decision::Claimed(self.user(owner)));
            decisions[*slip as usize] = owner;
        }
        let ledger = &self.state.ledger;
        let (real, model) = ((decisions, settled, closed), (ledger.decisions, ledger.settled, ledger.closed));
        if real != model || ledger.overwritten {
            return differs(format!(
                "the ledger differs (decisions, settled, closed)\n  table: {real:?}\n  model: {model:?}"
            ));
        }
        Ok(())
    }
}

/// What may be said of a claim that is refused. The answer may show one of two conditions that failed.
pub(super) fn refusals(ledger: &Ledger, slip: Slip, user: User) -> Vec<Reply> {
    let decision = ledger.decisions[usize::from(slip)];
    let is_foreign = decision != Decision::Absent && decision != Decision::Claimed(user);
    let own = ledger.claims[usize::from(user)];
    let alone = own.map(|slip| ClaimOutcome::Already { slip, foreign: false });
    let both = own.filter(|_| is_foreign).map(|slip| ClaimOutcome::Already { slip, foreign: true });
    let taken = is_foreign.then_some(ClaimOutcome::Taken);
    [alone, both, taken].into_iter().flatten().map(Reply::Claim).collect()
}
