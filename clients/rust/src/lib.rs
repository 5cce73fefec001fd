#![doc = include_str!("../README.md")]

// The crate knows the contract (`openapi.yaml`) and nothing of the engine.

mod answers;
mod error;
pub mod tickets;
mod transport;
pub mod webhooks;

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, TryStreamExt};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::request::Builder;
use http::{Method, Request, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use answers::{
    Best, Closing, DecidedUser, Deed, FoundMovement, GrabResult, List, Mine, Movement, NextRound, OwnLimits, Packet,
    PacketClaim, ReferenceTotals, ReferencedPacket, ReportedClaim, SendLimit, SendRequest, Sending, Share, Split,
    Status, SuspendedUser, Suspension, Totals, UserClaim, UserLimits, Wallet, WebhookReceiver, WinLimit, Wins,
    Withdrawal,
};
pub use error::{Error, FieldError, Limit, Problem, ProblemCode};
pub use transport::Transport;

/// The characters that a path segment takes unescaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The longest first pause before a retry. It doubles with each retry, up to [`PAUSE_MOST`].
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(4);

/// The user or operator that the requests come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Caller {
    /// The user whom this bearer token names.
    Token(String),
    /// A user of a local stack, which trusts the name.
    Local(String),
    /// No user: the operator. A local stack trusts such requests; elsewhere a [`Transport`] has to sign them with AWS
    /// Signature Version 4.
    Nobody,
}

/// When the client retries: after no answer, or after [`ProblemCode::Unavailable`] or [`ProblemCode::TooManyRequests`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retries {
    /// The most tries of one request, the first included.
    pub tries_max: u32,
    /// The longest wait between two tries. If `Retry-After` asks for more, the client returns the error instead.
    pub wait_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { tries_max: 4, wait_max: Duration::from_secs(8) }
    }
}

impl Retries {
    /// Each request is sent once.
    pub const NONE: Self = Self { tries_max: 1, wait_max: Duration::ZERO };
}

/// One page of a list.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Page<'a> {
    /// The most rows, 1 to 100; `None` means 20.
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before; `None` means the first page.
    pub cursor: Option<&'a str>,
}

impl<'a> Page<'a> {
    /// The longest page behind this cursor.
    const fn after(cursor: Option<&'a str>) -> Self {
        Self { limit: Some(100), cursor }
    }
}

/// Which movements a list has; `None` means any.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MovementFilter<'a> {
    /// Not before this time, in RFC 3339.
    pub from: Option<&'a str>,
    /// Before this time.
    pub to: Option<&'a str>,
    /// Only this kind, such as `refund`.
    pub kind: Option<&'a str>,
}

impl<'a> MovementFilter<'a> {
    const fn parameters(self) -> [(&'static str, Option<&'a str>); 3] {
        [("from", self.from), ("to", self.to), ("kind", self.kind)]
    }
}

/// Packets of a sender that belong together: by their reference, by the key of their limit, or by both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Selection<'a> {
    /// Who sent them.
    pub sender_id: &'a str,
    /// Their reference.
    pub reference: Option<&'a str>,
    /// The key of their limit.
    pub limit_key: Option<&'a str>,
}

impl<'a> Selection<'a> {
    const fn parameters(self) -> [(&'static str, Option<&'a str>); 3] {
        [("sender_id", Some(self.sender_id)), ("reference", self.reference), ("limit_key", self.limit_key)]
    }
}

/// A CSV file of claims.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClaimsSheet {
    /// The name of the file, which says whether it is provisional.
    pub name: String,
    /// Its text, with the byte order mark that spreadsheets need.
    pub text: String,
}

/// A packet that was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sent {
    /// The packet.
    pub packet: Packet,
    /// Whether an earlier request with this key sent it. Then this request moved no money.
    pub replayed: bool,
}

/// A client of one API, for one caller. Clones share their connections if clones of the transport do.
#[derive(Clone, Debug)]
pub struct Client<T = reqwest::Client> {
    transport: T,
    base_url: String,
    caller: Caller,
    /// The user for whom the operator asks.
    user_id: Option<String>,
    ticket: Option<String>,
    retries: Retries,
}

impl<T: Clone> Client<T> {
    /// The same client for another caller.
    #[must_use]
    pub fn by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// For the operator: the same client for a user, who needs no token. It sends, grabs and views for them: the answers are the user's
    /// own, and so are the keys of sends.
    #[must_use]
    pub fn for_user(&self, user_id: impl Into<String>) -> Self {
        Self { user_id: Some(user_id.into()), ..self.clone() }
    }

    /// The same client with a ticket, the app's word that the caller may grab: for packets with `eligibility: ticket`.
    #[must_use]
    pub fn with_ticket(&self, ticket: impl Into<String>) -> Self {
        Self { ticket: Some(ticket.into()), ..self.clone() }
    }
}

impl<T: Transport> Client<T> {
    /// A client of the API at `base_url`, which may have a path. The timeouts of `transport` bound each try.
    pub fn new(transport: T, base_url: impl Into<String>, caller: Caller) -> Self {
        let base_url = base_url.into().trim_end_matches('/').to_owned();
        Self { transport, base_url, caller, user_id: None, ticket: None, retries: Retries::default() }
    }

    /// The same client with other retries.
    #[must_use]
    pub fn retrying(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// Sends a packet. The same key and body again, also after an error, return the first answer and move no money. A key is 1 to 255
    /// visible ASCII characters.
    pub async fn send(&self, key: &str, body: &SendRequest) -> Result<Sent, Error> {
        let path = format!("{}/packets", self.of(""));
        let request = self.request(Method::POST, &path).header("idempotency-key", key);
        let response = self.ask(with_json(request, body)?).await?;
        let replayed = response.headers().contains_key("idempotent-replayed");
        Ok(Sent { packet: read(&response)?, replayed })
    }

    /// Grabs a slip. Losing is an outcome, not an error.
    pub async fn grab(&self, packet_id: &str, passphrase: Option<&str>) -> Result<GrabResult, Error> {
        let body = passphrase.map_or_else(|| json!({}), |passphrase| json!({"passphrase": passphrase}));
        self.write(Method::POST, &format!("{}/grab", self.path_of(packet_id)), &body).await
    }

    /// Returns a packet.
    pub async fn packet(&self, packet_id: &str) -> Result<Packet, Error> {
        self.get(&self.path_of(packet_id)).await
    }

    /// Returns one page of a packet's claims, in the order of the slips.
    pub async fn claims(&self, packet_id: &str, page: Page<'_>) -> Result<List<PacketClaim>, Error> {
        self.query(&format!("{}/claims", self.path_of(packet_id)), &[], page).await
    }

    /// Returns one page of a packet's claims, the newest first. With `after`, the `newest_cursor` of an earlier page, only what is newer:
    /// it may repeat claims, so merge them by slip. A large packet that is settled is listed in slip order.
    pub async fn newest_claims(
        &self,
        packet_id: &str,
        after: Option<&str>,
        page: Page<'_>,
    ) -> Result<List<PacketClaim>, Error> {
        let path = format!("{}/claims", self.path_of(packet_id));
        self.query(&path, &[("order", Some("newest")), ("after", after)], page).await
    }

    /// All of a packet's claims, in the order of the slips. Reads one page at a time.
    pub fn all_claims<'a>(&'a self, packet_id: &'a str) -> impl Stream<Item = Result<PacketClaim, Error>> + 'a {
        every(move |cursor| async move { self.claims(packet_id, Page::after(cursor.as_deref())).await })
    }

    /// All packets that the caller sent, the newest first. Reads one page at a time.
    pub fn all_my_packets(&self) -> impl Stream<Item = Result<Packet, Error>> + '_ {
        every(move |cursor| async move { self.my_packets(Page::after(cursor.as_deref())).await })
    }

    /// All of the caller's claims, those of the newest packet first. Reads one page at a time.
    pub fn all_my_claims(&self) -> impl Stream<Item = Result<UserClaim, Error>> + '_ {
        every(move |cursor| async move { self.my_claims(Page::after(cursor.as_deref())).await })
    }

    /// All movements of the caller's wallet that `filter` lets pass, the newest first. Reads one page at a time.
    pub fn all_my_movements<'a>(
        &'a self,
        filter: MovementFilter<'a>,
    ) -> impl Stream<Item = Result<Movement, Error>> + 'a {
        every(move |cursor| async move { self.my_movements(filter, Page::after(cursor.as_deref())).await })
    }

    /// For the operator: all movements of a wallet that `filter` lets pass, the newest first. Reads one page at a time.
    pub fn all_movements<'a>(
        &'a self,
        user_id: &'a str,
        filter: MovementFilter<'a>,
    ) -> impl Stream<Item = Result<Movement, Error>> + 'a {
        every(move |cursor| async move { self.movements(user_id, filter, Page::after(cursor.as_deref())).await })
    }

    /// For the operator: all packets that were sent with this reference, the newest first. Reads one page at a time.
    pub fn find_all_packets<'a>(&'a self, reference: &'a str) -> impl Stream<Item = Result<Packet, Error>> + 'a {
        every(move |cursor| async move { self.find_packets(reference, Page::after(cursor.as_deref())).await })
    }

    /// For the operator: all claims of packets that belong together, the oldest packet first. Reads one page at a time.
    pub fn all_reported_claims<'a>(
        &'a self,
        packets: Selection<'a>,
    ) -> impl Stream<Item = Result<ReportedClaim, Error>> + 'a {
        every(move |cursor| async move { self.report_claims(packets, Page::after(cursor.as_deref())).await })
    }

    /// Returns the caller's wallet.
    pub async fn wallet(&self) -> Result<Wallet, Error> {
        match &self.user_id {
            Some(user_id) => self.wallet_of(user_id).await,
            None => self.get("/me/wallet").await,
        }
    }

    /// Returns one page of the packets that the caller sent.
    pub async fn my_packets(&self, page: Page<'_>) -> Result<List<Packet>, Error> {
        self.query(&format!("{}/packets", self.of("/me")), &[], page).await
    }

    /// Returns one page of the caller's claims.
    pub async fn my_claims(&self, page: Page<'_>) -> Result<List<UserClaim>, Error> {
        self.query(&format!("{}/claims", self.of("/me")), &[], page).await
    }

    /// For the operator: pays money into a wallet. The same id and amount again move no money.
    pub async fn deposit(&self, user_id: &str, deposit_id: &str, amount: u64) -> Result<Wallet, Error> {
        self.movement(user_id, "deposits", deposit_id, amount).await
    }

    /// For the operator: takes money out of a wallet. The same id and amount again move no money.
    pub async fn withdraw(&self, user_id: &str, withdrawal_id: &str, amount: u64) -> Result<Withdrawal, Error> {
        self.movement(user_id, "withdrawals", withdrawal_id, amount).await
    }

    /// For the operator: reserves money for a withdrawal, which is pending until it is posted or voided. The user sees the note.
    pub async fn reserve(
        &self,
        user_id: &str,
        withdrawal_id: &str,
        amount: u64,
        note: Option<&str>,
    ) -> Result<Withdrawal, Error> {
        let body = json!({"amount": amount, "pending": true, "note": note});
        self.write(Method::PUT, &withdrawal(user_id, withdrawal_id, ""), &body).await
    }

    /// For the operator: returns a withdrawal.
    pub async fn withdrawal(&self, user_id: &str, withdrawal_id: &str) -> Result<Withdrawal, Error> {
        self.get(&withdrawal(user_id, withdrawal_id, "")).await
    }

    /// For the operator: ends a pending withdrawal that was paid out, once. What `amount` leaves goes back; `None`: all was paid out.
    pub async fn post_withdrawal(
        &self,
        user_id: &str,
        withdrawal_id: &str,
        amount: Option<u64>,
    ) -> Result<Withdrawal, Error> {
        // The API refuses an amount that is null.
        let body = amount.map_or_else(|| json!({}), |amount| json!({"amount": amount}));
        self.write(Method::POST, &withdrawal(user_id, withdrawal_id, "/post"), &body).await
    }

    /// For the operator: ends a pending withdrawal that was not paid out, once. The user sees the reason.
    pub async fn void_withdrawal(
        &self,
        user_id: &str,
        withdrawal_id: &str,
        reason: Option<&str>,
    ) -> Result<Withdrawal, Error> {
        self.write(Method::POST, &withdrawal(user_id, withdrawal_id, "/void"), &json!({"reason": reason})).await
    }

    /// For the operator: returns one page of the pending withdrawals, the oldest first, of those before a time (RFC 3339).
    pub async fn pending_withdrawals(&self, before: Option<&str>, page: Page<'_>) -> Result<List<Withdrawal>, Error> {
        self.query("/operator/withdrawals", &[("before", before)], page).await
    }

    /// Asks for money out of the caller's wallet. The same id again is the same withdrawal.
    pub async fn ask_withdrawal(&self, id: &str, amount: u64, note: Option<&str>) -> Result<Withdrawal, Error> {
        self.write(Method::POST, "/me/withdrawals", &json!({"id": id, "amount": amount, "note": note})).await
    }

    /// For the operator: returns any user's wallet.
    pub async fn wallet_of(&self, user_id: &str) -> Result<Wallet, Error> {
        self.get(&format!("/wallets/{}", segment(user_id))).await
    }

    /// For the operator: returns one page of a wallet's movements, the newest first.
    pub async fn movements(
        &self,
        user_id: &str,
        filter: MovementFilter<'_>,
        page: Page<'_>,
    ) -> Result<List<Movement>, Error> {
        self.query(&format!("/wallets/{}/movements", segment(user_id)), &filter.parameters(), page).await
    }

    /// Returns one page of the movements of the caller's wallet, the newest first.
    pub async fn my_movements(&self, filter: MovementFilter<'_>, page: Page<'_>) -> Result<List<Movement>, Error> {
        match &self.user_id {
            Some(user_id) => self.movements(user_id, filter, page).await,
            None => self.query("/me/movements", &filter.parameters(), page).await,
        }
    }

    /// For the operator: returns any packet.
    pub async fn any_packet(&self, packet_id: &str) -> Result<Packet, Error> {
        self.get(&format!("/operator/packets/{}", segment(packet_id))).await
    }

    /// For the operator: returns one page of any packet's claims, in the order of the slips.
    pub async fn any_claims(&self, packet_id: &str, page: Page<'_>) -> Result<List<PacketClaim>, Error> {
        self.query(&format!("/operator/packets/{}/claims", segment(packet_id)), &[], page).await
    }

    /// For the operator: returns what a user has of a packet: a claim, a held slip, or nothing.
    pub async fn share(&self, packet_id: &str, user_id: &str) -> Result<Share, Error> {
        self.get(&format!("/operator/packets/{}/users/{}", segment(packet_id), segment(user_id))).await
    }

    /// For the operator: returns one page of the packets that were sent with this reference.
    pub async fn find_packets(&self, reference: &str, page: Page<'_>) -> Result<List<Packet>, Error> {
        self.query("/operator/packets", &[("reference", Some(reference))], page).await
    }

    /// For the operator: ends a packet before its expiry. From the answer on nobody gets a slip. The rest goes back to the sender. A
    /// packet that is closed again keeps its first reason.
    pub async fn close_packet(&self, packet_id: &str, reason: &str) -> Result<Packet, Error> {
        let path = format!("/operator/packets/{}/close", segment(packet_id));
        self.write(Method::POST, &path, &json!({"reason": reason})).await
    }

    /// For the operator: returns one page of all claims of packets that belong together, the oldest packet first.
    pub async fn report_claims(&self, packets: Selection<'_>, page: Page<'_>) -> Result<List<ReportedClaim>, Error> {
        self.query("/operator/claims", &packets.parameters(), page).await
    }

    /// For the operator: returns the same as a CSV file of at most 3 MB, some 20,000 claims.
    pub async fn claims_sheet(&self, packets: Selection<'_>) -> Result<ClaimsSheet, Error> {
        let path = path_with("/operator/claims", packets.parameters());
        let request = self.request(Method::GET, &path).header(ACCEPT, "text/csv");
        let response = self.ask(request.body(Bytes::new()).map_err(Error::Unsendable)?).await?;
        let named = response.headers().get(CONTENT_DISPOSITION).and_then(|value| value.to_str().ok());
        let name = named.and_then(|value| value.split('"').nth(1)).unwrap_or("claims.csv").to_owned();
        Ok(ClaimsSheet { name, text: String::from_utf8_lossy(response.body()).into_owned() })
    }

    /// For the operator: returns what became of the money of all packets of a sender with a reference.
    pub async fn reference(&self, sender_id: &str, reference: &str) -> Result<ReferenceTotals, Error> {
        self.get(&path_of_reference(sender_id, reference, "")).await
    }

    /// For the operator: closes all packets of a sender with a reference that are open or scheduled. After an error, the same again closes
    /// the rest.
    pub async fn close_reference(
        &self,
        sender_id: &str,
        reference: &str,
        reason: &str,
    ) -> Result<ReferenceTotals, Error> {
        let path = path_of_reference(sender_id, reference, "/close");
        self.write(Method::POST, &path, &json!({"reason": reason})).await
    }

    /// For the operator: returns one page of what operators did, the newest first: all, or what they did to a user.
    pub async fn deeds(&self, user_id: Option<&str>, page: Page<'_>) -> Result<List<Deed>, Error> {
        self.query("/operator/deeds", &[("user_id", user_id)], page).await
    }

    /// For the operator: returns one page of the users who are `suspended` or `limited`, or either.
    pub async fn decided_users(&self, state: Option<&str>, page: Page<'_>) -> Result<List<DecidedUser>, Error> {
        self.query("/operator/users", &[("state", state)], page).await
    }

    /// For the operator: returns one page of what a user has won towards each limit.
    pub async fn wins(&self, user_id: &str, page: Page<'_>) -> Result<List<Wins>, Error> {
        self.query(&format!("/operator/users/{}/wins", segment(user_id)), &[], page).await
    }

    /// For the operator: returns whose deposits and withdrawals have this id.
    pub async fn movements_with_id(&self, id: &str, page: Page<'_>) -> Result<List<FoundMovement>, Error> {
        self.query("/operator/movements", &[("id", Some(id))], page).await
    }

    /// For the operator: returns whether packets can be sent.
    pub async fn sending(&self) -> Result<Sending, Error> {
        self.get("/operator/sending").await
    }

    /// For the operator: pauses sending, for a reason.
    pub async fn pause_sending(&self, reason: &str) -> Result<Sending, Error> {
        self.write(Method::PUT, "/operator/sending", &json!({"paused": true, "reason": reason})).await
    }

    /// For the operator: lets sending go on.
    pub async fn resume_sending(&self) -> Result<Sending, Error> {
        self.write(Method::PUT, "/operator/sending", &json!({"paused": false})).await
    }

    /// For the operator: returns how the receiver of webhooks is.
    pub async fn webhooks(&self) -> Result<WebhookReceiver, Error> {
        self.get("/operator/webhooks").await
    }

    /// For the operator: lets the receiver of webhooks be called again, or not at all.
    pub async fn enable_webhooks(&self, enabled: bool) -> Result<WebhookReceiver, Error> {
        self.write(Method::PUT, "/operator/webhooks", &json!({"enabled": enabled})).await
    }

    /// For the operator: returns the limits of a user. One that is `None` is the deployment's.
    pub async fn limits_of(&self, user_id: &str) -> Result<UserLimits, Error> {
        self.get(&format!("/operator/users/{}/limits", segment(user_id))).await
    }

    /// For the operator: sets both limits of a user, in minor units. `None`: the deployment's.
    pub async fn set_limits(
        &self,
        user_id: &str,
        daily_sent_max: Option<u64>,
        deposit_max: Option<u64>,
    ) -> Result<UserLimits, Error> {
        let path = format!("/operator/users/{}/limits", segment(user_id));
        self.write(Method::PUT, &path, &json!({"daily_sent_max": daily_sent_max, "deposit_max": deposit_max})).await
    }

    /// For the operator: suspends a user, who can then neither send nor withdraw ([`ProblemCode::AccountSuspended`]), nor grab if
    /// `grabs` is true.
    pub async fn suspend_user(&self, user_id: &str, reason: &str, grabs: bool) -> Result<SuspendedUser, Error> {
        let path = format!("/operator/users/{}/suspension", segment(user_id));
        self.write(Method::PUT, &path, &json!({"reason": reason, "grabs": grabs})).await
    }

    /// For the operator: lifts a user's suspension, if there is one.
    pub async fn lift_suspension(&self, user_id: &str) -> Result<(), Error> {
        let path = format!("/operator/users/{}/suspension", segment(user_id));
        let request = self.request(Method::DELETE, &path).body(Bytes::new()).map_err(Error::Unsendable)?;
        self.ask(request).await.map(drop)
    }

    async fn movement<V: DeserializeOwned>(
        &self,
        user_id: &str,
        kind: &str,
        id: &str,
        amount: u64,
    ) -> Result<V, Error> {
        let path = format!("/wallets/{}/{kind}/{}", segment(user_id), segment(id));
        self.write(Method::PUT, &path, &json!({"amount": amount})).await
    }

    /// The path of a packet.
    fn path_of(&self, packet_id: &str) -> String {
        format!("{}/packets/{}", self.of(""), segment(packet_id))
    }

    /// The beginning of the paths of a user's own packets, or of their histories. `own` is that of the caller themselves.
    fn of(&self, own: &str) -> String {
        self.user_id.as_ref().map_or_else(|| own.to_owned(), |user_id| format!("/users/{}", segment(user_id)))
    }

    async fn query<V: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, Option<&str>)],
        page: Page<'_>,
    ) -> Result<V, Error> {
        let limit = page.limit.map(|limit| limit.to_string());
        let parameters = filter.iter().copied().chain([("limit", limit.as_deref()), ("cursor", page.cursor)]);
        self.get(&path_with(path, parameters)).await
    }

    async fn write<V: DeserializeOwned>(&self, method: Method, path: &str, body: &Value) -> Result<V, Error> {
        self.answer(with_json(self.request(method, path), body)?).await
    }

    async fn get<V: DeserializeOwned>(&self, path: &str) -> Result<V, Error> {
        self.answer(self.request(Method::GET, path).body(Bytes::new()).map_err(Error::Unsendable)?).await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base_url));
        if let Some(ticket) = &self.ticket {
            request = request.header("grab-ticket", ticket);
        }
        match &self.caller {
            Caller::Token(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            Caller::Local(user) => request.header("x-user-id", user),
            Caller::Nobody => request,
        }
    }

    async fn answer<V: DeserializeOwned>(&self, request: Request<Bytes>) -> Result<V, Error> {
        read(&self.ask(request).await?)
    }

    /// Sends the same request until it succeeds, fails for good, or runs out of tries.
    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let mut tries = 1;
        loop {
            let error = match self.transport.exchange(request.clone()).await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => Error::Problem(Box::new(Problem::of(&response))),
                Err(error) => Error::Unreachable(error),
            };
            let Some(wait) = wait_before(&error, tries) else { return Err(error) };
            if tries >= self.retries.tries_max || wait > self.retries.wait_max {
                return Err(error);
            }
            tries += 1;
            tokio::time::sleep(wait).await;
        }
    }
}

/// The rows of all pages of a list, of which `ask` reads the page behind a cursor.
fn every<'a, Row: 'a, Asked>(ask: impl Fn(Option<String>) -> Asked + 'a) -> impl Stream<Item = Result<Row, Error>> + 'a
where
    Asked: Future<Output = Result<List<Row>, Error>> + 'a,
{
    // `Some` while there is a page behind this cursor.
    let pages = stream::try_unfold(Some(None), move |place: Option<Option<String>>| {
        let page = place.map(&ask);
        async move {
            let Some(page) = page else { return Ok(None) };
            let List { rows, next_cursor, .. } = page.await?;
            Ok(Some((stream::iter(rows.into_iter().map(Ok)), next_cursor.map(Some))))
        }
    });
    pages.try_flatten()
}

/// The wait before the next try; `None` if another try would not help.
fn wait_before(error: &Error, tries: u32) -> Option<Duration> {
    let retry_after = match error {
        Error::Unreachable(_) => Duration::ZERO,
        Error::Problem(problem) if problem.code.is_passing() => problem.retry_after.unwrap_or_default(),
        Error::Problem(_) | Error::Unsendable(_) | Error::Json(_) => return None,
    };
    // Full jitter on top of `Retry-After`: clients that were rejected together should not return together.
    let most = PAUSE_FIRST.saturating_mul(1 << (tries - 1).min(8)).min(PAUSE_MOST);
    Some(retry_after + most * rand::random_range(0..=1_000) / 1_000)
}

fn with_json(request: Builder, body: &impl Serialize) -> Result<Request<Bytes>, Error> {
    let bytes = serde_json::to_vec(body).map_err(Error::Json)?;
    request.header(CONTENT_TYPE, "application/json").body(bytes.into()).map_err(Error::Unsendable)
}

fn read<V: DeserializeOwned>(response: &Response<Bytes>) -> Result<V, Error> {
    serde_json::from_slice(response.body()).map_err(Error::Json)
}

/// A path with those parameters that have a value.
fn path_with<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let given = parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", segment(value?))));
    format!("{path}?{}", given.collect::<Vec<_>>().join("&"))
}

/// The path of all packets of a sender with a reference, and what follows it.
fn path_of_reference(sender_id: &str, reference: &str, rest: &str) -> String {
    path_with(&format!("/operator/references/{}{rest}", segment(reference)), [("sender_id", Some(sender_id))])
}

/// The path of a withdrawal, and what follows it.
fn withdrawal(user_id: &str, withdrawal_id: &str, rest: &str) -> String {
    format!("/wallets/{}/withdrawals/{}{rest}", segment(user_id), segment(withdrawal_id))
}

fn segment(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, SEGMENT)
}
