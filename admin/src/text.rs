//! Text in aligned columns.

use comfy_table::{ContentArrangement, Table, presets};
use shared::domain::Timestamp;

/// A readable time.
pub fn moment(at: Timestamp) -> String {
    let millisecond = i64::try_from(at.ms()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    millisecond.map_or_else(|| format!("{} ms", at.ms()), |moment| format!("{moment:.3}"))
}

/// Rows in aligned columns, under `header` if there is one.
pub fn columns(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header);
    }
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}
