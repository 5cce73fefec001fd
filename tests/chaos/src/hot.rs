//! The Redis servers of a shard, each behind a proxy, and the harms done to them.

mod cluster;
mod single;

use std::collections::BTreeMap;

use redis::cmd;
use shared::redis::holds;
use shared::redis::test_server::{TestServer, poll};

pub use cluster::Cluster;
pub use single::Single;

use tests::dice::Dice;

/// A harm to a Redis server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Harm {
    /// `SIGKILL` without a file: the server restarts empty.
    KillWithoutFile,
    /// `SIGKILL` with an append-only file that is synced every second.
    KillEverysec,
    /// `SIGKILL` with an append-only file that is synced before each answer.
    KillAlways,
    /// The server restarts with older data.
    OlderSnapshot,
    /// The primary dies, and a replica that was cut off for a while takes over.
    LaggingReplica,
    /// A replica that was cut off takes over while the old primary still serves.
    TwoPrimaries,
    /// `FLUSHALL`.
    Flush,
    /// `SCRIPT FLUSH`.
    ForgetScripts,
    /// Memory is full for a while.
    FullMemory,
    /// `SIGSTOP` for a while.
    Freeze,
    /// All clients' connections are closed.
    CutClients,
}

impl Harm {
    /// Whether Redis may lose acknowledged data by it.
    #[must_use]
    pub const fn loses(self) -> bool {
        !matches!(self, Self::KillAlways | Self::ForgetScripts | Self::FullMemory | Self::Freeze | Self::CutClients)
    }
}

/// The servers of a shard.
#[derive(Debug)]
pub enum Hot {
    /// One server.
    Single(Single),
    /// Three primaries with one replica each.
    Cluster(Cluster),
}

impl Hot {
    /// The URL for workers: that of the proxies.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Single(single) => single.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// Starts or stops the connections' faults.
    pub fn set_faulty(&self, faulty: bool) {
        match self {
            Self::Single(single) => single.set_faulty(faulty),
            Self::Cluster(cluster) => cluster.set_faulty(faulty),
        }
    }

    /// The possible harms without a loss. With `losses_too` also those with a loss, twice as often.
    #[must_use]
    pub fn harms(&self, losses_too: bool) -> Vec<Harm> {
        let all = match self {
            Self::Single(_) => single::HARMS.as_slice(),
            Self::Cluster(_) => cluster::HARMS.as_slice(),
        };
        let harmless = all.iter().filter(|harm| !harm.loses());
        let losses = all.iter().filter(|harm| losses_too && harm.loses());
        harmless.chain(losses.clone()).chain(losses).copied().collect()
    }

    /// Does the harm. Returns when Redis serves again. Calls `begins` right before the harm.
    pub async fn harm(&mut self, harm: Harm, dice: &Dice, begins: impl FnOnce()) {
        match self {
            Self::Single(single) => single.harm(harm, dice, begins).await,
            Self::Cluster(cluster) => cluster.harm(harm, dice, begins).await,
        }
    }

    /// All keys with a non-empty outbox, and all pending parts.
    pub async fn outbox(&self) -> Vec<String> {
        let servers = match self {
            Self::Single(single) => vec![single.server()],
            Self::Cluster(cluster) => cluster.primaries().await,
        };
        let mut left = Vec::new();
        for server in servers {
            left.extend(server.command::<Vec<String>>(cmd("KEYS").arg("*pending*")).await);
            for key in server.command::<Vec<String>>(cmd("KEYS").arg("*:part:*")).await {
                let fields: BTreeMap<String, String> = server.command(cmd("HGETALL").arg(&key)).await;
                if holds(&fields).next().is_some() {
                    left.push(key);
                }
            }
        }
        left
    }
}

/// Does a harm that needs only the running server.
async fn harm_server(server: &TestServer, harm: Harm, dice: &Dice, begins: impl FnOnce()) {
    begins();
    match harm {
        Harm::Flush => server.command(&cmd("FLUSHALL")).await,
        Harm::ForgetScripts => server.command(cmd("SCRIPT").arg("FLUSH")).await,
        Harm::FullMemory => {
            let () = server.command(cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
            tokio::time::sleep(dice.time(100..600)).await;
            server.command::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(0)).await;
        }
        Harm::Freeze => {
            server.stop();
            tokio::time::sleep(dice.time(100..1_500)).await;
            server.cont();
        }
        Harm::CutClients => {
            let _: i64 = server.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal")).await;
        }
        _ => unreachable!("{harm:?} needs more than its server"),
    }
}

/// Waits until `INFO` contains a line.
async fn info_says(server: &TestServer, section: &str, line: &str) {
    poll(line, async || {
        let info: String = server.command(cmd("INFO").arg(section)).await;
        info.lines().any(|found| found == line).then_some(())
    })
    .await;
}

/// The time between the first and the second step of a harm.
async fn meanwhile(dice: &Dice) {
    tokio::time::sleep(dice.time(100..500)).await;
}
