//! The page and its client are compiled into the program, so a new file must cause a build too.

fn main() {
    println!("cargo::rerun-if-changed=../web");
    println!("cargo::rerun-if-changed=../clients/js");
}
