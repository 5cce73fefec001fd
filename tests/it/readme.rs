//! Runs the commands of the readme and of the walkthrough against a new stack, and compares the pages in both
//! languages.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use local::{Local, Options};
use tests::walkthrough::{Shell, Step, assert_curl, blocks, console, matches, pasted, walk};

use crate::programs::built;
use crate::repository;

fn read(file: &str) -> String {
    std::fs::read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

async fn walked(steps: impl FnOnce(&str) -> Vec<Step>) {
    let local = Local::start(Options::ephemeral()).await.unwrap();
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
const TRANSLATED: [&str; 2] = ["README.md", "docs/INTEGRATE.md"];

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
    let mut program = Command::new(built("local"));
    program.args(["--ephemeral", "--port", "0"]).stdout(Stdio::piped());
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
    assert_eq!(said[0], r#"{"user_id":"alice","balance":100000,"currency":"CNY"}"#);
    assert_eq!(said[1].len(), 26, "a packet id: {}", said[1]);
    let grabbed = r#"{"outcome":"grabbed","packet_id":"…","slip":…,"amount":…,"currency":"CNY","grabbed_at":"…Z","replayed":false}"#;
    assert!(matches(grabbed, &said[2]), "{}", said[2]);
    assert!(matches(r#"{…"status":"open",…"claimed_count":1,…}"#, &said[3]), "{}", said[3]);
}
