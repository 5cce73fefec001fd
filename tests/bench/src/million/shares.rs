//! Whether everybody got what they should: the answers against each other, and against what Redis has.

use std::collections::BTreeSet;

use super::Size;

/// A slip and its owner.
pub type Owned = (u32, u32);

/// Checks a rush to its end: each slip went to one user, nobody has two, all others were answered that nothing is left, and Redis has
/// the same owners. `won` are slip and user of each winning answer.
pub fn check(size: Size, won: &[Owned], lost: u64, owned: &BTreeSet<Owned>) -> Result<(), String> {
    let slips: BTreeSet<u32> = won.iter().map(|(slip, _)| *slip).collect();
    let users: BTreeSet<u32> = won.iter().map(|(_, user)| *user).collect();
    if slips.len() < won.len() {
        return Err(format!("{} users share {} slips", won.len(), slips.len()));
    }
    if users.len() < won.len() {
        return Err(format!("{} slips went to {} users", won.len(), users.len()));
    }
    if won.len() as u64 + lost != u64::from(size.users) {
        return Err(format!("{} winners and {lost} losers of {} users", won.len(), size.users));
    }
    if slips.len() as u64 != u64::from(size.slips) || slips.last().is_some_and(|last| *last >= size.slips) {
        return Err(format!("{} of {} slips were won", slips.len(), size.slips));
    }
    let differ = owned.symmetric_difference(&won.iter().copied().collect()).count();
    if differ > 0 { Err(format!("Redis and the answers differ in {differ} owners")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { users: 5, slips: 2 };

    fn checked(won: &[Owned], lost: u64, owned: &[Owned]) -> Result<(), String> {
        check(SIZE, won, lost, &owned.iter().copied().collect())
    }

    #[test]
    fn each_slip_has_one_owner_and_all_others_none() {
        let right = [(0, 4), (1, 2)];
        assert_eq!(checked(&right, 3, &right), Ok(()));
        let refused = |why: &str| Err(why.to_owned());
        assert_eq!(checked(&[(0, 4), (1, 2), (1, 3)], 2, &right), refused("3 users share 2 slips"));
        assert_eq!(checked(&[(0, 4), (1, 4)], 3, &right), refused("2 slips went to 1 users"));
        assert_eq!(checked(&right, 2, &right), refused("2 winners and 2 losers of 5 users"));
        assert_eq!(checked(&[(0, 4)], 4, &right), refused("1 of 2 slips were won"));
        assert_eq!(checked(&[(0, 4), (2, 2)], 3, &right), refused("2 of 2 slips were won"), "there is no slip 2");
        assert_eq!(checked(&right, 3, &[(0, 4), (1, 3)]), refused("Redis and the answers differ in 2 owners"));
        assert_eq!(checked(&right, 3, &[(0, 4)]), refused("Redis and the answers differ in 1 owners"));
    }
}
