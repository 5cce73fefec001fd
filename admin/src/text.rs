//! Reports as text in aligned columns.

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// These fields of a report, whose names are separated by spaces, one a line. Empty ones are left out.
pub fn fields(report: &impl Serialize, names: &str) -> String {
    let report = value(report);
    let rows = names.split(' ').map(|name| vec![name.to_owned(), cell(&report[name])]);
    columns(&[], rows.filter(|row| !row[1].is_empty()))
}

/// Rows of a report, with these of their fields as columns.
pub fn table(rows: &impl Serialize, names: &str) -> String {
    let (rows, names): (_, Vec<&str>) = (value(rows), names.split(' ').collect());
    let cells = |row: &Value| names.iter().map(|name| cell(&row[*name])).collect();
    columns(&names, rows.as_array().into_iter().flatten().map(cells))
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

fn value(report: &impl Serialize) -> Value {
    // Reports always have a JSON form.
    serde_json::to_value(report).unwrap_or_default()
}

fn cell(value: &Value) -> String {
    let joined = |cells: Vec<String>| cells.join(", ");
    match value {
        Value::Null => String::new(),
        Value::String(text) if !text.contains(char::is_control) => text.clone(),
        Value::Array(list) => joined(list.iter().map(cell).collect()),
        Value::Object(fields) => joined(fields.iter().map(|(name, value)| format!("{name} {}", cell(value))).collect()),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        // A text with control characters could change what a terminal shows.
        other => other.to_string(),
    }
}
