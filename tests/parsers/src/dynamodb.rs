use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use shared::domain::{
    AckMode, Amount, Claim, DailyLimit, DayZone, Guard, Intervention, MovementFilter, MovementKind, PacketId, PartId,
    Seed, Split, Suspension, Terms, Timestamp, UserId, WithdrawalEnd, WithdrawalRequest,
};
use shared::dynamodb::SdkTable;
use shared::ledger::{ClaimOutcome, DepositOutcome, Ledger, RefundOutcome, SendOutcome, SendRequest};
use shared::ports::Entropy;

/// A connection to `DynamoDB` that gives these answers, one after another, and then only errors. A zero byte separates the
/// answers. The first byte `4` or `5` of an answer means the status 400 or 500, any other byte means 200.
#[derive(Debug)]
struct Answers {
    left: Mutex<VecDeque<(u16, Vec<u8>)>>,
    /// Whether an answer confirmed a transaction.
    committed: Arc<AtomicBool>,
}

impl Answers {
    fn new(data: &[u8], committed: Arc<AtomicBool>) -> Self {
        let answers = data.split(|byte| *byte == 0).map(|answer| match answer.split_first() {
            Some((b'4', body)) => (400, body.to_vec()),
            Some((b'5', body)) => (500, body.to_vec()),
            Some((_, body)) => (200, body.to_vec()),
            None => (200, Vec::new()),
        });
        Self { left: Mutex::new(answers.collect()), committed }
    }
}

impl HttpConnector for Answers {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (status, body) = self.left.lock().unwrap().pop_front().unwrap_or((500, Vec::new()));
        let target = request.headers().get("x-amz-target").unwrap();
        if status == 200 && target.ends_with("TransactWriteItems") {
            self.committed.store(true, Ordering::Relaxed);
        }
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status.try_into().unwrap(), body.into())))
    }
}

struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// A ledger that receives these answers.
struct Scripted {
    ledger: Ledger<SdkTable>,
    committed: Arc<AtomicBool>,
}

impl Scripted {
    fn new(data: &[u8]) -> Self {
        let committed = Arc::default();
        let connector = SharedHttpConnector::new(Answers::new(data, Arc::clone(&committed)));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("local"))
            .credentials_provider(Credentials::new("key", "secret", None, None, "none"))
            .retry_config(RetryConfig::disabled())
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build();
        let table = SdkTable::new(Client::from_conf(config), "hongbao".to_owned());
        Self { ledger: Ledger::new(table, Arc::new(NoEntropy)), committed }
    }

    fn committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }
}

thread_local! {
    /// Its clock is paused, so that waits end at once.
    static RUNTIME: RefCell<tokio::runtime::Runtime> =
        RefCell::new(tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap());
}

fn run(future: impl Future<Output = ()>) {
    RUNTIME.with_borrow(|runtime| runtime.block_on(future));
}

fn user() -> UserId {
    "alice".parse().unwrap()
}

fn terms() -> Terms {
    Terms {
        id: PacketId::new(Timestamp::from_ms(1_795_181_400_000), 1, [7; 10]),
        sender: user(),
        split: Split::Random,
        split_version: 1,
        seed: Seed([1; 32]),
        currency: "CNY".to_owned(),
        total: Amount::new(1_000),
        count: 3,
        cap: Amount::new(20_000),
        greeting: String::new(),
        created_at: Timestamp::from_ms(1_795_181_400_000),
        expires_at: Timestamp::from_ms(1_795_181_500_000),
        ack: AckMode::Ledger,
        guard: Guard::default(),
        limit: None,
        labels: shared::domain::Labels::default(),
    }
}

/// The answers to a transaction, cancellation reasons included, and to the reads after it. The ledger must not report a
/// transaction as committed unless an answer confirmed it. The first byte selects the transaction.
pub fn cancellations(data: &[u8]) {
    let Some((which, answers)) = data.split_first() else { return };
    let scripted = Scripted::new(answers);
    run(async {
        match which % 5 {
            0 => claim(&scripted).await,
            1 => refund(&scripted).await,
            2 => send(&scripted).await,
            3 => outside(&scripted).await,
            _ => {
                let sums = shared::domain::Summary::default();
                drop(scripted.ledger.mark_settled(&terms(), &sums, Timestamp::from_ms(7)).await);
            }
        }
    });
}

async fn claim(scripted: &Scripted) {
    let (user, claim) = (user(), Claim { slip: 2, amount: Amount::new(5), at: Timestamp::from_ms(9) });
    match scripted.ledger.claim(&terms(), &user, &claim, None).await {
        Ok(ClaimOutcome::Committed) => assert!(scripted.committed()),
        Ok(ClaimOutcome::Taken(decision) | ClaimOutcome::AlreadyAndTaken(_, decision)) => {
            assert_ne!(decision.owner.user(), Some(&user));
        }
        Ok(ClaimOutcome::Already(_) | ClaimOutcome::Refused(_)) | Err(_) => {}
    }
}

async fn refund(scripted: &Scripted) {
    let slips = [(0, Amount::new(5)), (2, Amount::new(6))];
    match scripted.ledger.refund(&terms(), &slips, Timestamp::from_ms(9)).await {
        Ok(RefundOutcome::Refunded(decisions)) => {
            assert!(scripted.committed());
            assert_eq!(decisions.iter().map(|decision| (decision.slip, decision.amount)).collect::<Vec<_>>(), slips);
        }
        Ok(RefundOutcome::AlreadyDecided(decisions)) => assert!(!decisions.is_empty()),
        Err(_) => {}
    }
}

async fn send(scripted: &Scripted) {
    let (terms, key) = (terms(), "k1".parse().unwrap());
    let request = SendRequest { terms: &terms, amounts: &[], key: &key, body_hash: [1; 32], daily_limit: None };
    match scripted.ledger.send(&request).await {
        Ok(SendOutcome::Replayed(id)) => assert_ne!(id, terms.id),
        Ok(
            SendOutcome::Sent
            | SendOutcome::KeyReused
            | SendOutcome::InsufficientBalance
            | SendOutcome::Suspended
            | SendOutcome::DailyLimitExceeded,
        )
        | Err(_) => {}
    }
    let daily_limit = DailyLimit { most: Amount::new(1_000), zone: DayZone::UTC };
    let limited = SendRequest { daily_limit: Some(&daily_limit), ..request };
    drop(scripted.ledger.send(&limited).await);
}

async fn outside(scripted: &Scripted) {
    let key = "d1".parse().unwrap();
    let moved = scripted.ledger.deposit(&user(), &key, Amount::new(5), None, Timestamp::from_ms(9)).await;
    if moved.is_ok_and(|moved| moved == DepositOutcome::Moved) {
        assert!(scripted.committed());
    }
    let request = WithdrawalRequest::pending(key.clone(), Amount::new(5));
    drop(scripted.ledger.withdraw(&user(), &request, Some(3), None, Timestamp::from_ms(9)).await);
    let end = WithdrawalEnd::Post(Some(Amount::new(3)));
    drop(scripted.ledger.end_withdrawal(&user(), &key, end, None, Timestamp::from_ms(9)).await);
    drop(scripted.ledger.pending_withdrawals(None, None, 3).await);
    let reason = Intervention { reason: "reported".parse().unwrap(), at: Timestamp::from_ms(9), by: None };
    let suspension = Suspension { intervention: reason.clone(), grabs: true };
    drop(scripted.ledger.suspend(&user(), &suspension).await);
    drop(scripted.ledger.lift_suspension(&user()).await);
    if scripted.ledger.close(&terms(), &reason).await.is_ok_and(|is_closed| is_closed) {
        assert!(scripted.committed());
    }
}

/// The answers to reads, well-formed or not. The first byte selects the read.
pub fn items(data: &[u8]) {
    let Some((which, answers)) = data.split_first() else { return };
    let Scripted { ledger, .. } = Scripted::new(answers);
    let (id, user) = (terms().id, user());
    run(async {
        match which % 9 {
            0 => drop(ledger.packet(id).await),
            1 => drop(ledger.packets(&[id]).await),
            2 => drop(ledger.claim_of(&user, id).await),
            3 => drop(ledger.account(&user).await),
            4 => drop(ledger.sent(&user, None, 2).await),
            5 => drop(ledger.claims(&user, None, 2).await),
            6 => drop(ledger.due(0, Timestamp::from_ms(9), None, 2).await),
            7 => {
                let decisions = ledger.decisions(id, [0, 1, 2, 70]).await;
                assert!(decisions.into_iter().flatten().all(|decision| [0, 1, 2, 70].contains(&decision.slip)));
            }
            _ => {
                drop(ledger.amounts(PartId { packet: id, index: 0 }).await);
                movements(&ledger, &user).await;
            }
        }
    });
}

async fn movements(ledger: &Ledger<SdkTable>, user: &UserId) {
    let Ok(slice) = ledger.movements(user, MovementFilter::default(), None, 2).await else { return };
    assert!(slice.rows.len() <= 2);
    for movement in slice.rows {
        let outgoing = matches!(movement.kind, MovementKind::Sent | MovementKind::Withdrawal);
        assert!(if outgoing { movement.amount <= 0 } else { movement.amount >= 0 }, "{movement:?}");
    }
}
