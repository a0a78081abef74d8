-- Part of push and settle: note for each of these prerequisites, given by id, that the task of the entry beside it waits for it.
-- They are locked until the transaction ends, so that their ends wait for it, and are as they were when it looks at them. Returns
-- one that is not known, if there is one, and whether any has ended.
-- Living tasks are looked up first, then records, in a later snapshot: one that ends in between is found there. A dead letter may
-- be replayed in between: then it is looked for again.
CREATE OR REPLACE FUNCTION attach(
    _ns text, _ids text[], _entries text[], _ttl float8, OUT unknown text, OUT has_ended boolean
) LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _ttl;
    _left text[] := ARRAY(SELECT DISTINCT u.id COLLATE "C" AS id FROM unnest(_ids) AS u (id) ORDER BY 1);
    _rows tid[];
    _found text[];
BEGIN
    has_ended := false;
    FOR _try IN 1 .. 3 LOOP
        _rows := ARRAY(
            SELECT m.row FROM unnest(_left) AS u (id) CROSS JOIN LATERAL (
                SELECT x.ctid AS row FROM messages x WHERE x.ns = _ns AND x.id = u.id FOR UPDATE
            ) m
        );
        WITH added AS (
            UPDATE messages m SET dependents = coalesce(m.dependents, '{}') || g.entries
            FROM (SELECT x.ctid AS row, x.id FROM messages x WHERE x.ctid = ANY (_rows) OFFSET 0) f
            JOIN (SELECT u.id, array_agg(u.entry) AS entries FROM unnest(_ids, _entries) AS u (id, entry) GROUP BY u.id) g
                 ON g.id = f.id
            WHERE m.ctid = ANY (_rows) AND m.ctid = f.row RETURNING m.id
        )
        SELECT array_agg(id) INTO _found FROM added;
        _left := ARRAY(SELECT u.id FROM unnest(_left) AS u (id) EXCEPT SELECT f.id FROM unnest(_found) AS f (id) ORDER BY 1);
        EXIT WHEN _left = '{}';

        _rows := ARRAY(
            SELECT r.row FROM unnest(_left) AS u (id) CROSS JOIN LATERAL (
                SELECT x.ctid AS row FROM records x
                WHERE x.ns = _ns AND x.id = u.id AND x.state IN ('succeeded', 'failed', 'cancelled')
                  AND (x.kept_from IS NULL OR least(x.kept_from, x.finished_at) > _horizon OR needed(_ns, x.dependents))
                FOR UPDATE
            ) r
        );
        WITH added AS (
            UPDATE records m SET dependents = coalesce(m.dependents, '{}') || g.entries
            FROM (SELECT x.ctid AS row, x.id FROM records x WHERE x.ctid = ANY (_rows) OFFSET 0) f
            JOIN (SELECT u.id, array_agg(u.entry) AS entries FROM unnest(_ids, _entries) AS u (id, entry) GROUP BY u.id) g
                 ON g.id = f.id
            WHERE m.ctid = ANY (_rows) AND m.ctid = f.row RETURNING m.id
        )
        SELECT array_agg(id) INTO _found FROM added;
        has_ended := has_ended OR _found IS NOT NULL;
        _left := ARRAY(SELECT u.id FROM unnest(_left) AS u (id) EXCEPT SELECT f.id FROM unnest(_found) AS f (id) ORDER BY 1);
        EXIT WHEN _left = '{}';
    END LOOP;
    unknown := _left[1];
END $$
