use super::*;
use crate::ledger::ReceiverState;
use crate::memory::MemoryTable;
use crate::ports::System;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

#[tokio::test]
async fn a_receiver_is_what_was_noted_until_it_recovers_or_is_enabled() {
    let ledger = Ledger::new(MemoryTable::default(), Arc::new(System));
    let well = ReceiverState::default();
    assert_eq!(ledger.receiver().await.unwrap(), well);
    let failing = ReceiverState {
        failing_since: Some(at(5)),
        last_answer: Some("the receiver answered 503".to_owned()),
        last_answer_at: Some(at(6)),
        oldest_at: Some(at(4)),
        put_off_until: Some(at(9)),
        ..ReceiverState::default()
    };
    ledger.note_receiver(&well, &failing).await.unwrap();
    assert_eq!(ledger.receiver().await.unwrap(), failing);
    // A process that knew less takes nothing away.
    ledger.note_receiver(&well, &ReceiverState { disabled_at: Some(at(7)), ..ReceiverState::default() }).await.unwrap();
    let gone = ReceiverState { disabled_at: Some(at(7)), ..failing.clone() };
    assert_eq!(ledger.receiver().await.unwrap(), gone);
    assert!(gone.is_held(Timestamp::from_ms(u64::MAX)) && failing.is_held(Timestamp::from_ms(8)));
    assert!(!failing.is_held(Timestamp::from_ms(9)) && !well.is_held(Timestamp::from_ms(0)));

    let delivered = ReceiverState { failing_since: None, oldest_at: None, ..failing.clone() };
    ledger.note_receiver(&failing, &delivered).await.unwrap();
    assert_eq!(ledger.receiver().await.unwrap(), ReceiverState { disabled_at: Some(at(7)), ..delivered.clone() });
    ledger.enable_receiver(Timestamp::from_ms(20)).await.unwrap();
    let enabled = ReceiverState { put_off_until: None, enabled_at: Some(at(20)), ..delivered };
    assert_eq!(ledger.receiver().await.unwrap(), enabled);
}

#[tokio::test]
async fn what_is_known_already_is_not_written_again() {
    let ledger = ledger();
    let failing = ReceiverState { failing_since: Some(at(5)), ..ReceiverState::default() };
    ledger.note_receiver(&failing, &failing).await.unwrap();
    ledger.note_receiver(&ReceiverState::default(), &ReceiverState::default()).await.unwrap();
    assert!(ledger.table.transactions.lock().unwrap().is_empty());
}
