//! The page and its client are part of the program: build again for a new file too.

fn main() {
    println!("cargo::rerun-if-changed=../web");
    println!("cargo::rerun-if-changed=../clients/js");
}
