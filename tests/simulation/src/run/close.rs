//! The operator closes packets.

use std::time::Duration;

use futures::future::{join, join_all};
use shared::domain::{Intervention, PacketId};
use shared::ports::Clock;
use shared::service::Failure;
use tokio::time::sleep;

use super::Run;
use crate::plan::GrabPlan;
use crate::trace::Kind;
use crate::world::Known;

/// A user whose first grab comes once a packet is closed.
fn late() -> GrabPlan {
    GrabPlan { user: "late".parse().expect("a user"), at: Duration::ZERO, is_right: true, tries: 1 }
}

impl Run {
    /// The operator closes a packet, then a new user comes.
    pub(super) async fn close_any(&self, number: usize) {
        if let Some(id) = self.any_id(number)
            && self.close(id).await
        {
            self.ask(id, &late()).await;
        }
    }

    /// The operator closes a packet while a process stalls that has read it and is about to load a part.
    pub(super) async fn close_at_load(&self, number: usize) {
        let sender = &self.plan.packets[number].new.sender;
        let Some(id) = self.world.next_load(sender, self.plan.active).await else { return };
        if self.close(id).await {
            sleep(self.world.chance.millis(0..=2_000)).await;
            self.ask(id, &late()).await;
        }
    }

    /// A close of a packet dies between the ledger and the hot store. Settle runs at once, while users come.
    pub(super) async fn close_half(&self, number: usize) {
        let Some(id) = self.any_id(number) else { return };
        let (Some(terms), process) = (self.world.terms(id), self.slots.any()) else { return };
        self.world.closing(id);
        let closing =
            Intervention { reason: "a simulation".parse().expect("a reason"), at: process.clock.now(), by: None };
        let closed = process.call(async { Ok::<_, Failure>(process.ledger.close(&terms, &closing).await?) }).await;
        self.world.note(format_args!("a close of {id} dies half-way: {closed:?}"));
        let mut users: Vec<GrabPlan> = self.plan.packets[number].grabs.clone();
        users.sort_by(|one, other| one.user.cmp(&other.user));
        users.dedup_by(|one, other| one.user == other.user);
        users.push(late());
        let asks = users.into_iter().map(|user| async move {
            sleep(self.world.chance.millis(0..=100)).await;
            self.ask(id, &GrabPlan { is_right: true, ..user }).await;
        });
        let _ = join(self.settle(), join_all(asks)).await;
    }

    /// The operator closes a packet. Returns whether that was answered.
    async fn close(&self, id: PacketId) -> bool {
        let process = self.slots.any();
        self.world.closing(id);
        let answer = process.call(process.close.close(id, "a simulation".parse().expect("a reason"), None)).await;
        self.world.note(format_args!("the operator closes {id}: {answer:?}"));
        let Some(answer) = answer else { return false };
        match answer {
            Ok(Some(view)) => {
                // A packet that was settled before stays as it is. A part that was loaded late may still hold its slips for a moment, and
                // the ledger takes none of these holds.
                if view.closed_at.is_some() {
                    self.world.closed(id);
                } else if !view.is_decided {
                    self.world.violated(Kind::Answer, format!("{id} is closed, and shown as {view:?}"));
                }
                true
            }
            // An id may get about before the packet is there.
            Ok(None) => false,
            Err(failure) => {
                self.defect("a close", &failure);
                false
            }
        }
    }

    /// Without faults, each close is answered, nobody wins after it even if the hot store then loses everything, and
    /// two runs of settle end the packet whatever its expiry.
    pub(super) async fn close_quietly(&self) {
        if self.plan.last_closes.is_empty() {
            return;
        }
        for Known { terms, .. } in self.world.known() {
            self.world.judge_closed(terms.id, false);
        }
        self.empty_the_outbox().await;
        let sender = |number: &usize| self.plan.packets[*number].new.sender.clone();
        let senders: Vec<_> = self.plan.last_closes.iter().map(sender).collect();
        let mut closed = Vec::new();
        for Known { terms, committed } in self.world.known() {
            if committed.is_some() && senders.contains(&terms.sender) {
                if !self.close(terms.id).await {
                    self.world.violated(Kind::Liveness, format!("{} can't be closed", terms.id));
                }
                closed.push(terms.id);
            }
        }
        if self.world.chance.happens(500) {
            // Every hold is in the ledger, so nothing is lost.
            self.world.forget_all();
        }
        for id in &closed {
            self.ask(*id, &late()).await;
        }
        self.ask_again("once they were closed").await;
        for id in &closed {
            self.world.judge_closed(*id, true);
        }
        for _ in 0..2 {
            self.settle().await;
        }
        let Some(books) = self.audit().await else { return };
        for id in closed {
            let packet = books.packets.get(&id.to_string());
            if packet.is_some_and(|packet| !packet.settled && packet.slips <= 1_000) {
                self.world.violated(Kind::Liveness, format!("{id} is closed, and not settled"));
            }
        }
    }
}
