//! Every answer that clients received, checked against each other and finally against the ledger.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::books::{Books, PacketBooks};

/// The content of a `grabbed` answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Promise {
    /// The slip.
    pub slip: u64,
    /// The slip's amount.
    pub amount: u64,
    /// The time of the grab, in milliseconds since 1970.
    pub at: u64,
}

/// The answer to a grab.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrabAnswer {
    /// The user has a slip.
    Grabbed(Promise),
    /// All slips have other owners.
    SoldOut,
    /// The packet is expired.
    Expired,
    /// The packet has not started.
    NotStarted,
    /// The operator has closed the packet.
    Closed,
    /// The guard does not admit the user or the passphrase.
    Refused,
    /// No answer, after all retries.
    Nothing,
    /// An impossible answer.
    Wrong(String),
}

impl From<Result<client::GrabResult, client::Error>> for GrabAnswer {
    fn from(answer: Result<client::GrabResult, client::Error>) -> Self {
        use client::{Error, GrabResult as Answered, ProblemCode};
        match answer {
            Ok(Answered::Grabbed { slip, amount, grabbed_at, .. }) => match grabbed_at.parse::<Timestamp>() {
                Ok(at) => {
                    let at = u64::try_from(at.as_millisecond()).unwrap_or_default();
                    Self::Grabbed(Promise { slip: slip.into(), amount, at })
                }
                Err(_) => Self::Wrong(grabbed_at),
            },
            Ok(Answered::SoldOut { .. }) => Self::SoldOut,
            Ok(Answered::Expired { .. }) => Self::Expired,
            Ok(Answered::Closed { .. }) => Self::Closed,
            Ok(Answered::NotStarted { .. }) => Self::NotStarted,
            // Packets with limits have tests of their own.
            Ok(Answered::LimitReached { .. }) => Self::Wrong("a limit where there is none".to_owned()),
            Ok(Answered::Other) => Self::Wrong("an unknown outcome".to_owned()),
            Err(Error::Problem(problem))
                if matches!(problem.code, ProblemCode::NotARecipient | ProblemCode::WrongPassphrase) =>
            {
                Self::Refused
            }
            Err(error) => Self::Wrong(shared::error_chain(&error)),
        }
    }
}

/// The result of a grab with all its retries.
#[derive(Debug)]
pub struct GrabResult {
    /// The answer.
    pub answer: GrabAnswer,
    /// When the user first asked, in milliseconds since 1970.
    pub asked_at: u64,
    /// Whether an earlier attempt had no answer, so that its outcome is unknown.
    pub had_unknown: bool,
}

/// Losses of a shard's Redis: data that it acknowledged before the end of a loss may be gone.
#[derive(Clone, Debug, Default)]
struct Losses {
    /// Since when Redis loses data, in milliseconds since 1970; `None`: it does not.
    since: Option<u64>,
    last_end: Option<Instant>,
    /// Those that ended, from their beginnings to their ends.
    ended: Vec<RangeInclusive<u64>>,
}

impl Losses {
    /// Whether Redis lost data between two times.
    fn are_within(&self, from: u64, to: u64) -> bool {
        let is_within = |loss: &RangeInclusive<u64>| *loss.start() <= to && from <= *loss.end();
        self.ended.iter().any(is_within) || self.since.is_some_and(|begun| begun <= to)
    }
}

/// All answers to the clients of a shard.
#[derive(Debug)]
pub struct Book {
    /// Whether its packets are in `redis` mode; then a promise is only as durable as Redis.
    redis_acks: bool,
    losses: Mutex<Losses>,
    notes: Mutex<Notes>,
}

#[derive(Clone, Debug, Default)]
struct Notes {
    packets: HashMap<String, Packet>,
    /// Sends without an answer.
    unknown_sends: usize,
}

#[derive(Clone, Debug)]
struct Packet {
    sender: String,
    sent: Instant,
    /// When it starts, in milliseconds since 1970; 0: at once.
    starts_at: u64,
    closing: Closing,
    users: HashMap<String, User>,
}

/// What became of the operator's wish to close a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Closing {
    /// There was none.
    Not,
    /// It was asked for, and not answered.
    Asked,
    /// It was answered at this time, in milliseconds since 1970.
    Answered(u64),
}

/// The answers to one user about one packet.
#[derive(Clone, Debug, Default)]
struct User {
    promise: Option<Promise>,
    denied: Option<GrabAnswer>,
    /// Whether one of the user's grabs had no answer, and may still be carried out at any time.
    had_unknown: bool,
}

/// The result of the comparison with the ledger.
#[derive(Debug, Default)]
pub struct Checked {
    /// Promises that equal the ledger's claims.
    pub promises_kept: u64,
    /// Denials whose user has no claim.
    pub denials_true: u64,
    /// Claims of denied users, by an earlier attempt without an answer that was carried out later.
    pub late_claims: u64,
    /// Promises in `redis` mode that Redis then lost.
    pub promises_lost_with_redis: u64,
    /// Violations.
    pub violations: Vec<String>,
}

impl Book {
    /// An empty book.
    #[must_use]
    pub fn new(redis_acks: bool) -> Self {
        Self { redis_acks, losses: Mutex::default(), notes: Mutex::default() }
    }

    /// All answers so far, in a book of their own.
    #[must_use]
    pub fn copy(&self) -> Self {
        let (losses, notes) = (lock(&self.losses).clone(), self.notes().clone());
        Self { redis_acks: self.redis_acks, losses: Mutex::new(losses), notes: Mutex::new(notes) }
    }

    /// The users with a promise, each with its packet.
    #[must_use]
    pub fn promised(&self) -> Vec<(String, String)> {
        let notes = self.notes();
        let winners = |(id, packet): (&String, &Packet)| {
            let users = packet.users.iter().filter(|(_, user)| user.promise.is_some());
            users.map(|(user, _)| (id.clone(), user.clone())).collect::<Vec<_>>()
        };
        notes.packets.iter().flat_map(winners).collect()
    }

    /// Redis is about to lose data.
    pub fn loss_begins(&self) {
        lock(&self.losses).since = Some(now_ms());
    }

    /// Redis has lost data and serves again.
    pub fn loss_ends(&self) {
        let mut losses = lock(&self.losses);
        let ended = losses.since.take().map(|begun| begun..=now_ms());
        losses.ended.extend(ended);
        losses.last_end = Some(Instant::now());
    }

    /// Whether Redis may have lost holds of a packet that was sent at `sent`, so that its answers are no promises. A
    /// hold that was lost before a promise can break that promise too, if a run of settle had read the hold and commits it
    /// late.
    fn is_lost(&self, sent: Instant) -> bool {
        let losses = lock(&self.losses);
        self.redis_acks && (losses.since.is_some() || losses.last_end.is_some_and(|end| end >= sent))
    }

    /// A packet was sent that starts at this time, in milliseconds since 1970; 0: at once.
    pub fn sent(&self, id: &str, sender: &str, starts_at: u64) {
        let (sender, sent) = (sender.to_owned(), Instant::now());
        let packet = Packet { sender, sent, starts_at, closing: Closing::Not, users: HashMap::new() };
        self.notes().packets.insert(id.to_owned(), packet);
    }

    /// The operator is about to close a packet.
    pub fn closing(&self, id: &str) {
        self.set_closing(id, Closing::Asked);
    }

    /// The operator's close was answered.
    pub fn closed(&self, id: &str) {
        self.set_closing(id, Closing::Answered(now_ms()));
    }

    /// The first answer to a close counts.
    fn set_closing(&self, id: &str, closing: Closing) {
        if let Some(packet) = self.notes().packets.get_mut(id)
            && !matches!(packet.closing, Closing::Answered(_))
        {
            packet.closing = closing;
        }
    }

    /// The packets that the operator wished to close, and whether that was answered.
    #[must_use]
    pub fn closes(&self) -> Vec<(String, bool)> {
        let notes = self.notes();
        let asked = notes.packets.iter().filter(|(_, packet)| packet.closing != Closing::Not);
        asked.map(|(id, packet)| (id.clone(), packet.closing != Closing::Asked)).collect()
    }

    /// A packet may have been sent.
    pub fn perhaps_sent(&self) {
        self.notes().unknown_sends += 1;
    }

    /// Notes an answer. `admitted`: whether the guard admits the user. Returns what is wrong with the answer, by itself
    /// or compared with earlier answers to the user.
    pub fn enter(&self, id: &str, user: &str, admitted: bool, result: GrabResult) -> Result<(), String> {
        let GrabResult { answer, asked_at, had_unknown } = result;
        let mut notes = self.notes();
        let packet = notes.packets.get_mut(id).ok_or_else(|| format!("{id}: no user sent it"))?;
        let is_lost = self.is_lost(packet.sent);
        let (starts_at, closing) = (packet.starts_at, packet.closing);
        let notes = packet.users.entry(user.to_owned()).or_default();
        notes.had_unknown |= had_unknown;
        let before = notes.promise.as_ref().filter(|_| !is_lost);
        let contradiction = || format!("{id}: {user} was answered {before:?}, and then {answer:?}");
        match (&answer, before) {
            (GrabAnswer::Nothing, _) => Ok(()),
            (GrabAnswer::Wrong(what), _) => Err(format!("{id}: {user}: {what}")),
            (GrabAnswer::Refused, _) if admitted => {
                Err(format!("{id}: {user} was refused although the guard admits them"))
            }
            (GrabAnswer::Grabbed(_), _) if !admitted => {
                Err(format!("{id}: {user} got a slip although the guard does not admit them: {answer:?}"))
            }
            (GrabAnswer::Grabbed(promise), _) if promise.at < starts_at => {
                Err(format!("{id}: {user} got a slip before the start at {starts_at}: {answer:?}"))
            }
            (GrabAnswer::NotStarted, _) if asked_at >= starts_at => {
                Err(format!("{id}: {user} asked at {asked_at}, after the start at {starts_at}: {answer:?}"))
            }
            (GrabAnswer::Closed, _) if closing == Closing::Not => {
                Err(format!("{id}: {user} was answered {answer:?}, and nobody closed it"))
            }
            (GrabAnswer::Grabbed(promise), Some(earlier)) if promise == earlier => Ok(()),
            (_, Some(_)) => Err(contradiction()),
            (GrabAnswer::Grabbed(promise), None) => {
                notes.promise = Some(promise.clone());
                Ok(())
            }
            (_, None) => {
                notes.denied = Some(answer);
                Ok(())
            }
        }
    }

    /// Compares all answers with the ledger.
    #[must_use]
    pub fn compare(&self, books: &Books) -> Checked {
        let notes = self.notes();
        let mut checked = Checked::default();
        for (id, packet) in &notes.packets {
            match books.packets.get(id) {
                Some(booked) => self.compare_packet(id, packet, booked, &mut checked),
                None => checked.violations.push(format!("{id}: sent, but not in the ledger")),
            }
        }
        let unknown = books.packets.keys().filter(|id| !notes.packets.contains_key(*id)).count();
        if unknown > notes.unknown_sends {
            let perhaps = notes.unknown_sends;
            checked.violations.push(format!(
                "{unknown} packets without an answered send, but only {perhaps} sends without an answer"
            ));
        }
        checked
    }

    fn compare_packet(&self, id: &str, packet: &Packet, booked: &PacketBooks, checked: &mut Checked) {
        if booked.sender != packet.sender {
            checked.violations.push(format!("{id}: {} sent it, and {} paid for it", packet.sender, booked.sender));
        }
        let claims: BTreeMap<&str, Promise> = booked
            .claims
            .iter()
            .map(|(user, &(slip, amount, at))| (&**user, Promise { slip: slip.into(), amount, at }))
            .collect();
        for (user, claim) in &claims {
            if claim.at < packet.starts_at {
                let at = packet.starts_at;
                checked.violations.push(format!("{id}: {user} has {claim:?} from before the start at {at}"));
            }
            // A loss can take the close back.
            if let Closing::Answered(at) = packet.closing
                && claim.at > at
                && !lock(&self.losses).are_within(at, claim.at)
            {
                checked.violations.push(format!("{id}: {user} has {claim:?} from after the close at {at}"));
            }
        }
        for user in claims.keys().filter(|user| !packet.users.contains_key(**user)) {
            checked.violations.push(format!("{id}: {user} never asked, and has {:?}", claims[*user]));
        }
        for (user, notes) in &packet.users {
            let claim = claims.get(&**user);
            match (&notes.promise, claim) {
                (Some(promise), Some(claim)) if promise == claim => checked.promises_kept += 1,
                (Some(_), _) if self.is_lost(packet.sent) => checked.promises_lost_with_redis += 1,
                (Some(promise), _) => {
                    checked.violations.push(format!("{id}: {user} was promised {promise:?}, and has {claim:?}"));
                }
                (None, None) => checked.denials_true += u64::from(notes.denied.is_some()),
                (None, Some(_)) if notes.had_unknown && notes.denied != Some(GrabAnswer::Refused) => {
                    checked.late_claims += 1;
                }
                (None, Some(_)) if self.is_lost(packet.sent) => checked.late_claims += 1,
                (None, Some(claim)) => {
                    let denied = &notes.denied;
                    checked.violations.push(format!("{id}: {user} was answered {denied:?}, and has {claim:?}"));
                }
            }
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }
}

/// Now, in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: &str = "packet";

    fn promise(slip: u64) -> GrabAnswer {
        GrabAnswer::Grabbed(Promise { slip, amount: 5, at: 7 })
    }

    fn result(answer: GrabAnswer, had_unknown: bool) -> GrabResult {
        GrabResult { answer, asked_at: 6, had_unknown }
    }

    /// A book of one packet, and the ledger's content with these claims.
    fn book(redis_acks: bool, claims: &[(&str, u32)]) -> (Book, Books) {
        let book = Book::new(redis_acks);
        book.sent(PACKET, "sam", 0);
        let packet = PacketBooks {
            sender: "sam".to_owned(),
            slips: 9,
            settled: true,
            decisions: BTreeMap::new(),
            claims: claims.iter().map(|(user, slip)| ((*user).to_owned(), (*slip, 5, 7))).collect(),
        };
        (book, Books { packets: BTreeMap::from([(PACKET.to_owned(), packet)]), balances: BTreeMap::new() })
    }

    #[test]
    fn true_answers_are_counted() {
        let (book, books) = book(false, &[("ann", 1), ("eve", 2)]);
        book.enter(PACKET, "ann", true, result(promise(1), false)).unwrap();
        book.enter(PACKET, "bob", true, result(GrabAnswer::SoldOut, false)).unwrap();
        book.enter(PACKET, "eve", true, result(GrabAnswer::SoldOut, true)).unwrap();
        let checked = book.compare(&books);
        assert_eq!((checked.promises_kept, checked.denials_true, checked.late_claims), (1, 1, 1));
        assert_eq!(checked.violations, Vec::<String>::new());
    }

    #[test]
    fn an_answer_that_contradicts_an_earlier_one_is_found() {
        for second in [
            promise(2),
            GrabAnswer::SoldOut,
            GrabAnswer::Expired,
            GrabAnswer::Refused,
            GrabAnswer::Wrong("500".to_owned()),
        ] {
            let (book, _) = book(false, &[]);
            book.enter(PACKET, "ann", true, result(promise(1), false)).unwrap();
            book.enter(PACKET, "ann", true, result(promise(1), false)).unwrap();
            assert!(book.enter(PACKET, "ann", true, result(second.clone(), true)).is_err(), "{second:?}");
        }
    }

    #[test]
    fn an_answer_that_contradicts_the_guard_is_found() {
        let (book, _) = book(false, &[]);
        assert!(book.enter(PACKET, "ann", false, result(promise(1), false)).is_err());
        assert!(book.enter(PACKET, "bob", true, result(GrabAnswer::Refused, false)).is_err());
    }

    #[test]
    fn an_answer_that_contradicts_the_ledger_is_found() {
        type Case = (&'static str, &'static [(&'static str, u32)], Option<(GrabAnswer, bool)>);
        let cases: [Case; 6] = [
            ("a promise without a claim", &[], Some((promise(1), false))),
            ("another slip than the promised one", &[("ann", 2)], Some((promise(1), false))),
            ("a claim despite a denial", &[("ann", 1)], Some((GrabAnswer::SoldOut, false))),
            ("a claim despite an expiry", &[("ann", 1)], Some((GrabAnswer::Expired, false))),
            ("a claim of a refused user", &[("ann", 1)], Some((GrabAnswer::Refused, true))),
            ("a claim of a user who never asked", &[("ann", 1)], None),
        ];
        for (what, claims, answer) in cases {
            let (book, books) = book(false, claims);
            if let Some((answer, had_unknown)) = answer {
                book.enter(PACKET, "ann", answer != GrabAnswer::Refused, result(answer, had_unknown)).unwrap();
            }
            assert_eq!(book.compare(&books).violations.len(), 1, "{what}");
        }
    }

    #[test]
    fn a_win_before_the_start_is_found() {
        let (book, books) = book(false, &[("ann", 1)]);
        // Slips of these tests are held at 7.
        book.sent(PACKET, "sam", 8);
        book.enter(PACKET, "bob", true, result(GrabAnswer::NotStarted, false)).unwrap();
        assert!(book.enter(PACKET, "ann", true, result(promise(1), false)).is_err());
        assert_eq!(book.compare(&books).violations.len(), 2, "of the claim, and of a user without a good answer");
        book.sent(PACKET, "sam", 6);
        assert!(book.enter(PACKET, "bob", true, result(GrabAnswer::NotStarted, false)).is_err(), "it has started");
    }

    #[test]
    fn a_win_after_an_answered_close_is_found() {
        for (what, answered, loss, violations) in [
            ("before", 7, None, 0),
            ("after", 6, None, 1),
            ("after, by a loss", 5, Some(6..=9), 0),
            ("lost before", 6, Some(1..=5), 1),
        ] {
            let (book, books) = book(false, &[("ann", 1)]);
            assert!(book.enter(PACKET, "bob", true, result(GrabAnswer::Closed, false)).is_err(), "nobody closed it");
            book.enter(PACKET, "ann", true, result(promise(1), false)).unwrap();
            book.closing(PACKET);
            assert_eq!(book.closes(), [(PACKET.to_owned(), false)]);
            book.enter(PACKET, "bob", true, result(GrabAnswer::Closed, false)).unwrap();
            book.set_closing(PACKET, Closing::Answered(answered));
            book.closed(PACKET);
            assert_eq!(book.closes(), [(PACKET.to_owned(), true)]);
            lock(&book.losses).ended.extend(loss);
            assert_eq!(book.compare(&books).violations.len(), violations, "{what}");
        }
    }

    #[test]
    fn missing_and_unknown_packets_are_found() {
        let (book, books) = book(false, &[]);
        assert_eq!(book.compare(&Books::default()).violations.len(), 1, "a sent packet is missing");
        let stranger = Book::new(false);
        assert_eq!(stranger.compare(&books).violations.len(), 1, "an unknown packet exists");
        stranger.perhaps_sent();
        assert_eq!(stranger.compare(&books).violations.len(), 0, "it belongs to the send without an answer");
    }

    #[test]
    fn a_promise_in_redis_mode_is_as_durable_as_redis() {
        for redis_acks in [false, true] {
            let (book, books) = book(redis_acks, &[]);
            book.enter(PACKET, "ann", true, result(promise(1), false)).unwrap();
            book.loss_begins();
            book.loss_ends();
            let checked = book.compare(&books);
            let expected = if redis_acks { (1, 0) } else { (0, 1) };
            assert_eq!((checked.promises_lost_with_redis, checked.violations.len()), expected);
            assert_eq!(book.enter(PACKET, "ann", true, result(promise(3), false)).is_ok(), redis_acks);
        }
    }
}
