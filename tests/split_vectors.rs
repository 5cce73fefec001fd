//! Prints splits of random packets, one JSON object per line, to check another implementation against this one:
//! `cargo run -p tests --bin split-vectors -- 10000 7` prints 10,000; the second number selects the series.

use std::error::Error;
use std::io::{BufWriter, Write};

use serde_json::json;
use sha2::{Digest, Sha256};
use shared::domain::{Amount, SPLIT_VERSION, Seed, Split, commitment, split};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().as_deref().unwrap_or("10000").parse()?;
    let series: u64 = arguments.next().as_deref().unwrap_or("1").parse()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for number in 0..count {
        writeln!(out, "{}", vector(series, number)?)?;
    }
    Ok(out.flush()?)
}

/// A packet made only for this: its terms and seed follow from a hash of its number.
fn vector(series: u64, number: u64) -> Result<String, Box<dyn Error>> {
    let draw = |what: &str| -> [u8; 32] {
        Sha256::new()
            .chain_update(series.to_le_bytes())
            .chain_update(number.to_le_bytes())
            .chain_update(what)
            .finalize()
            .into()
    };
    let word = |what: &str| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&draw(what)[..8]);
        u64::from_le_bytes(bytes)
    };
    let kind = if word("kind").is_multiple_of(8) { Split::Equal } else { Split::Random };
    // Mostly small packets, a few large ones. Caps and totals are as often at or near their limits as between.
    let slips = match word("shape") % 8 {
        0 => 1 + word("count") % 3,
        1 => 1 + word("count") % 1_000,
        _ => 1 + word("count") % 60,
    };
    let cap = match word("cap shape") % 6 {
        0 => 1 + word("cap") % 4,
        1 => 1 + word("cap") % (u64::MAX / slips),
        2 => 1 + word("cap") % 1_000_000_000,
        _ => 20_000,
    };
    let room = slips * cap - slips;
    let total = slips
        + match word("total shape") % 8 {
            0 => 0,
            1 => room,
            2 => room.min(word("total") % 10),
            3 => room - room.min(word("total") % 10),
            4 => (room / 2).saturating_add(word("total") % 10).min(room),
            _ => room.checked_add(1).map_or(word("total"), |bound| word("total") % bound),
        };
    let seed = Seed(draw("seed"));
    let count = u32::try_from(slips)?;
    let amounts = split(kind, Amount::new(total), count, Amount::new(cap), seed)?;
    let committed = commitment(SPLIT_VERSION, seed, Amount::new(total), count, Amount::new(cap), kind);
    // As text, since not every JSON reader keeps 64 bits.
    let line = json!({
        "version": SPLIT_VERSION,
        "split": kind.name(),
        "total": total.to_string(),
        "count": count,
        "cap": cap.to_string(),
        "seed": hex::encode(seed.0),
        "commitment": hex::encode(committed),
        "amounts": amounts.iter().map(u64::to_string).collect::<Vec<_>>(),
    });
    Ok(line.to_string())
}
