//! A proxy in front of a Redis server that breaks, delays and swallows data.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::tally::Tally;
use tests::dice::Dice;

/// One in this many chunks from clients meets a fault.
const PIECES_PER_FAULT: u32 = 400;
/// The delay of a chunk, in milliseconds.
const DELAY_MS: std::ops::Range<u32> = 5..250;
/// How long a mute connection stays open: longer than any client's timeout.
const MUTE: Duration = Duration::from_secs(3);
/// How long to wait for an answer that no client will read.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const BUFFER: usize = 64 * 1_024;

#[derive(Clone, Copy, Debug)]
enum Fault {
    ResetBefore,
    ResetAfter,
    Delayed,
    Mute,
}

const FAULTS: [Fault; 8] = [
    Fault::ResetBefore,
    Fault::ResetBefore,
    Fault::ResetAfter,
    Fault::ResetAfter,
    Fault::ResetAfter,
    Fault::Delayed,
    Fault::Delayed,
    Fault::Mute,
];

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::ResetBefore => "reset before execution",
            Self::ResetAfter => "reset after execution",
            Self::Delayed => "delayed",
            Self::Mute => "mute",
        }
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct RedisProxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstream: AtomicU16,
    dice: Dice,
    tally: Arc<Tally>,
    faulty: AtomicBool,
}

impl RedisProxy {
    /// Starts a proxy, without faults until [`Self::set_faulty`].
    pub async fn start(dice: Dice, tally: Arc<Tally>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared { upstream: AtomicU16::new(0), dice, tally, faulty: AtomicBool::new(false) });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Broken connections are this proxy's purpose.
                tokio::spawn(carry(client, Arc::clone(&accepting)));
            }
        });
        Ok(Self { port, shared })
    }

    /// The proxy's port. A cluster node announces it as its own, so it is known before the server starts.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Sets the server's port.
    pub fn set_upstream(&self, port: u16) {
        self.shared.upstream.store(port, Ordering::Relaxed);
    }

    /// Starts or stops the faults.
    pub fn set_faulty(&self, faulty: bool) {
        self.shared.faulty.store(faulty, Ordering::Relaxed);
    }
}

async fn carry(mut client: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    client.set_nodelay(true)?;
    // Connections end by a reset.
    client.set_zero_linger()?;
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.upstream.load(Ordering::Relaxed))).await?;
    server.set_nodelay(true)?;
    let (mut request, mut answer) = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        tokio::select! {
            len = client.read(&mut request) => {
                let len = len?;
                if len == 0 {
                    return Ok(());
                }
                match shared.fault() {
                    None => server.write_all(&request[..len]).await?,
                    Some(Fault::ResetBefore) => return Ok(()),
                    Some(Fault::ResetAfter) => {
                        server.write_all(&request[..len]).await?;
                        let _ = tokio::time::timeout(ANSWER_WITHIN, server.read(&mut answer)).await;
                        return Ok(());
                    }
                    Some(Fault::Delayed) => {
                        tokio::time::sleep(shared.dice.time(DELAY_MS)).await;
                        server.write_all(&request[..len]).await?;
                    }
                    Some(Fault::Mute) => {
                        tokio::time::sleep(MUTE).await;
                        // Late, and for a client that is gone, but still executed.
                        server.write_all(&request[..len]).await?;
                        let _ = tokio::time::timeout(ANSWER_WITHIN, server.read(&mut answer)).await;
                        return Ok(());
                    }
                }
            }
            len = server.read(&mut answer) => {
                let len = len?;
                if len == 0 {
                    return Ok(());
                }
                client.write_all(&answer[..len]).await?;
            }
        }
    }
}

impl Shared {
    fn fault(&self) -> Option<Fault> {
        if !self.faulty.load(Ordering::Relaxed) || !self.dice.happens(1, PIECES_PER_FAULT) {
            return None;
        }
        let fault = *self.dice.pick(&FAULTS)?;
        self.tally.connection_fault(fault.name());
        Some(fault)
    }
}
