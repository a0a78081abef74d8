-- Part of push and settle: decide what becomes of tasks that have just been stored as blocked, by their prerequisites, which are
-- attached: each goes on waiting (event blocked, unless it was told), or can be claimed, or has ended. Returns those that have
-- ended; what that means for others is for carry_on. Prerequisites that have counted are struck.
-- The first array names the tasks; the others pair each of them with its prerequisites, in their order.
-- Where some have ended, the others are looked at again, because they may wait for these.
CREATE OR REPLACE FUNCTION block(_ns text, _ids text[], _waiting text[], _prerequisites text[], _is_told boolean) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _rows tid[];
    _release tid[];
    _end tid[];
    _kinds text[];
    _missing integer[];
    _errors text[];
    _ended text[] := '{}';
    _sources text[];
    _entries text[];
BEGIN
    LOOP
        _rows := ARRAY(
            SELECT m.row FROM unnest(_ids) AS u (id)
            CROSS JOIN LATERAL (SELECT x.ctid AS row FROM messages x WHERE x.ns = _ns AND x.id = u.id OFFSET 0) m
        );
        WITH mine AS MATERIALIZED (
            SELECT x.ctid AS row, x.* FROM messages x WHERE x.ctid = ANY (_rows) OFFSET 0
        ), ends AS MATERIALIZED (
            SELECT e.id, e.prerequisite, e.place, r.is_ok, r.error
            FROM unnest(_waiting, _prerequisites) WITH ORDINALITY AS e (id, prerequisite, place)
            LEFT JOIN LATERAL (
                SELECT s.is_ok, CASE WHEN NOT s.is_ok THEN prerequisite_error(x.id, x.name, x.state, x.error) END AS error
                FROM records x CROSS JOIN LATERAL (SELECT x.state = 'succeeded' OR x.passes IS TRUE AS is_ok) s
                WHERE x.ns = _ns AND x.id = e.prerequisite AND x.state IN ('succeeded', 'failed', 'cancelled') OFFSET 0
            ) r ON true
        ), counted AS MATERIALIZED (
            SELECT id, count(*) FILTER (WHERE is_ok IS NULL)::integer AS living,
                   count(*) FILTER (WHERE NOT is_ok)::integer AS failures,
                   (array_agg(error ORDER BY place) FILTER (WHERE NOT is_ok))[1] AS error
            FROM ends GROUP BY id
        ), decided AS MATERIALIZED (
            SELECT m.row, m.id, m.seq, c.error, coalesce(c.living, 0) AS living, coalesce(c.failures, 0) AS failures,
                   m.enqueued_at, m.attempt, m.name, m.queue, m.body, m.on_failure, m.id || ' ' || m.wait_number AS entry,
                   CASE WHEN c.failures > 0 AND m.on_failure = 'cancel' THEN 'C'
                        WHEN c.living > 0 AND NOT (c.failures > 0 AND m.on_failure = 'only') THEN 'B'
                        WHEN m.on_failure = 'only' AND c.failures = 0 THEN 'N'
                        WHEN m.ending IS NOT NULL THEN 'J'
                        ELSE 'R' END AS kind
            FROM mine m LEFT JOIN counted c ON c.id = m.id
        ), is_last AS MATERIALIZED (
            SELECT NOT EXISTS (SELECT FROM decided WHERE kind IN ('C', 'N', 'J')) AS it
        ), waits AS (
            UPDATE messages m SET missing = d.living FROM decided d, is_last l
            WHERE l.it AND m.ctid = ANY (_rows) AND m.ctid = d.row AND d.kind = 'B' AND m.missing <> d.living
        ), logged AS (
            INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
            SELECT _ns, _now, d.enqueued_at, d.attempt, 'blocked', d.id, d.name, d.queue,
                   event_data(d.body, json_build_object('missing', d.living)::text)
            FROM decided d, is_last l WHERE l.it AND d.kind = 'B' AND NOT _is_told ORDER BY d.seq
        )
        SELECT s.sources, s.entries, d.* INTO _sources, _entries, _release, _end, _kinds, _missing, _errors
        FROM (
            SELECT array_agg(e.prerequisite) AS sources, array_agg(d.entry) AS entries
            FROM ends e JOIN decided d ON d.id = e.id CROSS JOIN is_last l
            WHERE (e.is_ok OR NOT e.is_ok AND d.on_failure = 'run') AND (d.kind = 'C' OR d.kind = 'B' AND l.it)
        ) s, (
            SELECT array_agg(row) FILTER (WHERE kind = 'R'),
                   array_agg(row ORDER BY seq) FILTER (WHERE is_ended), array_agg(kind ORDER BY seq) FILTER (WHERE is_ended),
                   array_agg(living + failures ORDER BY seq) FILTER (WHERE is_ended),
                   array_agg(error ORDER BY seq) FILTER (WHERE is_ended)
            FROM (SELECT k.*, k.kind IN ('C', 'N', 'J') AS is_ended FROM decided k) k
        ) d;

        IF _sources IS NOT NULL THEN
            PERFORM strike(_ns, _sources, _entries);
        END IF;
        IF _end IS NULL THEN
            IF _release IS NOT NULL THEN
                PERFORM release_blocked(_ns, _release, false);
            END IF;
            RETURN _ended;
        END IF;
        _ended := _ended || end_blocked(_ns, _end, _kinds, _missing, _errors);
        _ids := ARRAY(SELECT u.id FROM unnest(_ids) AS u (id) EXCEPT SELECT e.id FROM unnest(_ended) AS e (id));
    END LOOP;
END $$
