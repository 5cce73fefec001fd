//! The instances to check, and the instances in which the mutants are found.

#![allow(clippy::cast_possible_truncation)] // A constant can't call `try_from`.

use crate::instance::{Ack, Instance, Mutant, PARTS, Part, USERS};
use crate::properties;

/// Probe orders: each user begins one part after the user before.
const ROTATED: [[Part; PARTS]; USERS] = {
    let mut orders = [[0; PARTS]; USERS];
    let mut place = 0;
    while place < USERS * PARTS {
        let (user, probe) = (place / PARTS, place % PARTS);
        // At most `PARTS`, so it fits.
        orders[user][probe] = ((user + probe) % PARTS) as Part;
        place += 1;
    }
    orders
};

/// The base of most instances: two users and one run of settle. The only fault: every actor may die at any step.
const PLAIN: Instance = Instance {
    name: "plain",
    ack: Ack::Ledger,
    slips: 2,
    parts: 1,
    orders: ROTATED,
    grabs: &[0, 1],
    tries: 1,
    settlers: 1,
    chunk: 1,
    rollbacks: 0,
    wipes: 0,
    copies: 0,
    early_refund: false,
    closes: false,
    mutant: None,
};

/// Checked by the tests.
pub const SMALL: &[Instance] = &[
    Instance { name: "a rush of three users", grabs: &[0, 1, 2], ..PLAIN },
    Instance { name: "three users and a rollback", grabs: &[0, 1, 2], rollbacks: 1, ..PLAIN },
    Instance { name: "a user with two devices, and a rollback", grabs: &[0, 0, 1], settlers: 0, rollbacks: 1, ..PLAIN },
    Instance { name: "a rollback and a wipe", rollbacks: 1, wipes: 1, ..PLAIN },
    Instance { name: "two settle runs", settlers: 2, ..PLAIN },
    Instance { name: "a call twice, late, or never", copies: 1, ..PLAIN },
    Instance { name: "clocks that differ by more than the grace", early_refund: true, rollbacks: 1, ..PLAIN },
    Instance { name: "three slips in two parts", slips: 3, parts: 2, ..PLAIN },
    Instance { name: "`redis` mode, with two parts", ack: Ack::Redis, parts: 2, tries: 2, ..PLAIN },
    Instance { name: "`redis` mode, a call twice", ack: Ack::Redis, tries: 2, copies: 1, ..PLAIN },
    Instance { name: "`redis` mode, with a loss", ack: Ack::Redis, tries: 2, rollbacks: 1, ..PLAIN },
    Instance { name: "a close", closes: true, ..PLAIN },
    Instance { name: "a close, in `redis` mode", ack: Ack::Redis, closes: true, ..PLAIN },
];

/// Checked by the command only.
pub const LARGE: &[Instance] = &[
    Instance { name: "three users grab three slips", grabs: &[0, 1, 2], slips: 3, chunk: 2, ..PLAIN },
    Instance { name: "two users grab twice, and a rollback", tries: 2, rollbacks: 1, ..PLAIN },
    Instance { name: "two parts, a rollback and a wipe", parts: 2, rollbacks: 1, wipes: 1, ..PLAIN },
    Instance { name: "two settle runs, and a rollback", settlers: 2, rollbacks: 1, ..PLAIN },
    Instance { name: "three users and two settle runs", grabs: &[0, 1, 2], settlers: 2, ..PLAIN },
    Instance { name: "a close and a rollback", closes: true, rollbacks: 1, ..PLAIN },
    Instance { name: "a close, in `redis` mode with two parts", ack: Ack::Redis, parts: 2, closes: true, ..PLAIN },
];

/// An instance in which a mutant breaks a property, and that property.
pub const fn of_mutant(mutant: Mutant) -> (Instance, &'static str) {
    let (instance, property) = match mutant {
        Mutant::NoSlipDecision => (Instance { rollbacks: 1, settlers: 0, ..PLAIN }, properties::ONE_DECISION),
        Mutant::NoClaimDecision => {
            (Instance { rollbacks: 1, grabs: &[0, 1, 1], settlers: 0, ..PLAIN }, properties::ONE_CLAIM)
        }
        Mutant::AckBeforeCommit => (PLAIN, properties::WHOLE),
        Mutant::HoldIsAnswer => (PLAIN, properties::PROMISE),
        Mutant::NegativeInDoubt => {
            (Instance { rollbacks: 1, grabs: &[0, 0], settlers: 0, ..PLAIN }, properties::DENIED_WINNER)
        }
        Mutant::ReadInDoubt => {
            (Instance { slips: 1, rollbacks: 1, grabs: &[0, 0, 1], settlers: 0, ..PLAIN }, properties::FINAL_NO)
        }
        Mutant::PutBackAfterTimeout => (PLAIN, properties::GIVEN_ONCE),
        Mutant::SettledTooEarly => (PLAIN, properties::SETTLED),
        Mutant::LoadOverLoaded => (Instance { ack: Ack::Redis, tries: 2, ..PLAIN }, properties::PROMISE),
        Mutant::RedisBeforeLedger => (PLAIN, properties::RECOVERY),
        Mutant::EmptyIsFinal => (Instance { tries: 2, settlers: 0, ..PLAIN }, properties::DENIED_WINNER),
        Mutant::RefundWithoutDraining => (Instance { ack: Ack::Redis, ..PLAIN }, properties::PROMISE),
        Mutant::CloseSkipsUnloaded => {
            (Instance { closes: true, grabs: &[0], settlers: 0, ..PLAIN }, properties::AFTER_CLOSE)
        }
        Mutant::RefundBeforeTold => {
            (Instance { ack: Ack::Redis, closes: true, grabs: &[0], ..PLAIN }, properties::PROMISE)
        }
        Mutant::RefundByCount => (Instance { chunk: 2, ..PLAIN }, properties::CONSERVATION),
    };
    (Instance { mutant: Some(mutant), ..instance }, property)
}
