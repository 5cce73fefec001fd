//! The readmes' walk through the API, run as a reader would: each line in one shell, against a fresh stack.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use local::{Local, Options};

use crate::programs::built;
use crate::repository;

/// Stands for anything within a line, nothing included.
const WILDCARD: char = '…';
/// What the shell says after each command, with its exit status.
const END: &str = "--- the end of a command:";

/// A command of a console block, and what it prints.
#[derive(Debug, Eq, PartialEq)]
struct Step {
    command: String,
    output: Vec<String>,
}

/// The console blocks of a readme, one after another.
fn console(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in markdown.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
                None => steps.last_mut().expect("a command before its output").output.push(line.to_owned()),
            },
        }
    }
    steps
}

/// One shell for all commands, since they set variables for each other.
struct Shell {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new("sh")
            .envs(variables.iter().copied())
            // No proxy of the environment's lies between this machine and itself.
            .env("no_proxy", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Curl draws its progress there.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Runs a command and returns its lines, less empty ones at the end.
    fn run(&mut self, command: &str) -> Vec<String> {
        let input = self.process.stdin.as_mut().unwrap();
        // What a command reads must not be the next command.
        writeln!(input, "{{ {command}\n}} < /dev/null\nprintf '\\n{END} %s\\n' $?").unwrap();
        let mut lines: Vec<String> = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the shell ended at: {command}");
            let line = line.trim_end_matches('\n');
            if let Some(status) = line.strip_prefix(END) {
                assert_eq!(status.trim(), "0", "{command}\n{}", lines.join("\n"));
                break;
            }
            lines.push(line.to_owned());
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a line is as the readme has it.
fn matches(expected: &str, line: &str) -> bool {
    let pieces: Vec<&str> = expected.split(WILDCARD).collect();
    let [first, between @ .., last] = &pieces[..] else { return expected == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for piece in between {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// `--json` came with curl 7.82.
fn assert_curl() {
    let version = Command::new("curl").arg("--version").output().expect("curl is in the PATH");
    let version = String::from_utf8(version.stdout).unwrap();
    let mut numbers = version.split([' ', '.']).skip(1).map(|number| number.parse::<u32>().unwrap_or_default());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(version >= (7, 82), "the readmes need curl 7.82 or later, this is {version:?}");
}

async fn walk(file: &str) {
    assert_curl();
    let steps = console(&std::fs::read_to_string(repository(file)).unwrap());
    assert!(steps.len() > 15, "{file}: only {} commands", steps.len());
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let url = local.url();
    // The shell blocks a thread, and the stack needs this one.
    let walked = tokio::task::spawn_blocking(move || {
        let mut shell = Shell::start(&[("HONGBAO", &url)]);
        for Step { command, output } in steps {
            let lines = shell.run(&command);
            let same = lines.len() == output.len() && output.iter().zip(&lines).all(|(want, got)| matches(want, got));
            assert!(same, "$ {command}\n{}\n--- but the readme has ---\n{}", lines.join("\n"), output.join("\n"));
        }
    });
    walked.await.unwrap();
    local.stop().await;
}

#[tokio::test]
async fn the_walk_through_is_true() {
    walk("README.md").await;
}

#[tokio::test]
async fn the_walk_through_in_chinese_is_true() {
    walk("README.zh-CN.md").await;
}

#[test]
fn both_walks_are_the_same() {
    let [english, chinese] =
        ["README.md", "README.zh-CN.md"].map(|file| std::fs::read_to_string(repository(file)).unwrap());
    assert_eq!(console(&english), console(&chinese));
}

#[test]
fn a_wildcard_stands_for_anything_within_a_line() {
    for (expected, line) in
        [("", ""), ("a", "a"), ("…", ""), ("…", "x"), ("a…", "a"), ("a…c", "abc"), ("…b…", "abc"), ("a…b…c", "axbybc")]
    {
        assert!(matches(expected, line), "{expected} {line}");
    }
    for (expected, line) in [("", "a"), ("a", "b"), ("a…", "b"), ("a…a", "a"), ("a…b…c", "acb"), ("…b", "ba")]
    {
        assert!(!matches(expected, line), "{expected} {line}");
    }
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
