//! Line charts, as SVG.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

pub use plotters::prelude::IntoLogRange;
pub use plotters::style::{Color, Palette, Palette99, RGBAColor, RGBColor};

/// The width of a chart, in pixels.
pub const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 520;
/// The color of this engine.
pub const OURS: RGBColor = RGBColor(0xd9, 0x2d, 0x20);
/// The color of everything else.
pub const THEIRS: RGBColor = RGBColor(0x8a, 0x94, 0xa6);

/// An axis. The range may be logarithmic.
pub struct Axis<'a, R> {
    /// What it shows, with the unit.
    pub title: &'a str,
    /// Its first and last value.
    pub range: R,
    /// How it writes a value.
    pub label: &'a dyn Fn(&f64) -> String,
}

/// A line of a chart.
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its color.
    pub color: RGBAColor,
    /// Its width, in pixels.
    pub width: u32,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines into a file. `shaded`: a part of the x axis that is marked over the whole height.
pub fn lines<X>(
    file: &Path,
    title: &str,
    x: Axis<'_, X>,
    y: Axis<'_, Range<f64>>,
    shaded: Option<(f64, f64)>,
    lines: &[Line],
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let area = SVGBackend::new(file, (WIDTH, HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let heights = y.range.clone();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .margin_right(40)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(x.range, y.range)?;
    if let Some((start, end)) = shaded {
        let corners = [(start, heights.start), (end, heights.end)];
        chart.draw_series([Rectangle::new(corners, THEIRS.mix(0.15).filled())])?;
    }
    chart
        .configure_mesh()
        .x_desc(x.title)
        .y_desc(y.title)
        .x_label_formatter(x.label)
        .y_label_formatter(y.label)
        .label_style(("sans-serif", 13))
        .draw()?;
    for line in lines {
        let style = line.color.stroke_width(line.width);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .draw()?;
    area.present()?;
    Ok(())
}
