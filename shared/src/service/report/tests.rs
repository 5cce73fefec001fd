use csv::Reader;

use super::*;
use crate::domain::{DayZone, Summary};
use crate::memory::MemoryTable;
use crate::ports::System;

/// More packets than one read finds.
const PACKETS: u8 = 101;

/// A packet of one slip with the reference `nye`.
fn packet(number: u8) -> Terms {
    let sample = Terms::sample();
    let mut terms = Terms { id: PacketId::new(sample.created_at, 1, [number; 10]), count: 1, ..sample };
    terms.labels.reference = Some("nye".parse().unwrap());
    terms
}

#[tokio::test]
async fn a_report_has_each_of_many_packets_and_of_their_claims_once() {
    let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
    for number in 0..PACKETS {
        let terms = packet(number);
        ledger.send_funded(&terms).await;
        let claim = Claim { slip: 0, amount: terms.total, at: terms.created_at };
        ledger.claim(&terms, &format!("u{number}").parse().unwrap(), &claim, None).await.unwrap();
    }
    let reports = CampaignReports::new(ledger);
    let of = Selection { sender: packet(0).sender, reference: Some("nye".parse().unwrap()), limit_key: None };
    let totals = reports.totals(&of).await.unwrap();
    let won: u32 = totals.packets.iter().map(|packet| packet.won_count).sum();
    assert_eq!((totals.packets.len(), won, totals.users), (101, 101, 101));

    for (limit, sizes) in [(50, vec![50, 50, 1]), (100, vec![100, 1]), (101, vec![101]), (102, vec![101])] {
        let (mut users, mut after) = (HashSet::new(), None);
        for size in sizes {
            let page = reports.claims(&of, after, limit).await.unwrap();
            assert_eq!(page.rows.len(), size, "{limit}");
            users.extend(page.rows.into_iter().map(|row| row.user));
            after = page.next;
        }
        assert_eq!((users.len(), after), (101, None), "{limit}");
    }

    let packets: Vec<_> = reports.packets(&of, None).try_collect().await.unwrap();
    let sheet = write_sheet(Vec::new(), reports.claims_of(&packets), "CNY", &DayZone::UTC, false).await.unwrap();
    assert_eq!(Reader::from_reader(&*sheet).records().count(), 102, "each claim, and the sums");
}

#[test]
fn a_status_begins_with_its_first_claim_or_millisecond() {
    // Two slips, from 12 to 20.
    let mut terms = Terms { count: 2, ..packet(0) };
    terms.guard.starts_at = Some(Timestamp::from_ms(12));
    let of = |won_count, now, settled| {
        let packet = Arc::new(Packet { terms: terms.clone(), settled, settled_at: None, closed: None });
        let totals = PacketTotals { packet, won_count, won: Amount::ZERO, refunded: Amount::ZERO };
        totals.status(Timestamp::from_ms(now))
    };
    for (won_count, now, status) in [
        (0, 11, Status::Scheduled),
        (0, 12, Status::Open),
        (1, 11, Status::Open),
        (1, 19, Status::Open),
        (2, 19, Status::SoldOut),
        (0, 20, Status::Expired),
        (1, 20, Status::Expired),
    ] {
        assert_eq!(of(won_count, now, None), status, "{won_count} won at {now}");
        assert_eq!(of(won_count, now, Some(Summary::default())), Status::Settled);
    }
}
