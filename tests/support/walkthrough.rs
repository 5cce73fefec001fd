//! The readmes' walk through the API, done as a reader would: each line in one shell.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Stands for anything within a line, nothing included.
const WILDCARD: char = '…';
/// What the shell says after each command, with its exit status.
const END: &str = "--- the end of a command:";

/// A command of a console block, and what it prints.
#[derive(Debug, Eq, PartialEq)]
pub struct Step {
    command: String,
    output: Vec<String>,
}

/// The console blocks of a readme, one after another.
pub fn console(markdown: &str) -> Vec<Step> {
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

/// Does all steps against a fresh stack at `url`, and panics at the first whose output is another than the readme's.
pub fn walk(steps: &[Step], url: &str) {
    assert_curl();
    let mut shell = Shell::start(&[("HONGBAO", url)]);
    for Step { command, output } in steps {
        let lines = shell.run(command);
        let same = lines.len() == output.len() && output.iter().zip(&lines).all(|(want, got)| matches(want, got));
        assert!(same, "$ {command}\n{}\n--- but the readme has ---\n{}", lines.join("\n"), output.join("\n"));
    }
}

/// Whether a line is as the readme has it.
pub fn matches(expected: &str, line: &str) -> bool {
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
pub fn assert_curl() {
    let version = Command::new("curl").arg("--version").output().expect("curl is in the PATH");
    let version = String::from_utf8(version.stdout).unwrap();
    let mut numbers = version.split([' ', '.']).skip(1).map(|number| number.parse::<u32>().unwrap_or_default());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(version >= (7, 82), "the readmes need curl 7.82 or later, this is {version:?}");
}

/// One shell for all commands, since they set variables for each other.
pub struct Shell {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// A shell with these environment variables besides this process' own.
    pub fn start(variables: &[(&str, &str)]) -> Self {
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

    /// Runs a command that has to succeed, and returns its lines, less empty ones at the end.
    pub fn run(&mut self, command: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_wildcard_stands_for_anything_within_a_line() {
        for (expected, line) in [
            ("", ""),
            ("a", "a"),
            ("…", ""),
            ("…", "x"),
            ("a…", "a"),
            ("a…c", "abc"),
            ("…b…", "abc"),
            ("a…b…c", "axbybc"),
        ] {
            assert!(matches(expected, line), "{expected} {line}");
        }
        for (expected, line) in [("", "a"), ("a", "b"), ("a…", "b"), ("a…a", "a"), ("a…b…c", "acb"), ("…b", "ba")]
        {
            assert!(!matches(expected, line), "{expected} {line}");
        }
    }
}
