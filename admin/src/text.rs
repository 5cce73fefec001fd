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

/// The text with escapes for what a terminal would act on: what moves its cursor, ends its line or turns the order of characters. The
/// escapes are those of JSON, so JSON stays JSON.
pub fn for_terminal(text: &str) -> String {
    let is_shown = |letter: char| letter == '\n' || !acts(letter);
    let escaped = |letter: char| format!("\\u{:04x}", u32::from(letter));
    text.chars().map(|letter| if is_shown(letter) { letter.to_string() } else { escaped(letter) }).collect()
}

/// Whether a terminal may act on a character: controls, separators of lines and paragraphs, and controls of direction.
fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn value(report: &impl Serialize) -> Value {
    // Reports always have a JSON form.
    serde_json::to_value(report).unwrap_or_default()
}

fn cell(value: &Value) -> String {
    let joined = |cells: Vec<String>| cells.join(", ");
    match value {
        Value::Null => String::new(),
        Value::String(text) if !text.contains(acts) => text.clone(),
        Value::Array(list) => joined(list.iter().map(cell).collect()),
        Value::Object(fields) => joined(
            fields.iter().map(|(name, value)| format!("{} {}", cell(&Value::from(&**name)), cell(value))).collect(),
        ),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        // A text with control characters could change what a terminal shows.
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_terminal_acts_on_nothing_that_a_user_wrote() {
        let hostile = ["\u{1b}[2J", "a\nb", "\u{7f}", "\u{9b}2J", "\u{202e}gpj", "\u{2066}", "\u{2028}", "\r"];
        for text in hostile {
            let report = json!({"metadata": {text: text}, "rows": [{"why": text}]});
            let tables = [fields(&report, "metadata"), table(&report["rows"], "why")].map(|text| for_terminal(&text));
            for shown in &tables {
                assert!(!shown.replace('\n', "").contains(acts) && !shown.contains("a\nb"), "{shown:?}");
            }
            let shown = for_terminal(&serde_json::to_string_pretty(&report).unwrap());
            assert!(!shown.replace('\n', "").contains(acts), "{shown:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), report, "{shown:?}");
        }
        let plain = "恭喜发财 👩\u{200d}🚀\nالعربية é";
        assert_eq!(for_terminal(plain), plain);
    }
}
