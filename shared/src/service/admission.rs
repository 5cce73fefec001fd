//! Packets that want tickets, and whom they admit.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{PacketId, Timestamp, UserId};
use crate::ports::Table;
use crate::secret::Secret;
use crate::service::{Failure, Packets};
use crate::tickets::{Flaw, Scope, TicketFault, TicketKeys};

/// How old the keys may be that lack a ticket's. It may be a new one. Tickets that somebody made up cause no more reads than this.
const READ_AGAIN_EVERY: Duration = Duration::from_secs(10);

/// Who vouches for a user that wants a slip of a packet, or wants to see the packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Voucher {
    /// The operator, who makes the request for the user. They have decided already.
    Operator,
    /// The user themselves, with the ticket that they show, if any.
    User(Option<Box<str>>),
}

/// Whether a user is admitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// They are.
    Admitted,
    /// From this time on they are.
    NotBefore(Timestamp),
    /// They are not, for this reason.
    Refused(TicketFault),
}

/// Whether a packet admits `user` at `now`, by their ticket. Not every packet wants one, and no one whom the operator asks for needs one.
///
/// A ticket for one packet needs no read of it, so this does not say whether there is such a packet.
///
/// # Errors
/// Nobody can say now: the keys can't be read, or this function has none, since it is older than the packet's or its deployment lost them.
pub async fn admission_of<T: Table>(
    keys: Option<&Secret<TicketKeys>>,
    packets: &Packets<T>,
    id: PacketId,
    user: &UserId,
    voucher: &Voucher,
    now: Timestamp,
) -> Result<Admission, Failure> {
    if !id.wants_ticket() {
        return Ok(Admission::Admitted);
    }
    let text = match voucher {
        Voucher::Operator => return Ok(Admission::Admitted),
        Voucher::User(None) => return Ok(Admission::Refused(TicketFault::Missing)),
        Voucher::User(Some(text)) => text,
    };
    let keys = keys.ok_or_else(|| Failure::unavailable("this function has no keys of tickets"))?;
    let unread = |cause: String| {
        tracing::warn!(cause, "the keys of tickets can't be read");
        Failure::unavailable("the keys of tickets can't be read")
    };
    let mut current: Arc<TicketKeys> = keys.current().await.map_err(unread)?;
    if !current.has_key_named_by(text) {
        current = keys.within(READ_AGAIN_EVERY).await.map_err(unread)?;
    }
    let ticket = match current.open(text, user, now) {
        Ok(ticket) => ticket,
        Err(fault) => return Ok(Admission::Refused(fault)),
    };
    let is_for = match &ticket.scope {
        Scope::Packet(packet) => *packet == id,
        Scope::Reference(..) => packets.terms(id).await?.is_some_and(|terms| ticket.is_for(&terms)),
    };
    Ok(match ticket.not_before {
        _ if !is_for => Admission::Refused(TicketFault::Invalid(Flaw::Packet)),
        Some(at) => Admission::NotBefore(at),
        None => Admission::Admitted,
    })
}
