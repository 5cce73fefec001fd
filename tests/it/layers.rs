//! Checks ARCHITECTURE.md's map against the code: the uses between the layers of `shared/src`, and that no modules use
//! each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use crate::repository;

/// The layers of `shared/src` in the map's order, each with the layers that it may use.
fn map() -> Vec<(String, BTreeSet<String>)> {
    let page = read_to_string(repository("ARCHITECTURE.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != "| layer | what it holds | may use |").skip(2);
    let layers = rows.map_while(|row| {
        let cells: Vec<&str> = row.strip_prefix('|')?.split('|').collect();
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let layer = names(cells[0]).remove(0);
        (!layer.contains('/')).then(|| (layer, names(cells[2]).into_iter().collect(), cells[2].contains("all")))
    });
    let mut above = BTreeSet::new();
    let with_all = layers.map(|(layer, mut allowed, all): (String, BTreeSet<String>, bool)| {
        if all {
            allowed.clone_from(&above);
        }
        above.insert(layer.clone());
        (layer, allowed)
    });
    with_all.collect()
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push(path);
        }
    }
}

/// A file's code, without comments and tests.
fn code(path: &Path) -> String {
    let text = read_to_string(path).unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines
        .take_while(|line| !line.starts_with("#[cfg(all(test") && *line != "mod tests {")
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_test(file: &Path, source: &Path) -> bool {
    let name = |name: &str| ["tests", "tests.rs", "test_proxy.rs", "test_server.rs"].contains(&name);
    file.strip_prefix(source).unwrap().iter().any(|part| part.to_str().is_some_and(name))
}

/// The names that follow `prefix` in paths of the code.
fn followers<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(prefix).map(move |(at, _)| {
        let rest = &code[at + prefix.len()..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    })
}

#[test]
fn every_layer_uses_only_what_the_map_allows() {
    let map = map();
    let layers: BTreeSet<&str> = map.iter().map(|(layer, _)| layer.as_str()).collect();
    assert!(layers.len() > 8, "{layers:?}");
    let (source, mut all, mut used) = (repository("shared/src"), Vec::new(), BTreeSet::new());
    files(&source, &mut all);
    let mut wrong = BTreeSet::new();
    for file in all.iter().filter(|file| !is_test(file, &source)) {
        let place = file.strip_prefix(&source).unwrap().to_str().unwrap();
        let layer = place.split(['/', '.']).next().unwrap();
        if ["lib", "crash"].contains(&layer) {
            continue;
        }
        let Some((_, allowed)) = map.iter().find(|(name, _)| name == layer) else {
            panic!("{place}: no row of the map")
        };
        let code = code(file);
        for other in followers(&code, "crate::").filter(|other| layers.contains(other) && *other != layer) {
            used.insert((layer.to_owned(), other.to_owned()));
            if !allowed.contains(other) {
                wrong.insert(format!("{place} uses {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unused: Vec<String> = map
        .iter()
        .flat_map(|(layer, allowed)| allowed.iter().map(move |other| (layer.clone(), other.clone())))
        .filter(|(layer, other)| layer != "wiring" && !used.contains(&(layer.clone(), other.clone())))
        .map(|(layer, other)| format!("{layer} may use {other}, but does not"))
        .collect();
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn arrows_of_the_map_only_point_up() {
    let map = map();
    let place = |layer: &str| map.iter().position(|(name, _)| name == layer);
    for (at, (layer, allowed)) in map.iter().enumerate() {
        for other in allowed {
            assert!(place(other).is_some_and(|above| above < at), "{layer} uses {other}, which is not above it");
        }
    }
}

/// The names of a file's folders, and of the file below `source`. A folder's own module file has no name of its own.
fn path_of(file: &Path, source: &Path) -> Vec<String> {
    let place = file.strip_prefix(source).unwrap().with_extension("");
    let names = place.iter().map(|name| name.to_str().unwrap().to_owned());
    names.filter(|name| name != "mod").collect()
}

#[test]
fn modules_of_a_folder_do_not_use_each_other_in_a_circle() {
    let mut circles = BTreeSet::new();
    for source in ["shared/src", "audit/src", "admin/src", "local/src", "clients/rust/src"] {
        let (root, mut all) = (repository(source), Vec::new());
        files(&root, &mut all);
        // For each folder and each module in it: the names that the module uses from that folder.
        let mut uses: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for file in
            all.iter().filter(|file| !is_test(file, &root) && !file.ends_with("lib.rs") && !file.ends_with("main.rs"))
        {
            let (path, code) = (path_of(file, &root), code(file));
            for depth in 0..path.len() {
                let folder = path[..depth].join("::");
                let prefix = if depth == 0 { "crate::".to_owned() } else { format!("crate::{folder}::") };
                let mut names: BTreeSet<String> = followers(&code, &prefix).map(str::to_owned).collect();
                if depth + 1 == path.len() {
                    names.extend(followers(&code, "super::").map(str::to_owned));
                }
                uses.entry((folder, path[depth].clone())).or_default().extend(names);
            }
        }
        for (folder, name) in uses.keys() {
            let next = |name: &str| uses.get(&(folder.clone(), name.to_owned())).into_iter().flatten().cloned();
            let (mut seen, mut open) = (BTreeSet::new(), next(name).filter(|other| other != name).collect::<Vec<_>>());
            while let Some(other) = open.pop() {
                if other == *name {
                    circles.insert(format!("{source}: {folder}::{name}"));
                    break;
                }
                if seen.insert(other.clone()) {
                    open.extend(next(&other).filter(|further| *further != other));
                }
            }
        }
    }
    assert!(circles.is_empty(), "circles: {circles:#?}");
}
