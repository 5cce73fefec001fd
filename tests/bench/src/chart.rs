//! Charts of a report, as SVG.

use std::path::Path;

use ::tests::chart::{self, Axis, Line, OURS, THEIRS, WIDTH};
use plotters::prelude::*;

use crate::BoxError;
use crate::cell::Cell;
use crate::summary::{self, Pair};

const ROW: u32 = 26;
const MARGINS: u32 = 110;
/// Room for the labels of the rows.
const NAMES: u32 = 330;

/// Draws throughput, Redis CPU and latencies of each workload into a folder, each mode of this engine beside lua-queue, and workload A
/// at a glance.
pub fn draw(cells: &[Cell], out: &Path) -> Result<(), BoxError> {
    let mut workloads: Vec<&str> = cells.iter().map(|cell| cell.workload).collect();
    workloads.dedup();
    for workload in workloads {
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.workload == workload).collect();
        let name = workload.to_lowercase();
        let row = |cell: &&Cell| Row { label: cell.scheme.clone(), cell: (*cell).clone() };
        let rows: Vec<Row> = cells.iter().map(row).collect();
        throughput(&rows, &out.join(format!("{name}-throughput.svg")), workload)?;
        if cells.iter().any(|cell| cell.redis_cpu_us > 0.0) {
            cost(&rows, &out.join(format!("{name}-cost.svg")), workload)?;
        }
        latencies(&cells, &out.join(format!("{name}-latency.svg")), &format!("{workload}: answered within"))?;
    }
    at_a_glance(cells, &out.join("at-a-glance.svg"))?;
    for mode in [summary::ONE_USER, summary::COLLECTED] {
        let pair = |pair: Pair<'_>| {
            [(pair.ours, "ours"), (pair.theirs, "lua-queue")].map(|(cell, scheme)| Row {
                label: format!("{}, {}: {scheme}", cell.workload, pair.under_way),
                cell: cell.clone(),
            })
        };
        let rows: Vec<Row> = summary::pairs(cells, mode).flat_map(pair).collect();
        if !rows.is_empty() {
            throughput(&rows, &out.join(format!("{}-throughput.svg", mode.file)), mode.title)?;
            cost(&rows, &out.join(format!("{}-cost.svg", mode.file)), mode.title)?;
        }
    }
    Ok(())
}

/// The schemes of the chart at a glance, with what they are called there.
const AT_A_GLANCE: [(&str, &str); 6] = [
    ("ours, collected, 1000 under way", "hongbao, a process that serves many"),
    ("ours, one user a call, 1000 under way", "hongbao, a function by default"),
    ("lua-queue pipelined, 1000 under way", "lua-queue, with our client"),
    ("lua-queue", "lua-queue, as published"),
    ("lock-counter", "lock-counter (oversells)"),
    ("pure-queue", "pure-queue (gives two slips)"),
];

/// Workload A of each published design and of both modes of this engine, in words for a reader who knows none of the schemes.
fn at_a_glance(cells: &[Cell], file: &Path) -> Result<(), BoxError> {
    let of = |(scheme, label): &(&str, &str)| {
        let cell = cells.iter().find(|cell| cell.workload == "A" && cell.scheme == *scheme)?;
        Some(Row { label: (*label).to_owned(), cell: cell.clone() })
    };
    let rows: Vec<Row> = AT_A_GLANCE.iter().filter_map(of).collect();
    if rows.len() < AT_A_GLANCE.len() {
        return Ok(());
    }
    bars(&rows, file, "100,000 users grab 100,000 slips: answers per second", |cell| cell.per_s.median)
}

/// A bar of a chart.
struct Row {
    label: String,
    cell: Cell,
}

fn throughput(rows: &[Row], file: &Path, what: &str) -> Result<(), BoxError> {
    bars(rows, file, &format!("{what}: answers per second"), |cell| cell.per_s.median)
}

fn cost(rows: &[Row], file: &Path, what: &str) -> Result<(), BoxError> {
    bars(rows, file, &format!("{what}: Redis CPU per answer, µs"), |cell| cell.redis_cpu_us)
}

fn is_ours(cell: &Cell) -> bool {
    cell.scheme.starts_with("ours")
}

/// A bar for each row.
fn bars(rows: &[Row], file: &Path, title: &str, figure: impl Fn(&Cell) -> f64) -> Result<(), BoxError> {
    let height = u32::try_from(rows.len())? * ROW + MARGINS;
    let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = rows.iter().map(|row| figure(&row.cell)).fold(0.0, f64::max) * 1.1;
    // plotters counts the end of a segmented range as a segment, and draws nothing in a range of one.
    let last = rows.len().saturating_sub(1).max(1);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .margin_right(40)
        .x_label_area_size(36)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..most, (0..last).into_segmented())?;
    let name = |row: &SegmentValue<usize>| match row {
        // The first row is at the top.
        SegmentValue::CenterOf(row) => rows.iter().rev().nth(*row).map(|row| row.label.clone()).unwrap_or_default(),
        _ => String::new(),
    };
    let number = |value: &f64| if most > 1e4 { format!("{:.0}k", value / 1e3) } else { format!("{value:.1}") };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(rows.len())
        .y_label_formatter(&name)
        .x_label_formatter(&number)
        .label_style(("sans-serif", 13))
        .draw()?;
    chart.draw_series(rows.iter().rev().enumerate().map(|(place, row)| {
        let color = if is_ours(&row.cell) { OURS } else { THEIRS };
        let end = if place < last { SegmentValue::Exact(place + 1) } else { SegmentValue::Last };
        let bar = [(0.0, SegmentValue::Exact(place)), (figure(&row.cell), end)];
        let mut bar = Rectangle::new(bar, color.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    area.present()?;
    Ok(())
}

/// For each scheme, the share of the answers that came within a time.
fn latencies(cells: &[&Cell], file: &Path, title: &str) -> Result<(), BoxError> {
    let within = |cell: &&Cell| cell.latencies.last().map_or(1.0, |(micros, _)| *micros);
    let most = cells.iter().map(within).fold(10.0, f64::max);
    let mut others = 0;
    let line = |cell: &&Cell| {
        let (color, width) = if is_ours(cell) {
            (OURS.to_rgba(), 3)
        } else {
            others += 1;
            (Palette99::pick(others).to_rgba(), 1)
        };
        Line { name: cell.scheme.clone(), color, width, points: cell.latencies.clone() }
    };
    let lines: Vec<Line> = cells.iter().map(line).collect();
    let x = Axis { title: "µs", range: (10.0..most).log_scale(), label: &|micros| format!("{micros:.0}") };
    let y = Axis { title: "", range: 0.0..1.0, label: &|share| format!("{:.0} %", share * 100.0) };
    chart::lines(file, title, x, y, None, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Spread;

    fn cell(scheme: &str) -> Cell {
        Cell {
            workload: "A",
            scheme: scheme.to_owned(),
            per_s: Spread::of(vec![1.0]),
            rush_s: 1.0,
            p50_us: 20.0,
            p99_us: 20.0,
            p999_us: 20.0,
            redis_cpu_us: 0.0,
            redis_calls: 0.0,
            winners: 0,
            oversold: 0,
            double_winners: 0,
            left: None,
            latencies: vec![(20.0, 1.0)],
            rounds: Vec::new(),
        }
    }

    #[test]
    fn each_scheme_has_one_row() {
        for schemes in [vec!["one"], vec!["one", "two", "three"]] {
            let out = tempfile::tempdir().expect("a folder");
            let cells: Vec<Cell> = schemes.iter().map(|scheme| cell(scheme)).collect();
            draw(&cells, out.path()).expect("a chart");
            let chart = std::fs::read_to_string(out.path().join("a-throughput.svg")).expect("its file");
            assert_eq!(chart.matches("fill=\"#8A94A6\"").count(), schemes.len());
            for scheme in &schemes {
                assert_eq!(chart.matches(&format!("\n{scheme}\n")).count(), 1, "{scheme}");
            }
        }
    }

    #[test]
    fn a_glance_needs_every_design() {
        let out = tempfile::tempdir().expect("a folder");
        let mut cells: Vec<Cell> = AT_A_GLANCE.iter().rev().map(|(scheme, _)| cell(scheme)).collect();
        draw(&cells, out.path()).expect("a chart");
        let file = out.path().join("at-a-glance.svg");
        let chart = std::fs::read_to_string(&file).expect("its file");
        let places = AT_A_GLANCE.map(|(_, label)| chart.find(&format!("\n{label}\n")).expect(label));
        assert!(places.is_sorted() || places.iter().rev().is_sorted(), "{places:?}");
        std::fs::remove_file(&file).expect("it is there");
        cells.pop();
        draw(&cells, out.path()).expect("charts");
        assert!(!file.exists());
    }
}
