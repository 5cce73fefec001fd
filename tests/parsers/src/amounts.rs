use shared::domain::{Amount, Amounts};

/// The packed amounts of a part.
pub fn amounts(data: &[u8]) {
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
