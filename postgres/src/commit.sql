-- Each row of `given` is a write: the item that is to be new, or a change of one. A change also makes the item where none is, if it may.
-- If one of them can't be done, the statement fails, and none is.
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[], $4::jsonb[]) AS given (pk, sk, is_new, change)
),
changed AS (
    UPDATE {schema}.items AS old SET item = {change}
    FROM given WHERE NOT is_new AND old.pk = given.pk AND old.sk = given.sk AND {is_expected}
    RETURNING 1
),
made AS (
    INSERT INTO {schema}.items (pk, sk, item)
    SELECT * FROM (
        SELECT pk, sk, change FROM given WHERE is_new
        UNION ALL
        SELECT pk, sk, {change} FROM given, (VALUES ('{}'::jsonb)) AS old (item)
        WHERE NOT is_new AND {is_expected}
        AND NOT EXISTS (SELECT FROM {schema}.items WHERE items.pk = given.pk AND items.sk = given.sk)
    ) AS made (pk, sk, item)
    ORDER BY pk, sk
    RETURNING 1
)
SELECT 1 / ((SELECT count(*) FROM made) + (SELECT count(*) FROM changed) = cardinality($1))::int
