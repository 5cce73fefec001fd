//! Tests on real parts: a Redis server, a `DynamoDB` API, the functions' own programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scripts;
