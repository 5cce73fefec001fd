//! Every answer that clients were given, held against each other and in the end against the ledger.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::tests::{Books, PacketBooks};
use tokio::time::Instant;

use crate::clients::{Promise, Said, Told};

/// When a shard's Redis lost something: what it had acknowledged before the end of a loss may be gone.
#[derive(Debug, Default)]
struct Losses {
    under_way: bool,
    last_end: Option<Instant>,
}

/// What the clients of a shard were told.
#[derive(Debug)]
pub struct Book {
    /// Whether its packets' grabs are answered by Redis' word: then a promise is as durable as Redis.
    redis_acks: bool,
    losses: Mutex<Losses>,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    packets: HashMap<String, Packet>,
    /// Sends that nobody knows the end of.
    unknown_sends: usize,
}

#[derive(Debug)]
struct Packet {
    sender: String,
    sent: Instant,
    users: HashMap<String, User>,
}

/// What a user was told of a packet.
#[derive(Debug, Default)]
struct User {
    promise: Option<Promise>,
    denied: Option<Said>,
    /// Whether a grab of his had no answer: it may have been carried out whenever.
    had_unknown: bool,
}

/// What a comparison with the ledger came to.
#[derive(Debug, Default)]
pub struct Checked {
    /// Promises that the ledger has, word for word.
    pub promises_kept: u64,
    /// Denials whose user has no claim.
    pub denials_true: u64,
    /// Claims of users who were denied after an attempt of unknown end, which was carried out later.
    pub late_claims: u64,
    /// Promises on Redis' word that Redis lost afterwards.
    pub promises_lost_with_redis: u64,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Book {
    /// An empty one.
    #[must_use]
    pub fn new(redis_acks: bool) -> Self {
        Self { redis_acks, losses: Mutex::default(), notes: Mutex::default() }
    }

    /// Redis is about to lose something.
    pub fn loss_begins(&self) {
        lock(&self.losses).under_way = true;
    }

    /// It has, and serves again.
    pub fn loss_ends(&self) {
        *lock(&self.losses) = Losses { under_way: false, last_end: Some(Instant::now()) };
    }

    /// Whether Redis may have lost what it acknowledged of a packet that was `sent` then, so that its word on it is no
    /// promise: a hold that was lost before a promise can break it as well, when settle had read it and commits it late.
    fn is_lost(&self, sent: Instant) -> bool {
        let losses = lock(&self.losses);
        self.redis_acks && (losses.under_way || losses.last_end.is_some_and(|end| end >= sent))
    }

    /// A packet was sent.
    pub fn sent(&self, id: &str, sender: &str) {
        let packet = Packet { sender: sender.to_owned(), sent: Instant::now(), users: HashMap::new() };
        self.notes().packets.insert(id.to_owned(), packet);
    }

    /// A packet may have been sent.
    pub fn perhaps_sent(&self) {
        self.notes().unknown_sends += 1;
    }

    /// Notes an answer. `admitted`: whether the packet is for the user. Returns what is wrong with it, in itself or
    /// compared to what the user was told before.
    pub fn enter(&self, id: &str, user: &str, admitted: bool, told: Told) -> Result<(), String> {
        let Told { said, had_unknown } = told;
        let mut notes = self.notes();
        let packet = notes.packets.get_mut(id).ok_or_else(|| format!("{id}: nobody sent it"))?;
        let is_lost = self.is_lost(packet.sent);
        let notes = packet.users.entry(user.to_owned()).or_default();
        notes.had_unknown |= had_unknown;
        let before = notes.promise.as_ref().filter(|_| !is_lost);
        let contradiction = || format!("{id}: {user} was told {before:?}, and then {said:?}");
        match (&said, before) {
            (Said::Nothing, _) => Ok(()),
            (Said::Wrong(what), _) => Err(format!("{id}: {user}: {what}")),
            (Said::Refused, _) if admitted => Err(format!("{id}: {user} was refused what is for him")),
            (Said::Grabbed(_), _) if !admitted => Err(format!("{id}: {user} got what is not for him: {said:?}")),
            (Said::Grabbed(promise), Some(earlier)) if promise == earlier => Ok(()),
            (_, Some(_)) => Err(contradiction()),
            (Said::Grabbed(promise), None) => {
                notes.promise = Some(promise.clone());
                Ok(())
            }
            (Said::SoldOut | Said::Expired | Said::Refused, None) => {
                notes.denied = Some(said);
                Ok(())
            }
        }
    }

    /// Holds all answers against the ledger.
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
            checked.violations.push(format!("{unknown} packets that nobody was told of, of {perhaps} perhaps sent"));
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
                (None, Some(_)) if notes.had_unknown && notes.denied != Some(Said::Refused) => checked.late_claims += 1,
                (None, Some(_)) if self.is_lost(packet.sent) => checked.late_claims += 1,
                (None, Some(claim)) => {
                    let denied = &notes.denied;
                    checked.violations.push(format!("{id}: {user} was told {denied:?}, and has {claim:?}"));
                }
            }
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: &str = "packet";

    fn promise(slip: u64) -> Said {
        Said::Grabbed(Promise { slip, amount: 5, at: 7 })
    }

    fn told(said: Said, had_unknown: bool) -> Told {
        Told { said, had_unknown }
    }

    /// A book of one packet, and the ledger's side of it with these claims.
    fn book(redis_acks: bool, claims: &[(&str, u32)]) -> (Book, Books) {
        let book = Book::new(redis_acks);
        book.sent(PACKET, "sam");
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
    fn what_is_true_is_counted() {
        let (book, books) = book(false, &[("ann", 1), ("eve", 2)]);
        book.enter(PACKET, "ann", true, told(promise(1), false)).unwrap();
        book.enter(PACKET, "bob", true, told(Said::SoldOut, false)).unwrap();
        book.enter(PACKET, "eve", true, told(Said::SoldOut, true)).unwrap();
        let checked = book.compare(&books);
        assert_eq!((checked.promises_kept, checked.denials_true, checked.late_claims), (1, 1, 1));
        assert_eq!(checked.violations, Vec::<String>::new());
    }

    #[test]
    fn no_answer_may_contradict_an_earlier_one() {
        for second in [promise(2), Said::SoldOut, Said::Expired, Said::Refused, Said::Wrong("500".to_owned())] {
            let (book, _) = book(false, &[]);
            book.enter(PACKET, "ann", true, told(promise(1), false)).unwrap();
            book.enter(PACKET, "ann", true, told(promise(1), false)).unwrap();
            assert!(book.enter(PACKET, "ann", true, told(second.clone(), true)).is_err(), "{second:?}");
        }
    }

    #[test]
    fn a_guard_admits_whom_it_should() {
        let (book, _) = book(false, &[]);
        assert!(book.enter(PACKET, "ann", false, told(promise(1), false)).is_err());
        assert!(book.enter(PACKET, "bob", true, told(Said::Refused, false)).is_err());
    }

    #[test]
    fn the_ledger_must_say_what_users_were_told() {
        type Case = (&'static str, &'static [(&'static str, u32)], Option<(Said, bool)>);
        let cases: [Case; 6] = [
            ("a promise without a claim", &[], Some((promise(1), false))),
            ("another slip than was promised", &[("ann", 2)], Some((promise(1), false))),
            ("a claim in spite of a denial", &[("ann", 1)], Some((Said::SoldOut, false))),
            ("a claim in spite of an expiry", &[("ann", 1)], Some((Said::Expired, false))),
            ("a claim of someone who was refused", &[("ann", 1)], Some((Said::Refused, true))),
            ("a claim of someone who never asked", &[("ann", 1)], None),
        ];
        for (what, claims, said) in cases {
            let (book, books) = book(false, claims);
            if let Some((said, had_unknown)) = said {
                book.enter(PACKET, "ann", said != Said::Refused, told(said, had_unknown)).unwrap();
            }
            assert_eq!(book.compare(&books).violations.len(), 1, "{what}");
        }
    }

    #[test]
    fn a_packet_must_be_there_and_nothing_else() {
        let (book, books) = book(false, &[]);
        assert_eq!(book.compare(&Books::default()).violations.len(), 1, "a packet that was sent is not there");
        let stranger = Book::new(false);
        assert_eq!(stranger.compare(&books).violations.len(), 1, "a packet that nobody sent is there");
        stranger.perhaps_sent();
        assert_eq!(stranger.compare(&books).violations.len(), 0, "it is the one that had no answer");
    }

    #[test]
    fn a_promise_on_redis_word_is_as_durable_as_redis() {
        for redis_acks in [false, true] {
            let (book, books) = book(redis_acks, &[]);
            book.enter(PACKET, "ann", true, told(promise(1), false)).unwrap();
            book.loss_begins();
            book.loss_ends();
            let checked = book.compare(&books);
            let expected = if redis_acks { (1, 0) } else { (0, 1) };
            assert_eq!((checked.promises_lost_with_redis, checked.violations.len()), expected);
            assert_eq!(book.enter(PACKET, "ann", true, told(promise(3), false)).is_ok(), redis_acks);
        }
    }
}
