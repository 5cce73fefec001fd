//! What the tests share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
