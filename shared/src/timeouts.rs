//! How long things may take. A request has one deadline, and every other bound is derived from it.

use std::time::Duration;

/// A request is answered within this time. API Gateway waits for 29 s and a function lives for 15 s, so the answer is always
/// the engine's own.
pub const REQUEST: Duration = Duration::from_secs(10);
/// A request is answered this long before its function's time is up, so that the answer gets out.
pub const ANSWER: Duration = Duration::from_millis(500);
/// What a request may spend on one transaction with all its tries, or on passes over a packet that others keep changing.
/// `DynamoDB` keeps a transaction "in progress" for 5 s after its connection was lost; this is longer.
pub const TRANSACTION: Duration = REQUEST.saturating_sub(Duration::from_secs(2));
/// What a grab may spend on its claim, with the wait for other claims: its user is answered within 4 s. Settle or the
/// user's next request continue from there.
pub const CLAIM: Duration = Duration::from_secs(3);
/// One try of a transaction. It is well above a slow one: if one were given up, `DynamoDB` would call its repetition "in progress".
pub const TRY: Duration = Duration::from_secs(3);
/// One try of a read, which takes milliseconds. Several requests may share it, so a read that hangs must not hold them up for long.
pub const READ_TRY: Duration = Duration::from_secs(1);
/// What a loser waits for a read of the ledger where the hot store can answer instead.
pub const CLAIM_READ: Duration = Duration::from_millis(500);
/// A loser's answer waits this long for the packet's terms. With them the process answers later losers sooner.
pub const TERMS_READ: Duration = Duration::from_millis(100);
/// A new connection to `DynamoDB`.
pub const CONNECT: Duration = Duration::from_secs(1);
