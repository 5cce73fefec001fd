//! The pure core: money, ids, packets, parts, the split. It has no async code, no AWS, no Redis, no clock and no randomness
//! of its own: the time and the seed come in as arguments.

mod amounts;
mod day;
mod deed;
mod id;
mod labels;
mod limits;
mod money;
mod operator;
mod packet;
mod part;
mod slip;
mod split;
mod status;
mod summary;
mod text;
mod time;
mod trace;
mod wallet;
mod win_limit;
mod withdrawal;

pub use amounts::{Amounts, AmountsError};
pub use day::{DailyLimit, Day, DayZone};
pub use deed::{Deed, DeedKind, Mandate};
pub use id::{IdError, IdempotencyKey, MAX_PARTS, PACKET_ID_RANDOM_BYTES, PacketId, RequestKey, Signer, UserId};
pub use labels::{Cover, LabelError, Labels, LimitKey, Reference, Selection};
pub use limits::{Limits, MAX_BALANCE, MAX_MOVEMENT, UserRates};
pub use money::Amount;
pub use operator::{
    Intervention, OPERATOR_KEY, OperatorReason, ReasonError, Right, SendingDecision, Suspension, UserLimits,
};
pub use packet::{AckMode, Guard, PassphraseDigest, Refusal, Terms};
pub use part::{PARTITIONS, PartId, Partition, part_count};
pub use slip::{Claim, Decision, Hold, Owner};
pub use split::{SPLIT_VERSION, Seed, Split, SplitError, commitment, split, split_unshuffled};
pub use status::{End, Status};
pub use summary::{Best, Summary};
pub use text::{Passphrase, is_plain};
pub use time::Timestamp;
pub use trace::{TraceId, TraceIdError};
pub use wallet::{ClaimRecord, Movement, MovementFilter, MovementKind, Wallet};
pub use win_limit::{WinLimit, Won};
pub use withdrawal::{Note, Requester, Withdrawal, WithdrawalEnd, WithdrawalRequest, WithdrawalState};
