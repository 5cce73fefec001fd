//! Runs this program under Valgrind's callgrind.

use std::process::{Command, Stdio};

use crate::BoxError;

/// The folder of the last runs' profiles.
pub const FOLDER: &str = "target/instructions/callgrind";

/// The instructions that this program takes with these arguments.
///
/// # Errors
/// If Valgrind is missing, or the run fails.
pub fn instructions<'a>(name: &str, arguments: impl Iterator<Item = &'a str>) -> Result<u64, BoxError> {
    std::fs::create_dir_all(FOLDER)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--callgrind-out-file={FOLDER}/{name}.out")])
        .arg(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind can't be started ({error}): run scripts/install-tools.sh valgrind"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("a run under valgrind failed ({}):\n{log}", output.status).into());
    }
    collected(&log).ok_or_else(|| format!("valgrind counted nothing:\n{log}").into())
}

/// The number in a line like `==42== Collected : 123456`.
fn collected(log: &str) -> Option<u64> {
    let line = log.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_valgrinds_output() {
        let log = "==7== Callgrind\n==7== Events    : Ir\n==7== Collected : 123456789\n==7== \n";
        assert_eq!(collected(log), Some(123_456_789));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
