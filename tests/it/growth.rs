//! Growth, by counting: what each action costs by the size of a packet, the number of packets and the number of readers.
//!
//! Nothing here reads a clock. Redis is real, and counts its commands and bytes itself. The ledger is in memory; its requests and
//! units are counted by the rules of `DynamoDB`. The functions' handlers log into memory. Time stands still, except for Redis.

mod audited;
mod figures;
mod place;
mod steady;

use std::fmt::Write;
use std::time::Duration;

use futures::future::join_all;

use self::audited::audited;
use self::figures::{FIGURES, Figure, Figures};
use self::place::Place;
use tests::user;

/// Slips that hold a claim when a packet is viewed, of ten.
const CLAIMED_OF_TEN: u32 = 7;
/// Claims that a later view finds; of a small packet, a tenth of its slips.
const NEW_CLAIMS: u32 = 100;
/// After this a view reads groups of slips again, however little has changed.
const CHECKED_AGAIN: Duration = Duration::from_secs(11);
/// Slips of each of many packets.
const SLIPS_OF_MANY: u32 = 10;
/// Slips of a packet that many read.
const SLIPS_OF_READ: u32 = 1_000;

/// What actions cost at one size, and what is stored after them, each under its name.
#[derive(Default)]
struct Measured {
    costs: Vec<(&'static str, Figures)>,
    stored: Vec<(&'static str, u64)>,
}

impl Measured {
    fn cost(&mut self, action: &'static str, cost: Figures) {
        self.costs.push((action, cost));
    }
}

fn grabbed(answer: &(String, bool)) -> bool {
    answer.0 == "grabbed"
}

/// What actions on a packet of `slips` slips cost.
async fn by_slips(slips: u32) -> Measured {
    let place = Place::new().await;
    let _log = place.counters.log.listen();
    let mut all = Measured::default();
    let empty = place.redis().memory();
    let sender = user("the-sender-1");
    let settler = place.process().await;
    settler.expire();
    let (idle, _) = place.cost(settler.settle()).await;
    all.cost("settle, nothing due", idle);

    let process = place.process().await;
    process.fund(&place, &sender, slips).await;
    let (cost, id) = place.cost(process.post(&place, &sender, slips)).await;
    all.cost("send", cost);
    let memory = |place: &Place| place.redis().memory() - empty;
    all.stored.push(("Redis bytes, after the send", memory(&place)));
    let path = format!("/packets/{id}");

    let process = place.process().await;
    let (first, second) = (place.next_user(), place.next_user());
    let (cost, answer) = place.cost(process.grab(id, first.as_str())).await;
    assert!(grabbed(&answer));
    all.cost("winning grab, a process' first", cost);
    let (cost, answer) = place.cost(process.grab(id, second.as_str())).await;
    assert!(grabbed(&answer));
    all.cost("winning grab", cost);
    let (cost, answer) = place.cost(process.grab(id, second.as_str())).await;
    assert_eq!(answer, ("grabbed".to_owned(), true));
    all.cost("repeat", cost);

    let terms = process.terms(id).await;
    let claimed = slips * CLAIMED_OF_TEN / 10;
    // The two grabs took slips of parts that a hash chose; a part may have one or two more than its share.
    place.claim(&process, &terms, 0, claimed - 2).await;
    let viewer = place.process().await;
    let claimed_count = |body: &serde_json::Value| body["claimed_count"].as_u64().unwrap_or_else(|| panic!("{body}"));
    let (cost, body) = place.cost(viewer.view(&path, sender.as_str())).await;
    assert_eq!(claimed_count(&body), u64::from(claimed));
    all.cost("first view", cost);
    let (cost, _) = place.cost(viewer.view(&path, sender.as_str())).await;
    all.cost("later view, nothing new", cost);
    let new = NEW_CLAIMS.min(slips / 10);
    place.claim(&process, &terms, claimed - 2, claimed - 2 + new).await;
    let (cost, body) = place.cost(viewer.view(&path, sender.as_str())).await;
    assert_eq!(claimed_count(&body), u64::from(claimed + new));
    all.cost("later view, 100 new claims", cost);
    tokio::time::advance(CHECKED_AGAIN).await;
    let (cost, _) = place.cost(viewer.view(&path, sender.as_str())).await;
    all.cost("view after 11 seconds", cost);

    for (first, later, query) in [
        ("first page of claims", "the same page again", "limit=100"),
        ("first page of the newest claims", "the newest claims again", "limit=100&order=newest"),
    ] {
        let lister = place.process().await;
        let path = format!("{path}/claims?{query}");
        let (cost, body) = place.cost(lister.view(&path, sender.as_str())).await;
        assert_eq!(body["claims"].as_array().unwrap().len() as u32, (claimed + new).min(100), "{body}");
        all.cost(first, cost);
        let (cost, _) = place.cost(lister.view(&path, sender.as_str())).await;
        all.cost(later, cost);
    }

    place.claim_all_but_one(&process, &terms).await;
    place.hold(&process, id.parts().next_back().unwrap()).await;
    let loser = place.process().await;
    loser.view(&path, sender.as_str()).await;
    let sold_out = ("sold_out".to_owned(), false);
    let (cost, answer) = place.cost(loser.grab(id, place.next_user().as_str())).await;
    assert_eq!(answer, sold_out);
    all.cost("losing grab, a hold left behind", cost);
    let loser = place.process().await;
    let (cost, answer) = place.cost(loser.grab(id, place.next_user().as_str())).await;
    assert_eq!(answer, sold_out);
    all.cost("losing grab, a process' first", cost);
    let (cost, answer) = place.cost(loser.grab(id, place.next_user().as_str())).await;
    assert_eq!(answer, sold_out);
    all.cost("losing grab", cost);
    all.stored.push(("Redis bytes, all slips claimed", memory(&place)));

    let (cost, refunded) = place.cost(settler.settle()).await;
    assert_eq!(refunded, (0, 0));
    all.cost("settle, nothing left", cost - idle);
    let of_packet = ["PACKET#", "PART#", "SLIPS#"].map(|kind| format!("{kind}{id}"));
    all.stored.push(("ledger bytes of the packet, all slips claimed", place.counters.table.bytes_of(&of_packet)));
    if slips <= AUDITED_MAX {
        all.cost("audit", audited(&place.counters.table.table).await);
    }

    process.send(&place, &sender, slips).await;
    let (cost, refunded) = place.cost(settler.settle()).await;
    assert_eq!(refunded, (1, u64::from(slips)));
    all.cost("settle, everything left", cost - idle);
    all
}

const AUDITED_MAX: u32 = 1_000;

/// What actions cost where one user has sent `packets` packets.
async fn by_packets(packets: u32) -> Measured {
    let place = Place::new().await;
    let _log = place.counters.log.listen();
    let mut all = Measured::default();
    let empty = place.redis().memory();
    let sender = user("the-sender-1");
    let process = place.process().await;
    let mut sent = Vec::new();
    for _ in 0..packets {
        sent.push(process.send(&place, &sender, SLIPS_OF_MANY).await.id);
    }
    let memory = place.redis().memory() - empty;
    all.stored.push(("Redis bytes of all packets", memory));

    let (cost, answer) = place.cost(process.grab(sent[0], place.next_user().as_str())).await;
    assert!(grabbed(&answer));
    all.cost("winning grab, the packet's first", cost);
    let viewer = place.process().await;
    let (cost, _) = place.cost(viewer.view(&format!("/packets/{}", sent[0]), sender.as_str())).await;
    all.cost("first view of a packet", cost);
    let lister = place.process().await;
    let (cost, body) = place.cost(lister.view("/me/packets", sender.as_str())).await;
    assert_eq!(body["packets"].as_array().unwrap().len() as u32, packets.min(PAGE), "{body}");
    all.cost("list of sent packets", cost);
    let (cost, _) = place.cost(lister.view("/me/packets", sender.as_str())).await;
    all.cost("the same list again", cost);
    let (cost, _) = place.cost(process.settle()).await;
    all.cost("settle, nothing due", cost);
    all
}

/// Packets of a page.
const PAGE: u32 = 20;

/// What `readers` views of one packet at the same time cost in one process, all together.
async fn by_readers(readers: u32) -> Measured {
    let place = Place::new().await;
    let _log = place.counters.log.listen();
    let mut all = Measured::default();
    let process = place.process().await;
    let terms = process.send(&place, &user("the-sender-1"), SLIPS_OF_READ).await;
    let claimed = SLIPS_OF_READ * CLAIMED_OF_TEN / 10;
    place.claim(&process, &terms, 0, claimed).await;
    let viewer = place.process().await;
    let path = format!("/packets/{}", terms.id);
    let names: Vec<String> = (0..readers).map(|n| format!("reader-{n:05}")).collect();
    let read = async || {
        let (cost, bodies) = place.cost(join_all(names.iter().map(|name| viewer.view(&path, name)))).await;
        assert_eq!(bodies.len(), names.len());
        cost
    };
    all.cost("first views", read().await);
    all.cost("later views, nothing new", read().await);
    place.claim(&process, &terms, claimed, claimed + NEW_CLAIMS).await;
    all.cost("later views, 100 new claims", read().await);
    all
}

/// Runs `measure` for each size, with a clock that stands still.
fn each<M: AsyncFn(u32) -> Measured>(sizes: &[u32], measure: M) -> Vec<Measured> {
    let run = |size: &u32| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(measure(*size))
    };
    sizes.iter().map(run).collect()
}

fn print(sizes: &[u32], measured: &[Measured]) -> String {
    let mut page = String::new();
    let names = FIGURES.map(|(_, name)| name);
    writeln!(page, "| {sizes:?} | {} |", names.join(" | ")).unwrap();
    for (n, (action, _)) in measured[0].costs.iter().enumerate() {
        let cells = FIGURES.map(|(figure, _)| {
            let all: Vec<String> =
                measured.iter().filter_map(|of| of.costs.get(n)).map(|(_, cost)| cost.get(figure).to_string()).collect();
            all.join(" · ")
        });
        writeln!(page, "| {action} | {} |", cells.join(" | ")).unwrap();
    }
    for (n, (name, _)) in measured[0].stored.iter().enumerate() {
        let all: Vec<String> = measured.iter().map(|of| of.stored[n].1.to_string()).collect();
        writeln!(page, "{name}: {}", all.join(" · ")).unwrap();
    }
    page
}

#[test]
fn page() {
    let begun = std::time::Instant::now();
    let sizes = [10, 1_000, 100_000];
    println!("{}", print(&sizes, &each(&sizes, by_slips)));
    println!("{:?}", begun.elapsed());
    let sizes = [1, 1_000];
    println!("{}", print(&sizes, &each(&sizes, by_packets)));
    println!("{:?}", begun.elapsed());
    println!("{}", print(&sizes, &each(&sizes, by_readers)));
    println!("{:?}", begun.elapsed());
    let _ = Figure::Log;
}
