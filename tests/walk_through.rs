//! Does a readme's walk through the API against a fresh stack, wherever that runs:
//! `cargo run -p tests --bin walk-through -- README.md http://127.0.0.1:3001`

use std::error::Error;

use tests::walkthrough::{console, walk};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [readme, url] = &arguments[..] else { return Err("usage: walk-through README URL".into()) };
    let steps = console(&std::fs::read_to_string(readme)?);
    walk(&steps, url);
    println!("{readme}: {} commands, and each printed what the readme has", steps.len());
    Ok(())
}
