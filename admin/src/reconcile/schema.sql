-- Movements as the journal has them, and as the file of transfers has them. `row` is the line or the row in the file; times are
-- RFC 3339 in UTC with milliseconds, so they sort as texts.
CREATE TABLE entry (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, kind TEXT NOT NULL, user TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, time TEXT NOT NULL,
    subject TEXT AS (kind || ' ' || id || ' of ' || user),
    shown TEXT AS (amount || ' ' || currency || ' at ' || time),
    UNIQUE (id, kind, user)
);
CREATE TABLE transfer (
    row INTEGER PRIMARY KEY, id TEXT, kind TEXT, user TEXT, amount INTEGER, currency TEXT, time TEXT,
    subject TEXT AS (kind || ' ' || id || ' of ' || user),
    shown TEXT AS (amount || ' ' || currency || ' at ' || time)
);
-- The time of the journal, from its first moment until before its last one, and its currency.
CREATE TABLE day (start TEXT, end TEXT, currency TEXT);
-- What was found, in order.
CREATE TABLE difference (kind TEXT, subject TEXT, ledger TEXT, transfers TEXT, row INTEGER);
-- Withdrawals in two steps: those that were pending at the end of the day, or ended in the thirty days before it.
CREATE TABLE withdrawal (id TEXT, user TEXT, amount INTEGER, status TEXT, time TEXT, ended TEXT, posted INTEGER, PRIMARY KEY (id, user));
