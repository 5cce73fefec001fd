-- A row for each item. `item` has its attributes as DynamoDB's JSON writes them, without the key. Keys are compared byte by byte.
CREATE TABLE items (
    pk text COLLATE "C" NOT NULL,
    sk text COLLATE "C" NOT NULL,
    item jsonb NOT NULL,
    -- Columns, not expressions of the index: an update that leaves them as they are then needs no new entry in it.
    due_shard bigint GENERATED ALWAYS AS ((item -> 'due_shard' ->> 'N')::bigint) STORED,
    due_at bigint GENERATED ALWAYS AS ((item -> 'due_at' ->> 'N')::bigint) STORED,
    PRIMARY KEY (pk, sk)
);

CREATE INDEX due ON items (due_shard, due_at, pk, sk) WHERE due_shard IS NOT NULL AND due_at IS NOT NULL;

-- The right to do what one process does at a time. Its time ends by the database's clock.
CREATE TABLE leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    until timestamptz NOT NULL,
    note bigint NOT NULL DEFAULT 0
);

-- Changes that may be events, and are not published yet. `note_changes` writes them, once events.sql has made its triggers.
CREATE TABLE changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pk text NOT NULL,
    sk text NOT NULL,
    is_new boolean NOT NULL,
    item jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The queue of webhooks. A dead one was not delivered for a day.
CREATE TABLE webhooks (
    id text PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY,
    body text NOT NULL,
    receives integer NOT NULL DEFAULT 0,
    visible_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_dead boolean NOT NULL DEFAULT false,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX ready ON webhooks (visible_at) WHERE NOT is_dead;

-- The keys of the items that `events::concerns` names.
CREATE FUNCTION note_changes() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO changes (pk, sk, is_new, item)
    SELECT pk, sk, TG_OP = 'INSERT', item FROM changed
    WHERE starts_with(sk, 'CLAIM#') OR starts_with(sk, 'WITHDRAW#')
        OR starts_with(pk, 'PACKET#') AND sk = 'META' OR starts_with(pk, 'SOLDOUT#') AND sk = 'STATE';
    RETURN NULL;
END
$$;
