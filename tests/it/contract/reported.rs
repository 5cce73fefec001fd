//! What went wrong for users of similar projects, tried here: each case has inputs and the right value.
//!
//! | fault | cases |
//! |---|---|
//! | 1. to 5., 7. the page | `tests/web/reported.test.mjs` |
//! | 4. greetings, 10. a base path, 11. times | `texts` |
//! | 6. null, 7. and 18. user ids, 8. idempotency keys, 12. HEAD | `requests` |
//! | 9. the zone of days, 16. a rotated password | `days`, `functions/logs.rs`, `journal` |
//! | 13. busy and gone receivers, 14. equal bodies | `webhooks.rs`, `functions/notify/tests/delivery.rs` |
//! | 15. secrets of webhooks | `rust_crate.rs`, `tests/web/client.test.mjs`, `functions/notify/src/secret.rs` |
//! | 17. CSV | `journal/spreadsheet.rs` |

mod days;
mod requests;
mod texts;
