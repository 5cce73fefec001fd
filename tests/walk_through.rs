//! Runs the walkthrough of the API against a new stack at any address:
//! `cargo run -p tests --bin walk-through -- docs/INTEGRATE.md http://127.0.0.1:3001`

use std::error::Error;

use tests::walkthrough::{console, walk};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [page, url] = &arguments[..] else { return Err("usage: walk-through PAGE URL".into()) };
    let steps = console(&std::fs::read_to_string(page)?);
    walk(&steps, url);
    println!("{page}: {} commands, all with the page's output", steps.len());
    Ok(())
}
