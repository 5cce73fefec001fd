use super::*;

use crate::domain::{Intervention, Summary};
use crate::ledger::CloseOrder;
use crate::memory::MemoryTable;
use crate::ports::System;

#[tokio::test]
async fn an_order_is_about_the_packets_of_then_of_which_parts_may_be_open() {
    let ledger = Ledger::new(MemoryTable::default(), Arc::new(System));
    let intervention = Intervention { reason: "over".parse().unwrap(), at: at(100), by: None };
    let order = CloseOrder { sender: terms().sender, reference: "nye".parse().unwrap(), intervention };
    // When each was sent, and expires; whether it is closed, and settled; whether an order of 100 is about it at 200.
    let cases = [
        (100, 201, false, false, true),
        (101, 201, false, false, false),
        (100, 200, false, false, false),
        (100, 201, true, false, true),
        (100, 200, true, false, true),
        (100, 201, true, true, false),
        (100, 200, false, true, false),
    ];
    let id = |place: usize| packet_id(place.try_into().unwrap());
    for (place, (sent, expires, is_closed, is_settled, _)) in cases.into_iter().enumerate() {
        let (created_at, expires_at) = (at(sent), at(expires));
        let mut terms = Terms { id: id(place), count: 1, created_at, expires_at, ..terms() };
        terms.labels.reference = Some(order.reference.clone());
        ledger.send_funded(&terms).await;
        if is_closed {
            assert!(ledger.close(&terms, &order.intervention).await.unwrap());
        }
        if is_settled {
            ledger.mark_settled(&terms, &Summary::default(), at(200)).await.unwrap();
        }
    }
    let found = ledger.packets_to_close(&order, at(200)).await.unwrap();
    for (place, case) in cases.into_iter().enumerate() {
        let is_meant = found.iter().any(|packet| packet.terms.id == id(place));
        assert_eq!(is_meant, case.4, "{case:?}");
    }
}
