//! Tests of the HTTP contract over HTTP. Every answer is checked against `openapi.yaml`.

pub mod api;
pub mod spec;

mod bodies;
mod callers;
mod coverage;
mod cursors;
mod examples;
mod expiry;
mod fields;
mod grab;
mod guards;
mod me;
mod newest;
mod operator;
mod packet;
mod paths;
mod replay;
mod reported;
mod send;
mod start;
mod users;
mod wallets;
