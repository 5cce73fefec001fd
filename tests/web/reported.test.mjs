// What went wrong for users of similar projects, tried on the page: each case has inputs and the right value.
// tests/it/contract/reported.rs has the cases of the API.
