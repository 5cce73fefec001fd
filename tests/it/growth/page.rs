//! The page of figures that `make growth` writes, and how each figure of each action may grow.

use std::fmt::Write;
use std::process::Command;

use super::Measured;
use super::figures::{FIGURES, Figure};

use crate::repository;

/// What was measured by one number, at each of its sizes.
pub struct Section {
    /// What grows.
    pub title: &'static str,
    /// The sizes, in ascending order.
    pub sizes: Vec<u32>,
    /// What was measured at each of them.
    pub measured: Vec<Measured>,
}

/// A number with a comma after each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8(groups.join(&b',')).unwrap()
}

/// One cell: the number at each size, or one number if it is always the same.
fn cell(numbers: &[String]) -> String {
    if numbers.iter().all(|number| *number == numbers[0]) { numbers[0].clone() } else { numbers.join(" · ") }
}

fn number(figure: Figure, count: u64) -> String {
    match figure {
        Figure::ReadUnits if count % 2 == 1 => format!("{}.5", grouped(count / 2)),
        Figure::ReadUnits => grouped(count / 2),
        _ => grouped(count),
    }
}

impl Section {
    fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|size| grouped((*size).into())).collect();
        // A column in which nothing was counted says nothing.
        let is_used = |(figure, _): &(Figure, &str)| {
            self.measured.iter().any(|of| of.costs.iter().any(|(_, cost)| cost.get(*figure) > 0))
        };
        let columns: Vec<(Figure, &str)> = FIGURES.into_iter().filter(is_used).collect();
        let names: Vec<&str> = columns.iter().map(|(_, name)| *name).collect();
        let mut text =
            format!("| {} | {} |\n|---|{}\n", sizes.join(" · "), names.join(" | "), "---:|".repeat(names.len()));
        for (n, (action, _)) in self.measured[0].costs.iter().enumerate() {
            let cells = columns.iter().map(|(figure, _)| {
                let all: Vec<String> =
                    self.measured.iter().map(|of| number(*figure, of.costs[n].1.get(*figure))).collect();
                cell(&all)
            });
            writeln!(text, "| {action} | {} |", cells.collect::<Vec<_>>().join(" | ")).unwrap();
        }
        if !self.measured[0].stored.is_empty() {
            text.push_str("\n| stored | bytes |\n|---|---:|\n");
        }
        for (n, (name, _)) in self.measured[0].stored.iter().enumerate() {
            let all: Vec<String> = self.measured.iter().map(|of| grouped(of.stored[n].1)).collect();
            writeln!(text, "| {name} | {} |", cell(&all)).unwrap();
        }
        text
    }
}

/// The first line of what a program prints.
fn line_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(repository(".")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Prints the page, and writes it to `target/growth/report.md`.
pub fn write<'a>(sections: impl Iterator<Item = &'a Section>) {
    let (commit, date) = (line_of("git", &["rev-parse", "--short", "HEAD"]), line_of("date", &["-u", "+%F"]));
    let mut page = format!("# Growth, by counting\n\n- Run: `make growth`, commit `{commit}`, {date}\n");
    for section in sections {
        write!(page, "\n## {}\n\n{}", section.title, section.text()).unwrap();
    }
    println!("{page}");
    std::fs::create_dir_all(repository("target/growth")).unwrap();
    std::fs::write(repository("target/growth/report.md"), page).unwrap();
}

/// The order in which a figure may grow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// It stays as it is.
    Constant,
    /// With a packet's parts: one for each 1,000 slips, at most 16.
    Parts,
    /// With the bytes of their reports: a hundred, and a bit for each slip.
    Reports,
    /// With the 4 KB that a reader of a part's amounts begins: a byte for each of its slips here.
    PartAmounts,
    /// With the groups of 64 slips that share a key of the ledger.
    Groups,
    /// With those groups, up to the 64 that a view of a large packet may read.
    Frontier,
    /// With the number itself.
    Each,
    /// With the number itself, but a packet of several parts is read or reconciled once more.
    EachAndMore,
    /// With the number itself, in steps: a hash table that is full doubles.
    Stored,
    /// A large packet takes one read, others none.
    OneRead,
}

/// The order of a figure of an action.
pub type Orders = fn(&str, Figure) -> Order;

impl Order {
    fn at(self, size: u32) -> u64 {
        let parts = size.div_ceil(1_000).min(16);
        let factor = match self {
            Self::Constant | Self::OneRead => 1,
            Self::Parts => parts,
            Self::Reports => 100 * parts + size / 8,
            Self::PartAmounts => size.div_ceil(parts).div_ceil(4_096),
            Self::Groups => size.div_ceil(64),
            Self::Frontier => size.div_ceil(64).min(64),
            Self::Each | Self::EachAndMore | Self::Stored => size,
        };
        factor.into()
    }

    /// What it may be, whatever it is at smaller sizes. A unit counts as two halves.
    const fn always(self) -> u64 {
        match self {
            Self::OneRead => 2,
            _ => 0,
        }
    }

    /// How much a figure may exceed its order: by a fifth. A table that has just doubled has room for as much again, and its slots are
    /// less than half of what it stores.
    const fn slack(self) -> (u64, u64) {
        match self {
            Self::Stored => (3, 2),
            _ => (6, 5),
        }
    }

    /// Whether only the growth from the smallest size counts: at some size a packet is treated in another way.
    const fn has_a_step(self) -> bool {
        matches!(self, Self::Frontier | Self::EachAndMore)
    }
}

/// By the slips of a packet. Every other figure stays as it is.
#[expect(clippy::match_same_arms, reason = "a row for each action and its figures")]
pub fn by_slips_grow(action: &str, figure: Figure) -> Order {
    use Figure::{Calls, Commands, Moved, ReadUnits, Reads, Transactions, WriteUnits};
    use Order::{Constant, Each, EachAndMore, Frontier, Groups, OneRead, PartAmounts, Parts, Reports};
    match (action, figure) {
        ("send", Calls | Commands | Moved) => Parts,
        ("send" | "send with a limit", WriteUnits) => Each,
        ("winning grab, the first of a part in a process" | "losing grab, a hold left behind", ReadUnits) => {
            PartAmounts
        }
        (
            "first view" | "later view, after 11 s" | "claims, first page" | "newest claims, first page",
            Reads | ReadUnits,
        ) => Frontier,
        ("losing grab, a hold left behind" | "losing grab, a process knows nothing", Moved) => Each,
        (view, Calls | Commands) if view.contains("view") || view.contains("claims") => Parts,
        (view, Moved) if view.contains("view") || view.contains("claims") => Reports,
        ("losing grab, a hold left behind" | "losing grab, a process knows nothing", Calls | Commands) => Parts,
        ("losing grab, a process knows nothing" | "losing grab, a process knows", Reads | ReadUnits) => OneRead,
        ("settle, nothing left", Calls | Reads | ReadUnits) | ("settle, everything left", Calls) => EachAndMore,
        ("settle, nothing left", Commands | Moved) => Each,
        ("settle, everything left", Reads | ReadUnits) => Groups,
        ("settle, everything left", Commands | Moved | Transactions | WriteUnits) => Each,
        _ => Constant,
    }
}

/// By the withdrawals that the user has had.
pub fn by_withdrawals_grow(_: &str, _: Figure) -> Order {
    Order::Constant
}

/// Holds what was measured to its orders of growth: from one size to a larger one, a figure may exceed its order by its slack.
///
/// # Panics
/// If one has grown more, with all that have.
pub fn hold_to(section: &Section, orders: Orders) {
    let mut worse = Vec::new();
    let mut judge = |what: &str, order: Order, costs: Vec<u64>| {
        for (large, large_size) in section.sizes.iter().enumerate() {
            for (small, small_size) in section.sizes[..large].iter().enumerate() {
                let (most, of) = order.slack();
                let grown = costs[small] * order.at(*large_size) * most / (order.at(*small_size) * of);
                let bound = grown.max(order.always());
                if costs[large] > bound && !(order.has_a_step() && small > 0) {
                    let (cost, base) = (costs[large], costs[small]);
                    worse.push(format!(
                        "{what}: {base} at {small_size}, {cost} at {large_size}, at most {bound} ({order:?})"
                    ));
                }
            }
        }
    };
    let first = &section.measured[0];
    for (n, (action, _)) in first.costs.iter().enumerate() {
        for (figure, name) in FIGURES {
            let costs = section.measured.iter().map(|of| of.costs[n].1.get(figure)).collect();
            judge(&format!("{action}, {name}"), orders(action, figure), costs);
        }
    }
    for (n, (name, _)) in first.stored.iter().enumerate() {
        let order = if name.starts_with("wallet") { Order::Constant } else { Order::Stored };
        judge(name, order, section.measured.iter().map(|of| of.stored[n].1).collect());
    }
    assert!(worse.is_empty(), "{}:\n{}", section.title, worse.join("\n"));
}

#[test]
fn a_figure_that_grows_too_much_is_named() {
    use super::figures::Figures;
    let of = |calls: u64| Measured {
        costs: vec![("view", Figures::default().with(Figure::Calls, calls))],
        stored: vec![("Redis", 10 * calls)],
    };
    let judged = |costs: [u64; 2], orders: Orders| {
        let section = Section { title: "", sizes: vec![10, 100], measured: costs.map(of).into() };
        std::panic::catch_unwind(|| hold_to(&section, orders)).map_err(|panic| *panic.downcast::<String>().unwrap())
    };
    assert_eq!(judged([5, 6], |_, _| Order::Constant), Ok(()));
    let worse = judged([5, 7], |_, _| Order::Constant).unwrap_err();
    assert!(worse.contains("view, Redis calls: 5 at 10, 7 at 100, at most 6 (Constant)"), "{worse}");
    assert_eq!(judged([5, 60], |_, _| Order::Each), Ok(()));
    assert!(judged([5, 61], |_, _| Order::Each).is_err());
}
