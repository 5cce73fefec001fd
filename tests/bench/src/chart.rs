//! Charts of a report, as SVG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::BoxError;
use crate::cell::Cell;

const WIDTH: u32 = 1_000;
const ROW: u32 = 26;
const MARGINS: u32 = 110;
/// Room for the schemes' names.
const NAMES: u32 = 330;
const OURS: RGBColor = RGBColor(0xd9, 0x2d, 0x20);
const THEIRS: RGBColor = RGBColor(0x8a, 0x94, 0xa6);

/// Draws throughput, cost and latencies of each workload into a folder.
pub fn draw(cells: &[Cell], out: &Path) -> Result<(), BoxError> {
    let mut workloads: Vec<&str> = cells.iter().map(|cell| cell.workload).collect();
    workloads.dedup();
    for workload in workloads {
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.workload == workload).collect();
        let name = workload.to_lowercase();
        let throughput = |cell: &Cell| cell.per_s.median;
        bars(
            &cells,
            &out.join(format!("{name}-throughput.svg")),
            &format!("{workload}: answers a second"),
            throughput,
        )?;
        if cells.iter().any(|cell| cell.redis_cpu_us > 0.0) {
            let cost = |cell: &Cell| cell.redis_cpu_us;
            bars(&cells, &out.join(format!("{name}-cost.svg")), &format!("{workload}: Redis CPU µs an answer"), cost)?;
        }
        latencies(&cells, &out.join(format!("{name}-latency.svg")), &format!("{workload}: answered within"))?;
    }
    Ok(())
}

fn is_ours(cell: &Cell) -> bool {
    cell.scheme.starts_with("ours")
}

/// A bar for each scheme.
fn bars(cells: &[&Cell], file: &Path, title: &str, figure: impl Fn(&Cell) -> f64) -> Result<(), BoxError> {
    let rows = u32::try_from(cells.len())?;
    let area = SVGBackend::new(file, (WIDTH, rows * ROW + MARGINS)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = cells.iter().map(|cell| figure(cell)).fold(0.0, f64::max) * 1.1;
    // Of a segmented range the end is a segment too, and nothing is drawn in a single one.
    let last = cells.len().saturating_sub(1).max(1);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .margin_right(40)
        .x_label_area_size(36)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..most, (0..last).into_segmented())?;
    let name = |row: &SegmentValue<usize>| match row {
        // The first scheme is at the top.
        SegmentValue::CenterOf(row) => cells.iter().rev().nth(*row).map(|cell| cell.scheme.clone()).unwrap_or_default(),
        _ => String::new(),
    };
    let number = |value: &f64| if most > 1e4 { format!("{:.0}k", value / 1e3) } else { format!("{value:.1}") };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(cells.len())
        .y_label_formatter(&name)
        .x_label_formatter(&number)
        .label_style(("sans-serif", 13))
        .draw()?;
    chart.draw_series(cells.iter().rev().enumerate().map(|(row, cell)| {
        let color = if is_ours(cell) { OURS } else { THEIRS };
        let end = if row < last { SegmentValue::Exact(row + 1) } else { SegmentValue::Last };
        let bar = [(0.0, SegmentValue::Exact(row)), (figure(cell), end)];
        let mut bar = Rectangle::new(bar, color.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    area.present()?;
    Ok(())
}

/// Which share of the answers came within which time, for each scheme.
fn latencies(cells: &[&Cell], file: &Path, title: &str) -> Result<(), BoxError> {
    let area = SVGBackend::new(file, (WIDTH, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    draw_latencies(cells, &area, title)?;
    area.present()?;
    Ok(())
}

fn draw_latencies(cells: &[&Cell], area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str) -> Result<(), BoxError> {
    let within = |cell: &&Cell| cell.latencies.last().map_or(1.0, |(micros, _)| *micros);
    let most = cells.iter().map(within).fold(10.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .margin_right(40)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((10.0..most).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("µs")
        .x_label_formatter(&|micros| format!("{micros:.0}"))
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .label_style(("sans-serif", 13))
        .draw()?;
    let mut others = 0;
    for cell in cells {
        let color = if is_ours(cell) {
            OURS.to_rgba()
        } else {
            others += 1;
            Palette99::pick(others).to_rgba()
        };
        let style = color.stroke_width(if is_ours(cell) { 3 } else { 1 });
        chart
            .draw_series(LineSeries::new(cell.latencies.iter().copied(), style))?
            .label(cell.scheme.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .draw()?;
    Ok(())
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
}
