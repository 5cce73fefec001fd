//! The page is part of the program: a file that is new in it has to be seen too.

fn main() {
    println!("cargo::rerun-if-changed=../web");
}
