//! Checks each parser with the corpus and with small changes of it. Needs no nightly Rust, so every run of the tests does it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use flate2::read::GzDecoder;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tar::Archive;

/// How many changed inputs are tried.
const CHANGED: usize = 2_000;
/// Bytes that often lead a parser to another branch.
const PIECES: [&[u8]; 16] = [
    b"\0",
    b"\n",
    b" ",
    b"+",
    b"-",
    b"0",
    b"1",
    b":",
    b"#",
    b"/",
    b"\"",
    b"{",
    b"[",
    b"null",
    b"\xff",
    b"18446744073709551616",
];

/// Each input's name and bytes. The archive has them in the order of their names.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus.tar.gz");
    let mut archive = Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.header().entry_type().is_file())
        .map(|mut entry| {
            let name = entry.path().unwrap().display().to_string();
            let mut input = Vec::new();
            entry.read_to_end(&mut input).unwrap();
            (name, input)
        })
        .collect()
}

fn passes(input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| parsers::check(input))).is_ok()
}

#[test]
fn every_input_of_the_corpus_passes() {
    let inputs = corpus();
    assert!(inputs.len() > 1_000, "{}", inputs.len());
    for (file, input) in inputs {
        assert!(passes(&input), "{file}");
    }
}

#[test]
fn changed_inputs_pass() {
    let seed = std::env::var("PARSERS_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    let (inputs, mut random) = (corpus(), StdRng::seed_from_u64(seed));
    for _ in 0..CHANGED {
        let (file, input) = &inputs[random.random_range(0..inputs.len())];
        let changed = change(input, &mut random);
        let shown = changed.escape_ascii();
        assert!(passes(&changed), "{file} as {shown}\nPARSERS_SEED={seed} repeats it");
    }
}

/// Puts one to three pieces into an input, each in place of up to four bytes. The first two bytes stay: they select the parser.
fn change(input: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..random.random_range(1..=3) {
        let from = random.random_range(changed.len().min(2)..=changed.len());
        let to = random.random_range(from..=changed.len().min(from + 4));
        let piece = PIECES[random.random_range(0..PIECES.len())];
        changed.splice(from..to, piece.iter().copied());
    }
    changed
}
