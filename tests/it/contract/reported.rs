//! What went wrong for users of similar projects, tried here: each case has inputs and the right value.
//! `tests/web/reported.test.mjs` has the cases of the page.
