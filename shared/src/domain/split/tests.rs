//! What a split promises: sound at every edge, no place luckier than another, and the same for ever.
//!
//! The statistics run over fixed seeds, so each run sees the same numbers. Their bounds are still those of a test that
//! any seed should pass: a change of only the seed should fail nothing.

use std::iter::repeat_with;

use proptest::prelude::*;

use super::*;

const CAP: u64 = 20_000;

fn split_of(kind: Split, total: u64, count: u32, cap: u64, seed: Seed) -> Result<Vec<u64>, SplitError> {
    split(kind, Amount::new(total), count, Amount::new(cap), seed)
}

fn unshuffled(total: u64, count: u32, cap: u64, seed: Seed) -> Vec<u64> {
    split_unshuffled(Split::Random, Amount::new(total), count, Amount::new(cap), seed).unwrap()
}

// --- Sound at every edge ---------------------------------------------------------------------------------------------

#[track_caller]
fn assert_sound(kind: Split, total: u64, count: u32, cap: u64, seed: Seed) {
    let amounts = split_of(kind, total, count, cap, seed).unwrap();
    let context = format!("{kind:?} {total} in {count} of at most {cap}, seed {:?}", seed.0);
    assert_eq!(amounts.len(), count as usize, "{context}");
    assert_eq!(amounts.iter().map(|&amount| u128::from(amount)).sum::<u128>(), u128::from(total), "{context}");
    assert!(amounts.iter().all(|amount| (1..=cap).contains(amount)), "{context}: {amounts:?}");

    let mut sorted = amounts;
    sorted.sort_unstable();
    if kind == Split::Equal {
        assert!(sorted[sorted.len() - 1] - sorted[0] <= 1, "{context}: {sorted:?}");
    }
    let mut drawn = split_unshuffled(kind, Amount::new(total), count, Amount::new(cap), seed).unwrap();
    drawn.sort_unstable();
    assert_eq!(sorted, drawn, "{context}: the shuffle only moves");
}

fn any_seed() -> impl Strategy<Value = Seed> {
    any::<[u8; 32]>().prop_map(Seed)
}

fn any_kind() -> impl Strategy<Value = Split> {
    prop_oneof![Just(Split::Random), Just(Split::Equal)]
}

/// A count and a cap whose product is a `u64`; both often at or near their least.
fn count_and_cap() -> impl Strategy<Value = (u32, u64)> {
    let count = prop_oneof![Just(1_u32), 2_u32..=4, 1_u32..=100, 1_u32..=4_000];
    count.prop_flat_map(|count| {
        let most = u64::MAX / u64::from(count);
        let cap = prop_oneof![Just(1), 2_u64..=4, 1..=CAP, Just(1_000_000_000), most - 4..=most, 1..=most];
        (Just(count), cap)
    })
}

/// Total, count and cap that can be split. The total is often at or near either end, or the middle: there the draw turns from
/// what a slip takes to what it leaves free.
fn terms() -> impl Strategy<Value = (u64, u32, u64)> {
    count_and_cap().prop_flat_map(|(count, cap)| {
        let (least, most) = (u64::from(count), u64::from(count) * cap);
        let middle = least + (most - least) / 2;
        let near = least.saturating_add(8).min(most);
        let total = prop_oneof![
            Just(least),
            Just(most),
            least..=near,
            (most - (near - least))..=most,
            (middle - (middle - least).min(8))..=middle.saturating_add(8).min(most),
            least..=most,
        ];
        (total, Just(count), Just(cap))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_sum_is_exact_and_each_slip_within_its_bounds((total, count, cap) in terms(), seed in any_seed()) {
        assert_sound(Split::Random, total, count, cap, seed);
        assert_sound(Split::Equal, total, count, cap, seed);
    }

    #[test]
    fn less_than_one_unit_a_slip_is_too_little(
        (total, count) in (1_u32..).prop_flat_map(|count| (0..u64::from(count), Just(count))),
        cap: u64,
        kind in any_kind(),
        seed in any_seed(),
    ) {
        prop_assert_eq!(split_of(kind, total, count, cap, seed), Err(SplitError::TooLittle));
    }

    #[test]
    fn more_than_the_slips_hold_is_too_much(
        (count, cap) in count_and_cap(),
        beyond in prop_oneof![Just(1), 1..=u64::MAX],
        kind in any_kind(),
        seed in any_seed(),
    ) {
        if let Some(total) = (u64::from(count) * cap).checked_add(beyond) {
            prop_assert_eq!(split_of(kind, total, count, cap, seed), Err(SplitError::TooMuch));
        }
    }
}

#[test]
fn every_small_packet_is_sound() {
    for count in 1..=6_u32 {
        for cap in 1..=5_u64 {
            for total in u64::from(count)..=u64::from(count) * cap {
                for seed in seeds(16) {
                    assert_sound(Split::Random, total, count, cap, seed);
                    assert_sound(Split::Equal, total, count, cap, seed);
                }
            }
        }
    }
}

#[test]
fn the_largest_amounts_do_not_overflow() {
    for count in [1, 2, 3, 100] {
        let cap = u64::MAX / u64::from(count);
        for total in [u64::from(count), cap, u64::from(count) * cap / 2, u64::from(count) * cap] {
            for seed in seeds(100) {
                assert_sound(Split::Random, total, count, cap, seed);
                assert_sound(Split::Equal, total, count, cap, seed);
            }
        }
    }
}

#[test]
fn what_cannot_be_split_is_refused() {
    let seed = Seed([7; 32]);
    for kind in [Split::Random, Split::Equal] {
        for (total, count, cap) in [(0, 0, 0), (0, 0, CAP), (100, 0, CAP), (0, 1, CAP), (9, 10, CAP), (0, 1, 0)] {
            let refused = split_of(kind, total, count, cap, seed);
            assert_eq!(refused, Err(SplitError::TooLittle), "{total} in {count} of at most {cap}");
        }
        // The last two: the most that the slips hold is itself more than 64 bits.
        let (max, max_count) = (u64::MAX, u32::MAX);
        for (total, count, cap) in
            [(1, 1, 0), (11, 10, 1), (200_001, 10, CAP), (max, 1, max - 1), (max, 2, max), (max, max_count, max / 2)]
        {
            let refused = split_of(kind, total, count, cap, seed);
            assert_eq!(refused, Err(SplitError::TooMuch), "{total} in {count} of at most {cap}");
        }
    }
}

// --- No place luckier than another -----------------------------------------------------------------------------------

const RUNS: u32 = 200_000;

/// The seeds that grow from one fixed seed: its first bytes count up.
fn seeds(runs: u32) -> impl Iterator<Item = Seed> {
    (0..runs).map(|run| {
        let mut seed = *b"....two hundred thousand splits!";
        seed[..4].copy_from_slice(&run.to_le_bytes());
        Seed(seed)
    })
}

fn float(whole: u64) -> f64 {
    u32::try_from(whole).unwrap().into()
}

/// Mean and variance at one place of the packet.
#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f64,
    variance: f64,
}

/// Mean and variance at every place over [`RUNS`] splits of `total` into `count`.
fn moments(total: u64, count: u32, draw: impl Fn(Seed) -> Vec<u64>) -> Vec<Moments> {
    let expected = float(total) / f64::from(count);
    let mut sums = vec![(0.0, 0.0); count as usize];
    for seed in seeds(RUNS) {
        for ((sum, squares), amount) in sums.iter_mut().zip(draw(seed)) {
            let deviation = float(amount) - expected;
            *sum += deviation;
            *squares += deviation * deviation;
        }
    }
    let moments = sums.into_iter().map(|(sum, squares)| {
        let deviation = sum / f64::from(RUNS);
        Moments { mean: expected + deviation, variance: squares / f64::from(RUNS) - deviation * deviation }
    });
    moments.collect()
}

/// Each place's mean is within 0.5 % of the packet's, and within 4 standard errors. Near the cap a slip varies so
/// little that 0.5 % of it would let any fault pass.
#[track_caller]
fn assert_even(total: u64, count: u32, places: &[Moments]) {
    let expected = float(total) / f64::from(count);
    for (place, &Moments { mean, variance }) in (1..).zip(places) {
        let off = (mean - expected).abs();
        assert!(off <= 0.005 * expected, "{total} in {count}: {mean} at place {place}");
        let standard_error = (variance / f64::from(RUNS)).sqrt();
        assert!(off <= 4.0 * standard_error, "{total} in {count}: {mean} at place {place}, ± {standard_error}");
    }
}

/// The variance at every place of the continuous double mean, in squares of the mean.
fn published_variances(count: u32) -> Vec<f64> {
    let mut product = 4.0 / 3.0;
    let mut variances = Vec::new();
    for place in 1..count {
        variances.push(product - 1.0);
        product *= 1.0 + 1.0 / (3.0 * f64::from(count - place).powi(2));
    }
    variances.extend(variances.last().copied());
    variances
}

#[test]
fn mean_and_variance_at_every_place_are_those_of_the_double_mean() {
    let published = published_variances(10);
    let rounded = [0.333, 0.339, 0.346, 0.355, 0.368, 0.386, 0.415, 0.467, 0.589, 0.589];
    assert!(published.iter().zip(rounded).all(|(exact, rounded)| (exact - rounded).abs() < 0.000_6), "{published:?}");

    let places = moments(10_000, 10, |seed| unshuffled(10_000, 10, CAP, seed));
    assert_even(10_000, 10, &places);
    for (place, (Moments { variance, .. }, published)) in (1..).zip(places.iter().zip(published)) {
        let ratio = variance / (published * 1_000_f64.powi(2));
        assert!((ratio - 1.0).abs() <= 0.03, "variance {variance} at place {place}: {ratio} of the formula");
    }
}

/// Where the surplus is small, where the cap is near, and in the middle, where the draw turns from what a slip takes to what it leaves
/// free and back.
#[test]
fn means_are_even_at_both_ends_and_where_the_draw_turns() {
    for total in [100, 20, 13, 190_000, 199_990, 199_997, 100_000, 100_010] {
        assert_even(total, 10, &moments(total, 10, |seed| unshuffled(total, 10, CAP, seed)));
    }
}

/// What the slips take of a small surplus is what they leave free of as small a room.
#[test]
fn a_packet_near_the_cap_mirrors_one_near_its_least() {
    for seed in seeds(1_000) {
        for total in [10, 13, 20, 100, 10_000] {
            let low = unshuffled(total, 10, CAP, seed);
            let high = unshuffled(10 * (CAP + 1) - total, 10, CAP, seed);
            assert!(low.iter().zip(&high).all(|(low, high)| low + high == CAP + 1), "{low:?} {high:?}");
        }
    }
}

/// 9 degrees of freedom, p = 0.001.
const CHI_SQUARE_CRITICAL: f64 = 27.877;

fn chi_square(hits: [u32; 10]) -> f64 {
    let expected = f64::from(hits.iter().sum::<u32>()) / 10.0;
    hits.iter().map(|&hits| (f64::from(hits) - expected).powi(2) / expected).sum()
}

/// How often each of ten places was the best. A tie for the best counts for nobody, which favours nobody.
fn best_places(draw: impl Fn(Seed) -> Vec<u64>) -> [u32; 10] {
    let mut hits = [0; 10];
    for seed in seeds(RUNS) {
        let amounts = draw(seed);
        let best = amounts.iter().max().unwrap();
        let mut bests = (0..10).filter(|&place| amounts[place] == *best);
        if let (Some(place), None) = (bests.next(), bests.next()) {
            hits[place] += 1;
        }
    }
    hits
}

#[test]
fn after_the_shuffle_the_best_is_at_every_place_alike() {
    let hits = best_places(|seed| split_of(Split::Random, 10_000, 10, CAP, seed).unwrap());
    assert!(hits.iter().sum::<u32>() > RUNS / 100 * 99, "few ties: {hits:?}");
    let chi_square = chi_square(hits);
    assert!(chi_square < CHI_SQUARE_CRITICAL, "{chi_square}: {hits:?}");
}

/// Why there is a shuffle; and that the test above can fail.
#[test]
fn before_the_shuffle_the_last_places_are_the_luckiest() {
    let hits = best_places(|seed| unshuffled(10_000, 10, CAP, seed));
    assert!(chi_square(hits) > 10.0 * CHI_SQUARE_CRITICAL, "{hits:?}");
    let published = [10.0, 9.5, 9.1, 8.9, 8.8, 9.1, 9.7, 10.7, 12.1, 12.2];
    for (hits, published) in hits.into_iter().zip(published) {
        let percent = f64::from(hits) * 100.0 / f64::from(RUNS);
        assert!((percent - published).abs() < 0.35, "{percent} % where {published} % is published");
    }
}

/// The shuffle by itself: a unit that starts in the first place, or in all except the last, ends in each place alike.
#[test]
fn the_shuffle_moves_a_slip_to_every_place_alike() {
    for (total, odd) in [(11, 2), (19, 1)] {
        let mut hits = [0; 10];
        for seed in seeds(100_000) {
            let amounts = split_of(Split::Equal, total, 10, CAP, seed).unwrap();
            hits[amounts.iter().position(|&amount| amount == odd).unwrap()] += 1;
        }
        let chi_square = chi_square(hits);
        assert!(chi_square < CHI_SQUARE_CRITICAL, "{chi_square}: {hits:?}");
    }
}

// --- The same for ever -----------------------------------------------------------------------------------------------

/// Kind, total, count, cap and seed, and what follows from them: the amounts and the commitment.
type Vector = ((Split, u64, u32, u64, Seed), &'static [u64], &'static str);

const ZEROS: Seed = Seed([0; 32]);
const ONES: Seed = Seed([0xff; 32]);
const COUNTING: Seed = Seed([
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    31,
]);

/// Computed by another implementation, in another language and with a `ChaCha20` of its own. They hold for version 1
/// for ever: whatever changes one of them is another version.
const VECTORS: &[Vector] = &[
    (
        (Split::Random, 10_000, 10, 20_000, ZEROS),
        &[2_454, 29, 39, 108, 1_580, 824, 1_632, 653, 1_557, 1_124],
        "8dc072e061099553fef196868aab933a307b644b28e5b4024ede192ddf0d4599",
    ),
    (
        (Split::Random, 10_000, 10, 20_000, COUNTING),
        &[40, 867, 2_638, 300, 448, 83, 1_878, 1_205, 1_332, 1_209],
        "4db9665cd845e2f343e1c695d740f724d69abb80dd17b0cddb43178e36bcefcc",
    ),
    (
        (Split::Random, 100, 10, 20_000, ONES),
        &[1, 22, 10, 13, 14, 12, 4, 6, 8, 10],
        "d5318323f15937b362f2ad85a653df144f104979da4a50401234ab3d2513c518",
    ),
    (
        (Split::Random, 20, 10, 20_000, COUNTING),
        &[1, 1, 2, 3, 1, 1, 3, 4, 2, 2],
        "467c1d9bcc4a06650eef07cf8ca8e73952602393a8204cc720289d7ec7b2981b",
    ),
    // The draw turns to what a slip leaves free, and back.
    (
        (Split::Random, 100_000, 10, 20_000, COUNTING),
        &[9_341, 18_282, 12_037, 18_731, 9_347, 3_001, 5_193, 2_317, 2_463, 19_288],
        "c6dc47cd646e09f622db49d9afa549028fc05095e23e9a1bdae8f4db174d395e",
    ),
    // Twice the mean is just what a slip can hold: what the first slip takes is drawn, not what it leaves free.
    (
        (Split::Random, 100, 10, 19, COUNTING),
        &[11, 11, 13, 5, 4, 11, 8, 15, 18, 4],
        "db68dbe439eff139004fea8d504601bc0e0f5d7d9a5995dbea071351037d1164",
    ),
    // What a slip leaves free is drawn.
    (
        (Split::Random, 199_990, 10, 20_000, ONES),
        &[20_000, 19_999, 20_000, 19_998, 20_000, 19_998, 19_999, 19_999, 19_998, 19_999],
        "b8d5cd9809a22f0894fba67c1e4de7b8952a73034108d937859c649092ad2c2d",
    ),
    // One slip, for which nothing is drawn.
    (
        (Split::Random, 12_345, 1, 20_000, ZEROS),
        &[12_345],
        "c0ae967ac52b8a393a1dbb74b2814d554e2d648ab30a085ed639c790c7aa5912",
    ),
    // Words are drawn again, five times: without that the low amounts would be likelier.
    (
        (Split::Random, 6_148_914_691_236_529_550, 2, 9_223_372_036_854_775_807, Seed([36; 32])),
        &[4_331_034_863_284_439_939, 1_817_879_827_952_089_611],
        "74745f3b7ebc28473aa91b81dc150bb8e8fcec13a94830890447d3db64900e56",
    ),
    (
        (Split::Equal, 10_003, 10, 20_000, COUNTING),
        &[1_000, 1_001, 1_000, 1_000, 1_001, 1_000, 1_000, 1_001, 1_000, 1_000],
        "ae05e2dafad35be34d6045bc5f9072d1ad450f9da90f68ba677a9dd763233dcc",
    ),
];

#[test]
fn version_1_gives_these_splits_for_ever() {
    assert_eq!(SPLIT_VERSION, 1);
    for &((kind, total, count, cap, seed), amounts, hash) in VECTORS {
        assert_eq!(split_of(kind, total, count, cap, seed).as_deref(), Ok(amounts));
        let committed = commitment(1, seed, Amount::new(total), count, Amount::new(cap), kind);
        assert_eq!(hex::encode(committed), hash, "{kind:?} {total} in {count}");
    }
}

/// A thousand slips, by the SHA-256 of their amounts (8 bytes each, little end first): many blocks of the keystream.
#[test]
fn version_1_gives_this_long_split_for_ever() {
    for (kind, total, seed, hash) in [
        (Split::Random, 1_000_000, COUNTING, "443aa095e78f19f20ba5e55d6663a198cd3d325fcd80bf78a79e0a907a105b47"),
        (Split::Random, 10_000_000, ZEROS, "b50e76e1f7bf89b2626ef70b428711409b4c323a08516322524762a8caf73c92"),
        (Split::Equal, 1_000_500, ONES, "ed7f9e0c911f558e9b37699ae0f355e42efc6b04ff557a4d9859b2916759a07b"),
    ] {
        let amounts = split_of(kind, total, 1_000, CAP, seed).unwrap();
        let bytes: Vec<u8> = amounts.into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(hex::encode(Sha256::digest(bytes)), hash, "{kind:?} {total}");
    }
}

/// RFC 8439, appendix A.1, test vectors 1 and 2: the first two blocks under the zero key.
#[test]
fn the_words_are_the_published_keystream() {
    let mut words = Words::new(ZEROS);
    let bytes: Vec<u8> = (0..16).flat_map(|_| words.next().to_le_bytes()).collect();
    assert_eq!(
        hex::encode(bytes),
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
         da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586\
         9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
         29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    );
}

#[test]
fn a_commitment_binds_every_term() {
    let commit = |version, seed, total, count, cap, kind| {
        hex::encode(commitment(version, seed, Amount::new(total), count, Amount::new(cap), kind))
    };
    let commitments = std::collections::BTreeSet::from([
        commit(1, ZEROS, 100, 10, 20, Split::Random),
        commit(2, ZEROS, 100, 10, 20, Split::Random),
        commit(1, ONES, 100, 10, 20, Split::Random),
        commit(1, ZEROS, 101, 10, 20, Split::Random),
        commit(1, ZEROS, 100, 11, 20, Split::Random),
        commit(1, ZEROS, 100, 10, 21, Split::Random),
        commit(1, ZEROS, 100, 10, 20, Split::Equal),
    ]);
    assert_eq!(commitments.len(), 7);
}

// --- How numbers are drawn from words ---------------------------------------------------------------------------------

#[test]
fn words_of_the_incomplete_range_are_drawn_again() {
    for bound in [1, 2, 3, 7, 1 << 62, 1 << 63, (1 << 63) + 1, 3 << 62, u64::MAX] {
        let (mut words, mut reference) = (Words::new(ZEROS), Words::new(ZEROS));
        let complete = (1_u128 << 64) / u128::from(bound) * u128::from(bound);
        for _ in 0..100 {
            let word = repeat_with(|| reference.next()).find(|word| u128::from(*word) < complete).unwrap();
            assert_eq!(words.below(bound), word % bound, "{bound}");
        }
    }
}

#[test]
fn the_draw_turns_beyond_half_of_the_room_and_not_at_it() {
    for n in 0..20 {
        let seed = Seed([n; 32]);
        // Two slips of at most 3 with 4 in them: twice the surplus is all of the room.
        let drawn = split_unshuffled(Split::Random, Amount::new(4), 2, Amount::new(3), seed).unwrap();
        let mut words = Words::new(seed);
        words.below(2);
        let share = words.below(3);
        assert_eq!(drawn, [1 + share, 3 - share], "{n}");
    }
}

#[test]
fn a_seed_does_not_show_in_logs() {
    assert_eq!(format!("{COUNTING:?}"), "Seed(..)");
}
