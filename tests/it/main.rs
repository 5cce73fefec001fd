//! Tests on real parts: a Redis server, a `DynamoDB` API, the functions' own programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audit;
mod guard;
mod http_rush;
mod repair;
mod rush;
mod send;
mod settle;
