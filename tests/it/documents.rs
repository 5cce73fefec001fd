//! The documents: commands of the readme and of the walkthrough run against a new stack, the pages match in both languages, and
//! ARCHITECTURE's map allows what the code uses.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use local::{Local, Options};
use tests::walkthrough::{Shell, Step, assert_curl, blocks, console, matches, pasted, walk};

use crate::contract::api::TICKET_KEY;
use crate::programs::built;
use crate::repository;

fn read(file: &str) -> String {
    read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

async fn walked(steps: impl FnOnce(&str) -> Vec<Step>) {
    // The key that docs/INTEGRATE.md starts the stack with.
    let ticket_key = Some(format!(r#"{{"keys":[{TICKET_KEY}]}}"#));
    let local = Local::start(Options { ticket_key, ..Options::ephemeral() }).await.unwrap();
    let url = local.url();
    let steps = steps(&url);
    // The shell blocks a thread; the stack needs this one.
    tokio::task::spawn_blocking(move || walk(&steps, &url)).await.unwrap();
    local.stop().await;
}

#[tokio::test]
async fn the_walkthrough_works() {
    let steps = console(&read("docs/INTEGRATE.md"));
    assert!(steps.len() > 15, "only {} commands", steps.len());
    walked(|_| steps).await;
}

#[tokio::test]
async fn the_walk_for_one_group_works_on_a_fresh_stack() {
    let page = read("docs/INTEGRATE.md");
    let section = page.split_once("\n## A packet for one group\n").unwrap().1.split_once("\n## ").unwrap().0;
    let steps = console(section);
    assert!(steps.len() >= 8, "only {} commands", steps.len());
    walked(|_| steps).await;
}

#[tokio::test]
async fn the_requests_of_the_readme_work() {
    walked(|url| {
        let steps = pasted(&read("README.md").replace("http://127.0.0.1:3000", url));
        assert_eq!(steps.len(), 4, "deposit, send, grab, look");
        steps
    })
    .await;
}

#[test]
fn the_readme_is_short() {
    for file in ["README.md", "README.zh-CN.md"] {
        let lines = read(file).lines().count();
        assert!(lines < 150, "{file} has {lines} lines");
    }
}

/// The readme repeats a few figures of the recorded benchmark. They must change with a new recording.
#[test]
fn the_figures_of_the_readme_are_recorded() {
    let recorded = read("docs/PERFORMANCE.md");
    for file in ["README.md", "README.zh-CN.md"] {
        let page = read(file);
        let section = page.split_once("`lua-queue`").unwrap().1.split_once("PERFORMANCE.md").unwrap().0;
        let figures = section.split(|c: char| !c.is_ascii_digit() && !".,".contains(c));
        let figures: Vec<&str> =
            figures.map(|figure| figure.trim_matches(['.', ','])).filter(|f| f.len() > 1).collect();
        assert!(figures.len() >= 10, "{file}: {figures:?}");
        for figure in figures {
            assert!(recorded.contains(figure), "{file}: docs/PERFORMANCE.md lacks {figure}");
        }
    }
}

/// The pages that exist in both languages, by their English name.
const TRANSLATED: [&str; 3] = ["README.md", "docs/INTEGRATE.md", "docs/SELF-HOST.md"];

/// The parts that a translation keeps: code blocks, the levels of headings, and pieces of code in the text.
#[test]
fn the_pages_in_chinese_match_the_english_ones() {
    for file in TRANSLATED {
        let [english, chinese] = [read(file), read(&file.replace(".md", ".zh-CN.md"))];
        assert_eq!(blocks(&english), blocks(&chinese), "{file}");
        let levels = |page: &str| -> Vec<usize> { headings(page).map(level).collect() };
        assert_eq!(levels(&english), levels(&chinese), "{file}: {:?}", headings(&chinese).collect::<Vec<_>>());
        let [of_english, of_chinese] = [code(&english), code(&chinese)];
        let differ: Vec<_> = of_english.symmetric_difference(&of_chinese).collect();
        assert!(differ.is_empty(), "{file}: in one language only: {differ:?}");
    }
}

/// The lines outside of the code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    page.lines().filter(move |line| {
        let is_marker = line.starts_with("```");
        inside ^= is_marker;
        !inside && !is_marker
    })
}

fn headings(page: &str) -> impl Iterator<Item = &str> {
    prose(page).filter(|line| line.starts_with('#'))
}

fn level(heading: &str) -> usize {
    heading.len() - heading.trim_start_matches('#').len()
}

/// The pieces of code within the text.
fn code(page: &str) -> BTreeSet<String> {
    let text: Vec<&str> = prose(page).collect();
    // A piece may break at the end of a line.
    let text = text.join(" ");
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The program; killed when this value is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_commands_in_the_greeting_work() {
    assert_curl();
    let mut program = Command::new(built("hongbao"));
    program.args(["dev", "--ephemeral", "--port", "0"]).stdout(Stdio::piped());
    let mut program = Program(program.spawn().unwrap());
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut commands = Vec::new();
    while commands.len() < 4 {
        let line = lines.next().expect("the stack starts and greets");
        if line.starts_with("  curl") || line.starts_with("  PACKET=") {
            commands.push(line);
        }
    }
    let mut shell = Shell::start(&[]);
    let said: Vec<String> = commands.iter().map(|command| shell.run(command).join("\n")).collect();
    assert_eq!(said[0], r#"{"user_id":"alice","balance":100000,"pending":0,"currency":"CNY"}"#);
    assert_eq!(said[1].len(), 26, "a packet id: {}", said[1]);
    let grabbed = r#"{"outcome":"grabbed","packet_id":"…","slip":…,"amount":…,"currency":"CNY","grabbed_at":"…Z","replayed":false}"#;
    assert!(matches(grabbed, &said[2]), "{}", said[2]);
    assert!(matches(r#"{…"status":"open",…"claimed_count":1,…}"#, &said[3]), "{}", said[3]);
}

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
fn source_of(path: &Path) -> String {
    let text = read_to_string(path).unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines
        .take_while(|line| {
            !line.starts_with("#[cfg(all(test") && !line.starts_with("pub(crate) mod test_") && *line != "mod tests {"
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_test(file: &Path, source: &Path) -> bool {
    let name =
        |name: &str| ["tests", "tests.rs", "test_policies.rs", "test_proxy.rs", "test_server.rs"].contains(&name);
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
        let code = source_of(file);
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
