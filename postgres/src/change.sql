(
    (
        old.item
        || coalesce(given.change -> 'set', '{}')
        || coalesce((
            SELECT jsonb_object_agg(
                name, jsonb_build_object('N', (coalesce((old.item -> name ->> 'N')::numeric, 0) + delta::numeric)::text)
            ) FROM jsonb_each(given.change -> 'add') AS adds (name, delta)
        ), '{}')
    ) - ARRAY(SELECT jsonb_array_elements_text(given.change -> 'remove'))
)
