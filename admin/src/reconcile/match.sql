-- Each transfer with the entry of its id, kind and user. If several transfers are of one movement, the first that equals its entry
-- counts, or else the first of all; the others repeat it.
CREATE TABLE pair AS
SELECT transfer.row AS transfer, entry.row AS entry, NULL AS alike, first_value(transfer.row) OVER (
    PARTITION BY id, kind, user
    ORDER BY entry.amount IS NOT transfer.amount OR entry.currency IS NOT transfer.currency, transfer.row
) AS first
FROM transfer LEFT JOIN entry USING (id, kind, user);
CREATE INDEX pair_by_entry ON pair (entry);
CREATE INDEX pair_by_transfer ON pair (transfer);

INSERT INTO difference
SELECT iif((transfer.amount, transfer.currency) = (first.amount, first.currency), 'duplicate-transfer', 'id-reused'),
    transfer.subject, first.shown, transfer.shown, transfer.row
FROM pair
JOIN transfer ON transfer.row = pair.transfer
JOIN transfer AS first ON first.row = pair.first
WHERE pair.transfer <> pair.first
ORDER BY pair.transfer;

-- What is left of an id on both sides.
CREATE VIEW lone_entry AS SELECT * FROM entry WHERE row NOT IN (SELECT entry FROM pair WHERE entry IS NOT NULL);
CREATE VIEW lone_transfer AS
SELECT transfer.* FROM pair JOIN transfer ON row = pair.transfer WHERE entry IS NULL AND pair.transfer = first;

-- The same money of the same user, moved the other way.
UPDATE pair SET entry = other.entry, alike = 'direction-differs'
FROM (
    SELECT one.row AS entry, other.row AS transfer
    FROM (SELECT *, row_number() OVER (PARTITION BY id, user, amount, currency ORDER BY row) AS nth FROM lone_entry) AS one
    JOIN (SELECT *, row_number() OVER (PARTITION BY id, user, amount, currency ORDER BY row) AS nth FROM lone_transfer) AS other
    USING (id, user, amount, currency, nth)
) AS other
WHERE pair.transfer = other.transfer;

-- The same money, moved the same way, but another user's.
UPDATE pair SET entry = other.entry, alike = 'user-differs'
FROM (
    SELECT one.row AS entry, other.row AS transfer
    FROM (SELECT *, row_number() OVER (PARTITION BY id, kind, amount, currency ORDER BY row) AS nth FROM lone_entry) AS one
    JOIN (SELECT *, row_number() OVER (PARTITION BY id, kind, amount, currency ORDER BY row) AS nth FROM lone_transfer) AS other
    USING (id, kind, amount, currency, nth)
) AS other
WHERE pair.transfer = other.transfer;

CREATE VIEW compared AS
SELECT entry.subject, entry.shown AS ledger, transfer.row, alike,
    iif(entry.subject = transfer.subject, '', transfer.subject || ': ') || transfer.shown AS transfers,
    entry.currency <> transfer.currency AS differs_in_currency,
    min(entry.amount, transfer.amount) AS least, max(entry.amount, transfer.amount) AS most,
    transfer.time >= day.start AND transfer.time < day.end AS is_in_day
FROM day, pair
JOIN entry ON entry.row = pair.entry
JOIN transfer ON transfer.row = pair.transfer
WHERE pair.transfer = pair.first;

INSERT INTO difference SELECT alike, subject, ledger, transfers, row FROM compared WHERE alike IS NOT NULL;
INSERT INTO difference
SELECT 'currency-differs', subject, ledger, transfers, row FROM compared WHERE differs_in_currency;
-- Ten, a hundred or a thousand times as much: one side is not in minor units.
INSERT INTO difference
SELECT iif(most IN (least * 10, least * 100, least * 1000), 'unit-differs', 'amount-differs'), subject, ledger, transfers, row
FROM compared WHERE least <> most;
INSERT INTO difference SELECT 'day-differs', subject, ledger, transfers, row FROM compared WHERE NOT is_in_day;

INSERT INTO difference SELECT 'missing-in-transfers', subject, shown, 'nothing', NULL FROM lone_entry;
-- The bank has paid a withdrawal that is pending here, is voided, or was posted on another day.
CREATE VIEW paid_elsewhere AS
SELECT subject, shown, row, withdrawal.status, lone_transfer.currency <> day.currency AS differs_in_currency,
    lone_transfer.amount AS paid, ifnull(withdrawal.posted, withdrawal.amount) AS amount,
    withdrawal.status || ifnull(' ' || withdrawal.posted, '') || ', ' || withdrawal.amount || ' reserved at ' || withdrawal.time
        || ifnull(', ended at ' || withdrawal.ended, '') AS ledger
FROM day, lone_transfer JOIN withdrawal USING (id, user) WHERE kind = 'withdrawal';
INSERT INTO difference
SELECT iif(status = 'posted', 'posted-on-another-day', 'paid-but-' || status), subject, ledger, shown, row FROM paid_elsewhere;
INSERT INTO difference SELECT 'currency-differs', subject, ledger, shown, row FROM paid_elsewhere WHERE differs_in_currency;
-- A bank may pay less than is reserved, as long as nothing is posted.
INSERT INTO difference
SELECT iif(is_factor, 'unit-differs', 'amount-differs'), subject, ledger, shown, row FROM (
    SELECT *, max(paid, amount) IN (min(paid, amount) * 10, min(paid, amount) * 100, min(paid, amount) * 1000) AS is_factor
    FROM paid_elsewhere
) WHERE is_factor OR paid > amount OR status = 'posted' AND paid <> amount;
INSERT INTO difference
SELECT iif(lone_transfer.time >= day.start AND lone_transfer.time < day.end, 'missing-in-ledger', 'outside-day'), subject, 'nothing', shown, row
FROM lone_transfer, day
WHERE kind <> 'withdrawal' OR NOT EXISTS (SELECT 1 FROM withdrawal WHERE (withdrawal.id, withdrawal.user) = (lone_transfer.id, lone_transfer.user));
