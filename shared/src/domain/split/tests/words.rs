//! How numbers are drawn from words.

use std::iter::repeat_with;

use super::*;

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
