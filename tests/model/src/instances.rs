//! The instances that are checked, and those in which the mutants are found.

use crate::instance::{Ack, Instance, Mutant};
use crate::properties;

/// What most instances have in common: two users and one settle function, and nothing goes wrong but that everybody may
/// die at any step.
const PLAIN: Instance = Instance {
    name: "plain",
    ack: Ack::Ledger,
    slips: 2,
    parts: 1,
    grabs: &[0, 1],
    tries: 1,
    settlers: 1,
    chunk: 1,
    rollbacks: 0,
    wipes: 0,
    copies: 0,
    early_refund: false,
    mutant: None,
};

/// Checked by the tests.
pub const SMALL: &[Instance] = &[
    Instance { name: "a rush of three users", grabs: &[0, 1, 2], ..PLAIN },
    Instance { name: "three users and a rollback", grabs: &[0, 1, 2], rollbacks: 1, ..PLAIN },
    Instance { name: "a user with two devices, and a rollback", grabs: &[0, 0, 1], settlers: 0, rollbacks: 1, ..PLAIN },
    Instance { name: "a rollback and a wipe", rollbacks: 1, wipes: 1, ..PLAIN },
    Instance { name: "two runs of settle", settlers: 2, ..PLAIN },
    Instance { name: "a call twice, late, or not at all", copies: 1, ..PLAIN },
    Instance { name: "clocks that differ by more than the grace", early_refund: true, rollbacks: 1, ..PLAIN },
    Instance { name: "three slips in two parts", slips: 3, parts: 2, ..PLAIN },
    Instance { name: "the hot store's word, with two parts", ack: Ack::Redis, parts: 2, tries: 2, ..PLAIN },
    Instance { name: "the hot store's word, a call twice", ack: Ack::Redis, tries: 2, copies: 1, ..PLAIN },
    Instance { name: "the hot store's word, lost", ack: Ack::Redis, tries: 2, rollbacks: 1, ..PLAIN },
];

/// Checked by the command besides.
pub const LARGE: &[Instance] = &[
    Instance { name: "three users grab three slips", grabs: &[0, 1, 2], slips: 3, chunk: 2, ..PLAIN },
    Instance { name: "two users grab twice, and a rollback", tries: 2, rollbacks: 1, ..PLAIN },
    Instance { name: "two parts, a rollback and a wipe", parts: 2, rollbacks: 1, wipes: 1, ..PLAIN },
    Instance { name: "two runs of settle, and a rollback", settlers: 2, rollbacks: 1, ..PLAIN },
    Instance { name: "three users and two runs of settle", grabs: &[0, 1, 2], settlers: 2, ..PLAIN },
];

/// The instance that shows what a mutant breaks, and the property that it breaks.
pub const fn of_mutant(mutant: Mutant) -> (Instance, &'static str) {
    let (instance, property) = match mutant {
        Mutant::NoSlipDecision => (Instance { rollbacks: 1, settlers: 0, ..PLAIN }, properties::ONE_DECISION),
        Mutant::NoClaimDecision => {
            (Instance { rollbacks: 1, grabs: &[0, 1, 1], settlers: 0, ..PLAIN }, properties::ONE_CLAIM)
        }
        Mutant::AckBeforeCommit => (PLAIN, properties::WHOLE),
        Mutant::HoldIsAnswer => (PLAIN, properties::PROMISE),
        Mutant::NegativeInDoubt => {
            (Instance { rollbacks: 1, grabs: &[0, 0], settlers: 0, ..PLAIN }, properties::TURNED_AWAY)
        }
        Mutant::PutBackAfterTimeout => (PLAIN, properties::GIVEN_ONCE),
        Mutant::SettledTooEarly => (PLAIN, properties::SETTLED),
        Mutant::LoadOverLoaded => (Instance { ack: Ack::Redis, tries: 2, ..PLAIN }, properties::PROMISE),
        Mutant::RedisBeforeLedger => (PLAIN, properties::RECOVERY),
        Mutant::EmptyIsFinal => (Instance { tries: 2, settlers: 0, ..PLAIN }, properties::TURNED_AWAY),
        Mutant::RefundWithoutDraining => (Instance { ack: Ack::Redis, ..PLAIN }, properties::PROMISE),
        Mutant::RefundByCount => (Instance { chunk: 2, ..PLAIN }, properties::CONSERVATION),
    };
    (Instance { mutant: Some(mutant), ..instance }, property)
}
