//! Runs the commands of the documents like a reader: all lines in one shell.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Matches anything within a line, even nothing.
const WILDCARD: char = '…';
/// The line that the shell prints after each command, with the exit status.
const END: &str = "--- the end of a command:";

/// A command, with its output.
#[derive(Debug, Eq, PartialEq)]
pub struct Step {
    command: String,
    output: Vec<String>,
}

/// A code block of a document.
#[derive(Debug, Eq, PartialEq)]
pub struct Block<'a> {
    /// The word in its first line; empty without one.
    pub language: &'a str,
    /// Its lines.
    pub lines: Vec<&'a str>,
}

/// The code blocks of a document, in order.
pub fn blocks(markdown: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in markdown.lines() {
        open = match (open, line.strip_prefix("```")) {
            (None, language) => language.map(|language| Block { language, lines: Vec::new() }),
            (Some(block), Some("")) => {
                blocks.push(block);
                None
            }
            (Some(mut block), _) => {
                block.lines.push(line);
                Some(block)
            }
        };
    }
    blocks
}

/// The steps of the `console` blocks: a command after each `$ `, and its output below.
pub fn console(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks(markdown).iter().filter(|block| block.language == "console").flat_map(|block| &block.lines) {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
            None => steps.last_mut().expect("a command before its output").output.push((*line).to_owned()),
        }
    }
    steps
}

/// The steps of each `sh` block that a `json` block follows: one command a line, and one line of output for each.
pub fn pasted(markdown: &str) -> Vec<Step> {
    let blocks = blocks(markdown);
    let pairs = blocks.iter().zip(blocks.iter().skip(1));
    pairs
        .filter(|(commands, answers)| (commands.language, answers.language) == ("sh", "json"))
        .flat_map(|(commands, answers)| {
            assert_eq!(commands.lines.len(), answers.lines.len(), "one line of output for each command");
            commands.lines.iter().zip(&answers.lines)
        })
        .map(|(command, answer)| Step { command: (*command).to_owned(), output: vec![(*answer).to_owned()] })
        .collect()
}

/// Runs all steps against a new stack at `url`. Panics at the first output that differs from the document's.
pub fn walk(steps: &[Step], url: &str) {
    assert_curl();
    walk_in(&mut Shell::start(&[("HONGBAO", url)]), steps);
}

/// The same in a shell that has more.
pub fn walk_in(shell: &mut Shell, steps: &[Step]) {
    for Step { command, output } in steps {
        let lines = shell.run(command);
        let same = lines.len() == output.len() && output.iter().zip(&lines).all(|(want, got)| matches(want, got));
        assert!(same, "$ {command}\n{}\n--- but the document has ---\n{}", lines.join("\n"), output.join("\n"));
    }
}

/// Whether a line matches the document's.
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
    assert!(version >= (7, 82), "the documents need curl 7.82 or later, this is {version:?}");
}

/// One shell for all commands, since they set variables for each other.
pub struct Shell {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// Starts a shell with these environment variables added.
    pub fn start(variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new("sh")
            .envs(variables.iter().copied())
            // Requests to this machine must not use a proxy from the environment.
            .env("no_proxy", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Curl prints its progress there.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Runs a command that must succeed. Returns its lines without empty ones at the end.
    pub fn run(&mut self, command: &str) -> Vec<String> {
        let input = self.process.stdin.as_mut().unwrap();
        // Without this a command could read the next command as its input.
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
    fn a_wildcard_matches_anything_within_a_line() {
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
