use super::money::Amount;

/// The amounts of one part's slips, in slip order, as the ledger keeps them. The first byte is the width (1 to 4); then
/// each amount takes that many bytes, little end first. An amount is read in place, without decoding the others.
#[derive(Clone, Eq, PartialEq)]
pub struct Amounts(Vec<u8>);

/// Why bytes are not a part's amounts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AmountsError {
    /// The bytes have no width, a wrong one, or a piece of an amount at the end.
    #[error("not a list of amounts")]
    Malformed,
    /// An amount does not fit four bytes.
    #[error("an amount above 2^32 - 1")]
    TooLarge,
}

impl Amounts {
    const WIDTH_MAX: usize = 4;

    /// Packs `amounts`.
    pub fn pack(amounts: &[u64]) -> Result<Self, AmountsError> {
        let most = amounts.iter().copied().max().unwrap_or(0);
        let width = (u64::BITS - most.leading_zeros()).div_ceil(8).max(1);
        let width = u8::try_from(width).map_err(|_| AmountsError::TooLarge)?;
        if usize::from(width) > Self::WIDTH_MAX {
            return Err(AmountsError::TooLarge);
        }
        let mut bytes = Vec::with_capacity(1 + amounts.len() * usize::from(width));
        bytes.push(width);
        for amount in amounts {
            bytes.extend_from_slice(&amount.to_le_bytes()[..usize::from(width)]);
        }
        Ok(Self(bytes))
    }

    /// Reads bytes that [`Self::as_bytes`] gave.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, AmountsError> {
        match bytes.split_first() {
            Some((&width, rest))
                if (1..=Self::WIDTH_MAX).contains(&usize::from(width)) && rest.len() % usize::from(width) == 0 =>
            {
                Ok(Self(bytes))
            }
            _ => Err(AmountsError::Malformed),
        }
    }

    /// The packed form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number of slips.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.0.len() - 1) / self.width()
    }

    /// Whether there is no slip.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is in the slip at `position` within the part; `None` past the end.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<Amount> {
        let width = self.width();
        let from = position.checked_mul(width)?.checked_add(1)?;
        let bytes = self.0.get(from..from.checked_add(width)?)?;
        Some(Amount::new(bytes.iter().rev().fold(0, |amount, &byte| (amount << 8) | u64::from(byte))))
    }

    fn width(&self) -> usize {
        usize::from(self.0[0])
    }
}

impl std::fmt::Debug for Amounts {
    /// Unclaimed amounts are a secret: logs show how many there are, not what they are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Amounts({} slips)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn amounts_read_back(amounts in prop::collection::vec(0_u64..=u64::from(u32::MAX), 0..50)) {
            let packed = Amounts::pack(&amounts).unwrap();
            let packed = Amounts::from_bytes(packed.as_bytes().to_vec()).unwrap();
            prop_assert_eq!(packed.len(), amounts.len());
            prop_assert_eq!(packed.get(amounts.len()), None);
            for (i, amount) in amounts.iter().enumerate() {
                prop_assert_eq!(packed.get(i), Some(Amount::new(*amount)));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, position: usize) {
            if let Ok(amounts) = Amounts::from_bytes(bytes) {
                let _ = amounts.get(position);
            }
        }
    }

    #[test]
    fn a_common_packet_takes_two_bytes_a_slip() {
        assert_eq!(Amounts::pack(&[1, 20_000]).unwrap().as_bytes(), [2, 1, 0, 0x20, 0x4e]);
        assert_eq!(Amounts::pack(&[1 << 32]), Err(AmountsError::TooLarge));
        assert_eq!(Amounts::from_bytes(vec![]), Err(AmountsError::Malformed));
        assert_eq!(Amounts::from_bytes(vec![2, 1]), Err(AmountsError::Malformed));
    }

    #[test]
    fn a_width_is_one_to_four() {
        let sized = |width: u8| Amounts::from_bytes([vec![width], vec![0; usize::from(width)]].concat());
        assert_eq!((1..=4).map(|width| sized(width).unwrap().len()).collect::<Vec<_>>(), [1; 4]);
        assert_eq!([0, 5, 8, 255].map(sized), [const { Err(AmountsError::Malformed) }; 4]);
        assert_eq!(Amounts::pack(&[u64::from(u32::MAX)]).unwrap().as_bytes(), [4, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn emptiness_is_known_and_amounts_are_not_shown() {
        let (none, two) = (Amounts::pack(&[]).unwrap(), Amounts::pack(&[7_777, 1]).unwrap());
        assert!(none.is_empty() && !two.is_empty());
        assert_eq!((format!("{none:?}"), format!("{two:?}")), ("Amounts(0 slips)".into(), "Amounts(2 slips)".into()));
    }
}
