-- Part of everything that ends tasks: carry the ends of these to the tasks that wait for them, and the ends of those further on, one
-- generation after the other; core/prerequisites.py says what an end means. Returns the queues of tasks that were released, and
-- the ids of tasks that have ended.
-- More than _limit cancellations are left for reclaim: what is still to be told of a failure is told again then, and does nothing
-- twice, because what was counted for a failed task is struck from its dependents. An end must not be carried on twice otherwise.
-- Dependents are locked in the order of their ids, as in every batch; a row that somebody else holds is waited for.
CREATE OR REPLACE FUNCTION carry_on(
    _ns text, _ids text[], _limit integer DEFAULT 5000, OUT told_queues text[], OUT told_ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    _ended text[] := _ids;
    _left integer := _limit;
    _sources text[];
    _oks boolean[];
    _errors text[];
    _entries text[];
    _rows tid[];
    _release tid[];
    _end tid[];
    _kinds text[];
    _missing integer[];
    _causes text[];
    _counted text[];
    _met text[];
    _else text[];
    _late text[];
    _cancelled integer;
    _back record;
BEGIN
    told_queues := '{}';
    told_ended := '{}';
    WHILE _ended <> '{}' LOOP
        SELECT array_agg(r.id ORDER BY u.place, d.place), array_agg(r.is_ok ORDER BY u.place, d.place),
               array_agg(r.error ORDER BY u.place, d.place), array_agg(d.entry ORDER BY u.place, d.place)
        INTO _sources, _oks, _errors, _entries
        FROM unnest(_ended) WITH ORDINALITY AS u (id, place) CROSS JOIN LATERAL (
            SELECT x.id, x.dependents, s.is_ok,
                   CASE WHEN NOT s.is_ok THEN prerequisite_error(x.id, x.name, x.state, x.error) END AS error
            FROM records x CROSS JOIN LATERAL (SELECT x.state = 'succeeded' OR x.passes IS TRUE AS is_ok) s
            WHERE x.ns = _ns AND x.id = u.id AND x.dependents IS NOT NULL AND x.state IN ('succeeded', 'failed', 'cancelled')
            OFFSET 0
        ) r CROSS JOIN LATERAL unnest(r.dependents) WITH ORDINALITY AS d (entry, place)
        WHERE right(d.entry, 2) <> ' 0';
        EXIT WHEN _entries IS NULL;

        _rows := ARRAY(
            SELECT m.row FROM (SELECT DISTINCT d.entry COLLATE "C" AS entry FROM unnest(_entries) AS d (entry) ORDER BY 1) u
            CROSS JOIN LATERAL (
                SELECT x.ctid AS row FROM messages x
                WHERE x.ns = _ns AND x.id = split_part(u.entry, ' ', 1) AND x.wait_number = split_part(u.entry, ' ', 2)::bigint
                FOR UPDATE
            ) m
        );
        _ended := '{}';
        _met := '{}';
        IF _rows <> '{}' THEN
            WITH told AS MATERIALIZED (
                SELECT d.entry, count(*) FILTER (WHERE d.is_ok)::integer AS successes, count(*)::integer AS ends,
                       bool_or(NOT d.is_ok) AS has_failed,
                       (array_agg(d.error ORDER BY d.place) FILTER (WHERE NOT d.is_ok))[1] AS error, min(d.place) AS place
                FROM unnest(_oks, _errors, _entries) WITH ORDINALITY AS d (is_ok, error, entry, place) GROUP BY d.entry
            ), met AS MATERIALIZED (
                SELECT m.row, t.entry, t.error, t.place, m.on_failure, m.ending, t.has_failed,
                       m.missing - CASE m.on_failure WHEN 'run' THEN t.ends ELSE t.successes END AS missing
                FROM (SELECT x.ctid AS row, x.id, x.wait_number, x.missing, x.on_failure, x.ending
                      FROM messages x WHERE x.ctid = ANY (_rows) OFFSET 0) m
                JOIN told t ON t.entry = m.id || ' ' || m.wait_number
            ), decided AS MATERIALIZED (
                SELECT k.*, row_number() OVER (PARTITION BY k.kind = 'C' ORDER BY k.place) AS rank FROM (
                    SELECT met.*, CASE
                        WHEN has_failed AND on_failure = 'cancel' THEN 'C'
                        WHEN missing > 0 AND NOT (has_failed AND on_failure = 'only') THEN 'L'
                        WHEN on_failure = 'only' AND NOT has_failed THEN 'N'
                        WHEN ending IS NOT NULL THEN 'J'
                        ELSE 'R' END AS kind
                    FROM met
                ) k
            ), lowered AS (
                UPDATE messages m SET missing = d.missing FROM decided d
                WHERE m.ctid = ANY (_rows) AND m.ctid = d.row AND (d.kind = 'L' OR d.kind = 'C' AND d.rank > _left)
            )
            SELECT array_agg(row) FILTER (WHERE kind = 'R'),
                   array_agg(row ORDER BY place) FILTER (WHERE is_ended), array_agg(kind ORDER BY place) FILTER (WHERE is_ended),
                   array_agg(missing ORDER BY place) FILTER (WHERE is_ended),
                   array_agg(error ORDER BY place) FILTER (WHERE is_ended),
                   array_agg(entry) FILTER (WHERE on_failure = 'run'), array_agg(entry) FILTER (WHERE kind = 'C' AND rank > _left),
                   count(*) FILTER (WHERE kind = 'C' AND is_ended), array_agg(entry)
            INTO _release, _end, _kinds, _missing, _causes, _counted, _late, _cancelled, _met
            FROM (SELECT d.*, kind IN ('J', 'N') OR kind = 'C' AND rank <= _left AS is_ended FROM decided d) d;
            _left := _left - _cancelled;

            IF _release IS NOT NULL THEN
                told_queues := told_queues || release_blocked(_ns, _release, true);
            END IF;
            IF _end IS NOT NULL THEN
                _ended := end_blocked(_ns, _end, _kinds, _missing, _causes);
            END IF;
            IF _counted IS NOT NULL AND false = ANY (_oks) THEN
                PERFORM strike(_ns, array_agg(s.id), array_agg(s.entry))
                FROM unnest(_sources, _oks, _entries) AS s (id, is_ok, entry)
                JOIN unnest(_counted) AS c (entry) ON c.entry = s.entry WHERE NOT s.is_ok;
            END IF;
            IF _late IS NOT NULL THEN
                INSERT INTO cascades (ns, id)
                SELECT DISTINCT _ns, s.id FROM unnest(_sources, _oks, _entries) AS s (id, is_ok, entry)
                WHERE NOT s.is_ok AND s.entry = ANY (_late) ON CONFLICT (ns, id) DO NOTHING;
            END IF;
        END IF;

        IF true = ANY (_oks) THEN
            _else := ARRAY(
                SELECT s.entry FROM unnest(_oks, _entries) AS s (is_ok, entry)
                WHERE s.is_ok AND NOT EXISTS (SELECT FROM unnest(_met) AS m (entry) WHERE m.entry = s.entry)
            );
            IF _else <> '{}' THEN
                _back := count_revivable(_ns, _else);
                told_queues := told_queues || coalesce(_back.queues, '{}');
                _ended := _ended || coalesce(_back.joined, '{}');
            END IF;
        END IF;
        told_ended := told_ended || _ended;
    END LOOP;
END $$
