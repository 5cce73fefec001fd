//! The readmes' walk through the API, done against a fresh stack.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use local::{Local, Options};
use tests::walkthrough::{Shell, assert_curl, console, matches, walk};

use crate::programs::built;
use crate::repository;

async fn walked(file: &str) {
    let steps = console(&std::fs::read_to_string(repository(file)).unwrap());
    assert!(steps.len() > 15, "{file}: only {} commands", steps.len());
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let url = local.url();
    // The shell blocks a thread, and the stack needs this one.
    tokio::task::spawn_blocking(move || walk(&steps, &url)).await.unwrap();
    local.stop().await;
}

#[tokio::test]
async fn the_walk_through_is_true() {
    walked("README.md").await;
}

#[tokio::test]
async fn the_walk_through_in_chinese_is_true() {
    walked("README.zh-CN.md").await;
}

#[test]
fn both_walks_are_the_same() {
    let [english, chinese] =
        ["README.md", "README.zh-CN.md"].map(|file| std::fs::read_to_string(repository(file)).unwrap());
    assert_eq!(console(&english), console(&chinese));
}

/// The program, which ends with this value.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_lines_that_the_stack_greets_with_work_as_they_are() {
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
    assert_eq!(said[1].len(), 26, "a packet's id: {}", said[1]);
    let grabbed = r#"{"outcome":"grabbed","packet_id":"…","slip":…,"amount":…,"currency":"CNY","grabbed_at":"…Z","replayed":false}"#;
    assert!(matches(grabbed, &said[2]), "{}", said[2]);
    assert!(matches(r#"{…"status":"open",…"claimed_count":1,…}"#, &said[3]), "{}", said[3]);
}
