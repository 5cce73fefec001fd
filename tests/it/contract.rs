//! Tests of the HTTP contract over HTTP. Every answer is checked against `openapi.yaml`.

pub mod api;
pub mod spec;

mod bodies;
mod coverage;
mod grab;
mod limits;
mod lists;
mod operator;
mod packet;
mod paths;
mod reported;
mod send;
mod support;
mod tickets;
mod withdrawals;
