use std::path::PathBuf;
use std::sync::Arc;

use redis::cmd;
use shared::redis::test_server::TestServer;

use super::{Harm, harm_server, info_says, meanwhile};
use crate::proxies::RedisProxy;
use crate::report::Tally;
use tests::dice::Dice;

/// The possible harms to a single server.
pub const HARMS: [Harm; 9] = [
    Harm::KillWithoutFile,
    Harm::KillEverysec,
    Harm::KillAlways,
    Harm::OlderSnapshot,
    Harm::Flush,
    Harm::ForgetScripts,
    Harm::FullMemory,
    Harm::Freeze,
    Harm::CutClients,
];

/// The part of a server's writes that its file keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AppendOnly {
    /// No writes.
    Off,
    /// All writes, synced every second.
    Everysec,
    /// All writes, synced before each answer.
    Always,
}

impl AppendOnly {
    const fn options(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Off => [("appendonly", "no"), ("appendfsync", "everysec")],
            Self::Everysec => [("appendonly", "yes"), ("appendfsync", "everysec")],
            Self::Always => [("appendonly", "yes"), ("appendfsync", "always")],
        }
    }
}

/// One server behind a proxy.
#[derive(Debug)]
pub struct Single {
    server: TestServer,
    proxy: RedisProxy,
    append_only: AppendOnly,
}

impl Single {
    /// Starts both. The server keeps all its writes.
    pub async fn start(name: &str, seed: u64, tally: Arc<Tally>) -> std::io::Result<Self> {
        let proxy = RedisProxy::start(Dice::new(seed, &format!("{name} proxy")), tally).await?;
        let mut server = TestServer::start(&[]).await;
        let append_only = AppendOnly::Always;
        restart(&mut server, append_only).await;
        proxy.set_upstream(server.port());
        Ok(Self { server, proxy, append_only })
    }

    /// The proxy's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.proxy.port())
    }

    /// The server, without its proxy.
    #[must_use]
    pub const fn server(&self) -> &TestServer {
        &self.server
    }

    pub(super) fn set_faulty(&self, faulty: bool) {
        self.proxy.set_faulty(faulty);
    }

    pub(super) async fn harm(&mut self, harm: Harm, dice: &Dice, begins: impl FnOnce()) {
        match harm {
            Harm::KillWithoutFile => self.kill(AppendOnly::Off, dice, begins).await,
            Harm::KillEverysec => self.kill(AppendOnly::Everysec, dice, begins).await,
            Harm::KillAlways => self.kill(AppendOnly::Always, dice, begins).await,
            Harm::OlderSnapshot => self.restore(dice, begins).await,
            other => harm_server(&self.server, other, dice, begins).await,
        }
    }

    async fn kill(&mut self, append_only: AppendOnly, dice: &Dice, begins: impl FnOnce()) {
        self.switch_to(append_only).await;
        meanwhile(dice).await;
        begins();
        restart(&mut self.server, append_only).await;
    }

    /// Changes a running server's file mode, and waits until the file has all data.
    async fn switch_to(&mut self, append_only: AppendOnly) {
        if self.append_only == append_only {
            return;
        }
        for (option, value) in append_only.options() {
            let () = self.server.command(cmd("CONFIG").arg("SET").arg(option).arg(value)).await;
        }
        self.append_only = append_only;
        if append_only != AppendOnly::Off {
            info_says(&self.server, "persistence", "aof_rewrite_scheduled:0").await;
            info_says(&self.server, "persistence", "aof_rewrite_in_progress:0").await;
            info_says(&self.server, "persistence", "aof_last_bgrewrite_status:ok").await;
        }
    }

    /// Restores older data.
    async fn restore(&mut self, dice: &Dice, begins: impl FnOnce()) {
        self.switch_to(AppendOnly::Off).await;
        let () = self.server.command(&cmd("SAVE")).await;
        meanwhile(dice).await;
        begins();
        // Without an append-only file a server loads the existing dump at its start.
        restart(&mut self.server, AppendOnly::Off).await;
        std::fs::remove_file(self.dump()).expect("the dump that was restored");
    }

    fn dump(&self) -> PathBuf {
        self.server.dir().join("dump.rdb")
    }
}

async fn restart(server: &mut TestServer, append_only: AppendOnly) {
    let options = append_only.options().map(|(option, value)| [format!("--{option}"), value.to_owned()]);
    let args: Vec<&str> = options.iter().flatten().map(String::as_str).collect();
    server.restart_with(&args).await;
}
