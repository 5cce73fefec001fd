//! The program of the Redis or Valkey server that the local stack, tests and benchmarks start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable that names the program. `make … SERVER=valkey` sets it.
pub const VARIABLE: &str = "HONGBAO_REDIS_SERVER";

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// The folder of `scripts/install-tools.sh` for programs without a system package.
const TOOLS_FOLDER: &str = ".tools";

/// The program: from the environment variable, the `PATH`, or the workspace's tools, in this order. A variable that names no
/// file is not passed over, so that nobody measures another server than the one that they named.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    search(std::env::var_os(VARIABLE), std::env::split_paths(&path), starts.iter().flatten().map(PathBuf::as_path))
}

fn search<'a>(
    named: Option<OsString>,
    path: impl Iterator<Item = PathBuf>,
    starts: impl Iterator<Item = &'a Path>,
) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(PathBuf::from(named)).filter(|program| program.is_file());
    }
    let tools = starts.flat_map(Path::ancestors).map(|folder| folder.join(TOOLS_FOLDER));
    path.chain(tools).flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_program_comes_before_the_path_and_the_path_before_the_tools() {
        let root = tempfile::tempdir().unwrap();
        let (bin, tools, deep) = (root.path().join("bin"), root.path().join(TOOLS_FOLDER), root.path().join("a/b"));
        for folder in [&bin, &tools, &deep] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let make = |program: PathBuf| {
            std::fs::write(&program, "").unwrap();
            program
        };
        let found =
            |named: Option<&Path>| search(named.map(Into::into), [bin.clone()].into_iter(), [&*deep].into_iter());
        assert_eq!(found(None), None);
        let tool = make(tools.join("valkey-server"));
        assert_eq!(found(None), Some(tool.clone()));
        let valkey = make(bin.join("valkey-server"));
        assert_eq!(found(None), Some(valkey));
        let redis = make(bin.join("redis-server"));
        assert_eq!(found(None), Some(redis));
        assert_eq!(found(Some(&tool)), Some(tool));
        assert_eq!(found(Some(&bin.join("absent"))), None, "no other one instead");
    }
}
