//! The data folder of a local stack is full, or can't be written. The error is clear, and nothing is lost.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use client::{Caller, SendRequest, Split};
use shared::redis::test_server::poll;
use tempfile::TempDir;
use tests::program::{Program, beside};

use crate::users::{Users, Wish};
use crate::{Size, books, settle};

/// The file system of the folder, in MB. The programs fill a part of it.
const MB: u64 = 32;
const SENDER: &str = "sender";
const EXPIRES_IN_S: u64 = 3_600;
const SLIPS: u32 = 1_000;
/// Users who grab before, during and after the fault.
const USERS: usize = 40;
const TABLE: &str = "hongbao";
/// Words of which an error of a full folder has one.
const FULL: [&str; 3] = ["disk is full", "No space left", "disk full"];
const READ_ONLY: [&str; 3] = ["Read-only file system", "Permission denied", "readonly"];
/// How long a start may take to find that it can't.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

/// A small file system of its own, mounted while this lives.
struct Volume {
    folder: TempDir,
}

impl Volume {
    /// Nothing if this user may not mount.
    fn mount() -> Option<Self> {
        let volume = Self { folder: TempDir::new().unwrap() };
        volume.mounts(&["-t", "tmpfs", "-o", &format!("size={MB}m"), "hongbao-drill"]).then_some(volume)
    }

    /// Makes it read-only, or writable again. Nothing may use it.
    fn set_read_only(&self, read_only: bool) {
        let options = if read_only { "remount,ro" } else { "remount,rw" };
        assert!(self.mounts(&["-o", options]), "mount {options}");
    }

    fn mounts(&self, arguments: &[&str]) -> bool {
        let mount = Command::new("mount").args(arguments).arg(self.folder.path()).output();
        mount.is_ok_and(|mount| mount.status.success())
    }

    /// Fills it to the last byte. Returns the file that does.
    fn fill(&self) -> PathBuf {
        let path = self.folder.path().join("ballast");
        let mut file = File::create(&path).unwrap();
        for size in [1 << 16, 1] {
            loop {
                match file.write_all(&vec![0; size]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        path
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Without it the folder can't be removed. If it fails, the folder stays, which is seen.
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

/// A stack on a folder, and its log.
struct Stack {
    log: PathBuf,
    _logs: TempDir,
}

impl Stack {
    fn new() -> Self {
        let logs = TempDir::new().unwrap();
        Self { log: logs.path().join("log"), _logs: logs }
    }

    /// Starts `local` on `data`.
    fn start(&self, data: &Path) -> Result<Program, String> {
        let mut command = beside("local");
        command.args(["--port", "0", "--settle-every", "0s", "--data-dir"]).arg(data);
        command.stderr(File::create(&self.log).unwrap());
        Program::start(&mut command).map_err(|status| format!("{status}: {}", self.log()))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Returns what is wrong.
pub async fn run(_: Size) -> Vec<String> {
    println!("\nthe data folder of a local stack is full, or can't be written");
    let Some(volume) = Volume::mount() else {
        println!("left out: this user can't mount a small file system");
        return Vec::new();
    };
    [full(&volume).await, read_only(&volume).await].concat()
}

/// A stack whose folder becomes full while it serves.
async fn full(volume: &Volume) -> Vec<String> {
    let data = volume.data("full");
    let (stack, mut violations) = (Stack::new(), Vec::new());
    let program = stack.start(&data).expect("a start");
    let users = Users::of(std::slice::from_ref(&program.url));
    users.fund(SENDER).await;
    let packet = users.send(SENDER, "before", SLIPS, EXPIRES_IN_S).await.expect("a packet");
    let wishes =
        |from: usize| (from..from + USERS).map(|user| (packet.clone(), format!("u{user}"))).collect::<Vec<Wish>>();
    users.rush(&wishes(0), |_, _| {}).await;

    let ballast = volume.fill();
    // The database may still have room in its own files, so sends go on until one is refused.
    let refused = until_refused(&users).await;
    println!("on a full disk: {refused}");
    users.give_up(true);
    users.rush(&wishes(USERS), |_, _| {}).await;
    // Everybody who was promised a slip asks again. Without an answer the promise is not broken.
    let before = users.ask_again().await;
    let log = stack.log();
    if !FULL.iter().any(|words| log.contains(words)) && !FULL.iter().any(|words| refused.contains(words)) {
        violations.push(format!("no error says that the disk is full; the log:\n{log}"));
    }
    std::fs::remove_file(ballast).unwrap();
    users.give_up(false);
    let sent = users.send(SENDER, "after", SLIPS, EXPIRES_IN_S).await;
    users.rush(&wishes(USERS), |_, _| {}).await;
    println!("with room again: {} promises, {before} before", users.book().promised().len());
    if sent.is_none() {
        violations.push("nobody can send although there is room again".to_owned());
    }
    let ended = program.terminate();
    if !ended.success() {
        violations.push(format!("the stack did not end well: {ended}; {}", stack.log()));
    }

    // A start on a full disk serves or says why not.
    let ballast = volume.fill();
    match stack.start(&data) {
        Ok(program) => {
            println!("a start on a full disk serves");
            drop(program);
        }
        Err(error) => {
            println!("a start on a full disk: {}", error.trim());
            if !FULL.iter().any(|words| error.contains(words)) {
                violations.push(format!("the start does not say that the disk is full: {error}"));
            }
        }
    }
    std::fs::remove_file(ballast).unwrap();
    violations.extend(nothing_is_lost(&stack, &data, users).await);
    violations
}

/// Sends packets until one is refused. Returns the refusal.
async fn until_refused(users: &Users) -> String {
    let number = std::sync::atomic::AtomicU32::new(0);
    poll("a refusal", async || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let sender = users.any().by(Caller::Local(SENDER.to_owned()));
        let packet = SendRequest::new(Split::Random, u64::from(SLIPS) * 100, SLIPS);
        match sender.send(&format!("full-{number}"), &packet).await {
            Ok(sent) => {
                users.book().sent(&sent.packet.packet_id, SENDER, 0);
                None
            }
            Err(error) => {
                users.book().perhaps_sent();
                if !matches!(&error, client::Error::Problem(problem) if problem.status == 503 && problem.retry_after.is_some()) {
                    users.violated(format!("a send on a full disk was answered: {}", shared::error_chain(&error)));
                }
                Some(shared::error_chain(&error))
            }
        }
    })
    .await
}

/// A stack that starts on a folder that it can't write.
async fn read_only(volume: &Volume) -> Vec<String> {
    let (stack, data) = (Stack::new(), &volume.data("read-only"));
    let program = stack.start(data).expect("a start");
    let users = Users::of(std::slice::from_ref(&program.url));
    users.fund("other").await;
    let packet = users.send("other", "read-only", SLIPS, EXPIRES_IN_S).await.expect("a packet");
    let wishes: Vec<Wish> = (0..USERS).map(|user| (packet.clone(), format!("r{user}"))).collect();
    users.rush(&wishes, |_, _| {}).await;
    let ended = program.terminate();
    assert!(ended.success(), "{ended}");

    volume.set_read_only(true);
    let begun = std::time::Instant::now();
    let refused = stack.start(data);
    let took = begun.elapsed();
    volume.set_read_only(false);
    let mut violations = match refused {
        Ok(_) => vec!["a stack serves although it can't write its folder".to_owned()],
        Err(error) => {
            println!("a start on a read-only folder, after {took:.0?}: {}", error.trim());
            let names_it = error.contains(&*data.to_string_lossy());
            let is_clear = names_it && READ_ONLY.iter().any(|words| error.contains(words)) && took < REFUSED_WITHIN;
            (!is_clear).then(|| format!("not a clear error: {error}")).into_iter().collect()
        }
    };
    violations.extend(nothing_is_lost(&stack, data, users).await);
    violations
}

/// Starts the stack again, and compares its ledger with every answer.
async fn nothing_is_lost(stack: &Stack, data: &Path, users: Users) -> Vec<String> {
    let program = match stack.start(data) {
        Ok(program) => program,
        Err(error) => return vec![format!("it does not start again: {error}")],
    };
    let users = users.moved_to(&program.url);
    users.ask_again().await;
    settle(&program.url).await;
    let mut violations = users.violations();
    match books(program.dynamodb_url.as_ref().unwrap(), TABLE).await {
        Err(wrong) => violations.extend(wrong),
        Ok(books) => {
            let checked = users.book().compare(&books);
            println!("after a new start: {} promises are kept, the audit is clean", checked.promises_kept);
            violations.extend(checked.violations);
        }
    }
    let ended = program.terminate();
    if !ended.success() {
        violations.push(format!("the stack did not end well: {ended}"));
    }
    violations
}
