//! A connection to a Redis server over which faults can be put: for tests.

#![allow(clippy::unwrap_used)] // A test that cannot start it has failed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::lock;

/// A way to a server that can be cut and muted.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    accepted: AtomicUsize,
    /// The connections before this one swallow everything.
    mute_before: AtomicUsize,
    /// How many answers are still to be dropped, with their connections.
    cuts: AtomicUsize,
    /// An error, and how many answers it still takes the place of.
    refusal: Mutex<(&'static str, usize)>,
}

impl Proxy {
    /// In front of the server at that port of this machine.
    ///
    /// # Panics
    /// If it has no port to listen on.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forward(client, server, number, Arc::clone(&shared)));
            }
        });
        Self { address, state }
    }

    /// Its URL, for a client.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections it has taken.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// Keeps all connections there are open and answers nothing on them; new ones work.
    pub fn mute_open_connections(&self) {
        self.state.mute_before.store(self.accepted(), Ordering::SeqCst);
    }

    /// Delivers an error instead of an answer, this many times.
    pub fn refuse(&self, error: &'static str, count: usize) {
        *lock(&self.state.refusal) = (error, count);
    }

    /// Closes the connection instead of delivering an answer, this many times.
    pub fn cut_answers(&self, count: usize) {
        self.state.cuts.store(count, Ordering::SeqCst);
    }
}

impl State {
    /// The error that takes the place of the next answer, if one does.
    fn refusal(&self) -> Option<String> {
        let mut refusal = lock(&self.refusal);
        refusal.1 = refusal.1.checked_sub(1)?;
        Some(format!("-{}\r\n", refusal.0))
    }
}

async fn forward(mut client: TcpStream, server: u16, number: usize, state: Arc<State>) {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await.unwrap();
    let is_mute = || number < state.mute_before.load(Ordering::SeqCst);
    let (mut request, mut answer) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            Ok(len) = client.read(&mut request) => match len {
                0 => return,
                _ if is_mute() => {}
                _ => server.write_all(&request[..len]).await.unwrap(),
            },
            Ok(len) = server.read(&mut answer) => {
                let cut = |count: usize| count.checked_sub(1);
                if len == 0 || state.cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, cut).is_ok() {
                    return;
                }
                match state.refusal() {
                    _ if is_mute() => {}
                    Some(error) => client.write_all(error.as_bytes()).await.unwrap(),
                    None => client.write_all(&answer[..len]).await.unwrap(),
                }
            }
            else => return,
        }
    }
}
