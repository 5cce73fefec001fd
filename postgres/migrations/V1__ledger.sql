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
