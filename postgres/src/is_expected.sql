(
    NOT coalesce(old.item ? (given.change ->> 'absent'), false)
    AND coalesce(old.item ? (given.change ->> 'has'), true)
    AND coalesce(old.item @> (given.change -> 'is'), true)
    AND NOT EXISTS (
        SELECT FROM jsonb_each(given.change -> 'least') AS bounds (name, least)
        WHERE coalesce((old.item -> name ->> 'N')::numeric < least::numeric, true)
    )
    AND NOT EXISTS (
        SELECT FROM jsonb_each(given.change -> 'most') AS bounds (name, most)
        WHERE (old.item -> name ->> 'N')::numeric > most::numeric
    )
)
