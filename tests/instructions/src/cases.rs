//! Grabs from the event's JSON to the answer's, over stores in memory, in one thread.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, LambdaEvent, Request, Service, service_fn};
use serde_json::{Value, json};
use shared::domain::{
    AckMode, Amount, IdempotencyKey, Limits, MAX_MOVEMENT, PacketId, Split, Terms, Timestamp, UserId,
};
use shared::ledger::Ledger;
use shared::memory::{MemoryHot, MemoryTable};
use shared::ports::{Clock, Entropy};
use shared::service::{GrabSlip, NewPacket, SendOutcome, SendPacket, SendPolicy, Stores, Wallets};

use crate::{BoxError, GRABS_MOST};

const CURRENCY: &str = "CNY";
const EVENT: &str = include_str!("../../../events/grab.json");
/// The packet in [`EVENT`].
const PACKET: &str = "38FS4S83HF3Y07WMYNH727QYT0";
/// Grabs before the counted ones, so that the work that a process does once is not counted.
const WARM_UP: usize = 20;

/// A kind of grab, by its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// No slip is left, and the process knows the part to be final.
    Loser,
    /// A slip, whose claim the ledger commits.
    Winner,
    /// The slip that the user has already, as the hot store knows it.
    Replay,
}

impl Case {
    /// All cases, in the order of the output.
    pub const ALL: [Self; 3] = [Self::Loser, Self::Winner, Self::Replay];

    /// Its name in `bounds.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loser => "loser",
            Self::Winner => "winner",
            Self::Replay => "replay",
        }
    }

    /// A text that only its answers contain.
    const fn mark(self) -> &'static str {
        match self {
            Self::Loser => r#"\"outcome\":\"sold_out\""#,
            Self::Winner => r#"\"replayed\":false"#,
            Self::Replay => r#"\"replayed\":true"#,
        }
    }

    /// Slips of its packet: one part, so that all runs probe the same part.
    const fn slips(self) -> u32 {
        match self {
            Self::Loser => 1,
            Self::Winner | Self::Replay => 1_000,
        }
    }
}

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_800_000_000_000)
    }
}

/// Bytes that are the same in each run, and never twice the same in a run.
#[derive(Default)]
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(count.into_iter().rev().cycle()).for_each(|(byte, of_count)| *byte = of_count);
    }
}

/// Prepares [`GRABS_MOST`] grabs of a case, and makes `grabs` of them. With `planted`, it parses each event twice.
///
/// # Errors
/// If a grab is not answered as its case expects.
pub async fn run(case: Case, grabs: usize, planted: bool) -> Result<(), BoxError> {
    let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(Counted::default())));
    let hot = Arc::new(MemoryHot::in_memory(Arc::new(Still)));
    let stores = Stores::new(ledger, hot, Arc::new(Still), Arc::new(Counted::default()));
    let packet = send(&stores, case.slips()).await?.id;

    let grab = Arc::new(GrabSlip::new(stores, CURRENCY.to_owned()));
    // The Lambda runtime's own wrapper of a handler.
    let mut function = Adapter::from(service_fn(move |request: Request| {
        let grab = Arc::clone(&grab);
        async move { Ok::<_, Infallible>(grab::handle(&grab, request).await) }
    }));
    let mut answer = async |event: &str| -> Result<Vec<u8>, BoxError> {
        let request: LambdaRequest = serde_json::from_str(event)?;
        let mut context = Context::default();
        // No run under valgrind ends because its time is up.
        context.deadline = u64::MAX >> 16;
        let response = function.call(LambdaEvent::new(request, context)).await?;
        Ok(serde_json::to_vec(&response)?)
    };

    let warm_up = (0..WARM_UP).map(|n| event(packet, &format!("early-{n}"))).collect::<Result<Vec<_>, _>>()?;
    let events = (0..GRABS_MOST).map(|n| event(packet, &format!("user-{n}"))).collect::<Result<Vec<_>, _>>()?;
    for event in &warm_up {
        answer(event).await?;
        // Lets tasks that it started in the background finish.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    if case == Case::Replay {
        for event in &events {
            answer(event).await?;
        }
    }
    for event in events.iter().take(grabs) {
        if planted {
            drop(serde_json::from_str::<LambdaRequest>(event)?);
        }
        let answer = answer(event).await?;
        if !std::str::from_utf8(&answer)?.contains(case.mark()) {
            return Err(format!("a {} was answered {}", case.name(), String::from_utf8_lossy(&answer)).into());
        }
    }
    Ok(())
}

/// Sends a packet.
async fn send(stores: &Stores<MemoryTable, MemoryHot>, slips: u32) -> Result<Arc<Terms>, BoxError> {
    let sender: UserId = "sender".parse()?;
    let key: IdempotencyKey = "key".parse()?;
    let total = Amount::new(u64::from(slips) * 100);
    let wallets =
        Wallets::new(Arc::clone(&stores.ledger), Arc::clone(&stores.clock), CURRENCY.to_owned(), MAX_MOVEMENT);
    wallets.deposit(&sender, &"deposit".parse()?, total, None).await?;
    let policy = SendPolicy {
        currency: CURRENCY.to_owned(),
        ack: AckMode::Ledger,
        limits: Limits::default(),
        daily_limit: None,
    };
    let packet = NewPacket {
        sender,
        split: Split::Random,
        total,
        count: slips,
        greeting: String::new(),
        starts_at: None,
        expires_in: Duration::from_hours(1),
        passphrase: None,
        recipients: None,
        labels: shared::domain::Labels::default(),
    };
    match SendPacket::new(stores.clone(), policy).send(packet, &key).await? {
        SendOutcome::Sent(terms) => Ok(terms),
        other => Err(format!("not sent: {other:?}").into()),
    }
}

/// The event of a user's grab.
fn event(packet: PacketId, user: &str) -> Result<String, BoxError> {
    let mut event: Value = serde_json::from_str(&EVENT.replace(PACKET, &packet.to_string()))?;
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(user);
    Ok(event.to_string())
}
