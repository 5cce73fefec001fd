//! The red-packet engine: what the functions, the local stack and the tests share.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_arithmetic))]

pub mod domain;
