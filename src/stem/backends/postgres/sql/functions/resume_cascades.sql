-- Part of Broker.reclaim: go on cancelling what waits for failed tasks, where one call left too much. Returns what carry_on tells:
-- an id, or a queue, per row. A task that has been replayed meanwhile has no failure to tell of any more.
CREATE OR REPLACE FUNCTION resume_cascades(_ns text) RETURNS TABLE (id text, queue text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _failed text[];
    _told record;
BEGIN
    WITH taken AS (
        DELETE FROM cascades c WHERE c.ctid = ANY (ARRAY(
            SELECT x.ctid FROM cascades x WHERE x.ns = _ns ORDER BY x.id LIMIT 5000 FOR UPDATE SKIP LOCKED
        )) RETURNING c.id
    )
    SELECT array_agg(t.id) INTO _failed FROM taken t;
    _failed := ARRAY(
        SELECT r.id FROM unnest(_failed) AS u (id) CROSS JOIN LATERAL (
            SELECT x.id FROM records x
            WHERE x.ns = _ns AND x.id = u.id AND x.state IN ('failed', 'cancelled') AND x.passes IS NOT TRUE
            FOR UPDATE
        ) r
    );
    _told := carry_on(_ns, _failed);
    RETURN QUERY SELECT e.id, NULL FROM unnest(_told.told_ended) AS e (id);
    RETURN QUERY SELECT NULL, q.name FROM unnest(_told.told_queues) AS q (name);
END $$
