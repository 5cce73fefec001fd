//! The properties of each parser of what users and operators send, for every possible input. No parser panics. Where it applies, an accepted value prints again
//! as the input, lies within the limits, and breaks no rule of the contract.
//!
//! `tests/fuzz` calls them with generated inputs. The test of this crate calls them with the inputs of the corpus.

// A panic is how these functions report a finding.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

mod bodies;
mod ids;
mod tickets;

use shared::domain::{Amount, Amounts};

/// The parsers. Their order determines what the inputs of the corpus mean.
const PARSERS: [fn(&[u8]); 5] = [amounts, bodies::bodies, ids::cursors, ids::ids, tickets::tickets];

/// Checks the properties of the parser that the first byte selects.
pub fn check(data: &[u8]) {
    let Some((which, input)) = data.split_first() else { return };
    PARSERS[usize::from(*which) % PARSERS.len()](input);
}

/// The packed amounts of a part.
fn amounts(data: &[u8]) {
    if let Ok(amounts) = Amounts::from_bytes(data.to_vec()) {
        let listed: Vec<u64> = (0..amounts.len()).map(|i| amounts.get(i).expect("a slip").minor_units()).collect();
        assert_eq!(amounts.as_bytes(), data);
        assert_eq!((amounts.get(listed.len()), amounts.get(usize::MAX)), (None, None));
        assert_eq!(unpacked(&Amounts::pack(&listed).expect("each fits four bytes")), listed);
    }
    let given: Vec<u64> = data.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
    match Amounts::pack(&given) {
        Ok(packed) => assert_eq!(unpacked(&Amounts::from_bytes(packed.as_bytes().to_vec()).unwrap()), given),
        Err(_) => assert!(given.iter().any(|amount| *amount > u32::MAX.into())),
    }
}

fn unpacked(amounts: &Amounts) -> Vec<u64> {
    (0..amounts.len()).filter_map(|i| amounts.get(i)).map(Amount::minor_units).collect()
}
