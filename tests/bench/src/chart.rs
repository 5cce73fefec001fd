//! Workload A at a glance, as SVG: each published design and both modes of this engine, in words for a reader who knows none of them.

use std::fmt::Write as _;

use crate::cell::Cell;
use crate::report::grouped;

/// The schemes of the chart, with what they are called there.
const SCHEMES: [(&str, &str); 6] = [
    ("ours, collected, 1000 in flight", "hongbao, a process that serves many"),
    ("ours, one user a call, 1000 in flight", "hongbao, a function by default"),
    ("lua-queue pipelined, 1000 in flight", "lua-queue, with our client"),
    ("lua-queue", "lua-queue, as published"),
    ("lock-counter", "lock-counter (oversells)"),
    ("pure-queue", "pure-queue (gives two slips)"),
];
const OURS: &str = "#d92d20";
const THEIRS: &str = "#8a94a6";
/// Pixels of a row, of the labels and of the longest bar.
const ROW: usize = 36;
const LABELS: f64 = 330.0;
const BAR: f64 = 540.0;

/// The chart; `None` if a scheme was not measured.
pub fn at_a_glance(cells: &[Cell]) -> Option<String> {
    let of = |(scheme, label): &(&str, &'static str)| {
        let cell = cells.iter().find(|cell| cell.workload == "A" && cell.scheme == *scheme)?;
        Some((*label, cell.per_s().median, if cell.is_ours() { OURS } else { THEIRS }))
    };
    let rows: Vec<_> = SCHEMES.iter().map(of).collect::<Option<_>>()?;
    let most = rows.iter().map(|(_, per_s, _)| *per_s).fold(0.0, f64::max);
    let height = (rows.len() + 2) * ROW;
    let mut svg = format!(
        r##"<svg width="1000" height="{height}" viewBox="0 0 1000 {height}" font-family="sans-serif" font-size="15" xmlns="http://www.w3.org/2000/svg">
<rect width="1000" height="{height}" fill="#fff"/>
<text x="500" y="32" font-size="18" text-anchor="middle">100,000 users grab 100,000 slips: answers per second</text>
"##
    );
    for (row, (label, per_s, color)) in rows.into_iter().enumerate() {
        let (top, length) = ((row + 1) * ROW + 18, BAR * per_s / most);
        let middle = top + 18;
        let _ = writeln!(
            svg,
            r#"<text x="{}" y="{middle}" text-anchor="end">{label}</text>
<rect x="{LABELS}" y="{top}" width="{length:.0}" height="26" fill="{color}"/>
<text x="{:.0}" y="{middle}">{}</text>"#,
            LABELS - 10.0,
            LABELS + length + 8.0,
            grouped(per_s)
        );
    }
    Some(svg + "</svg>\n")
}
