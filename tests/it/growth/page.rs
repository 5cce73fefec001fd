//! The page of figures that `make growth` writes.

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

#[test]
fn numbers_are_grouped_and_halves_are_shown() {
    assert_eq!(
        ["7", "999", "1,000", "1,234,567"],
        [7, 999, 1_000, 1_234_567].map(grouped).each_ref().map(String::as_str)
    );
    assert_eq!((number(Figure::ReadUnits, 5), number(Figure::Reads, 5)), ("2.5".to_owned(), "5".to_owned()));
}
