//! What serves a page of this machine: its files, its own names, and an HTTP server. The local stack and `hongbao-admin console` are built on it.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod body;
pub mod files;
pub mod http_server;
pub mod names;
pub mod problem;
