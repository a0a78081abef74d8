-- Part of carry_on and block: note that each of these ended tasks counts no more for the dependent that is named beside it, by an
-- entry of its dependents.
CREATE OR REPLACE FUNCTION strike(_ns text, _ids text[], _entries text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _rows tid[] := ARRAY(
        SELECT r.row FROM (SELECT DISTINCT u.id COLLATE "C" AS id FROM unnest(_ids) AS u (id) ORDER BY 1) d
        CROSS JOIN LATERAL (SELECT x.ctid AS row FROM records x WHERE x.ns = _ns AND x.id = d.id FOR UPDATE) r
    );
BEGIN
    UPDATE records r SET dependents = ARRAY(
        SELECT CASE WHEN s.entry IS NULL THEN d.entry ELSE split_part(d.entry, ' ', 1) || ' 0' END
        FROM unnest(r.dependents) WITH ORDINALITY AS d (entry, place)
        LEFT JOIN unnest(g.entries) AS s (entry) ON s.entry = d.entry ORDER BY d.place
    )
    FROM (SELECT x.ctid AS row, x.id FROM records x WHERE x.ctid = ANY (_rows) OFFSET 0) f
    JOIN (SELECT u.id, array_agg(DISTINCT u.entry) AS entries FROM unnest(_ids, _entries) AS u (id, entry) GROUP BY u.id) g
         ON g.id = f.id
    WHERE r.ctid = ANY (_rows) AND r.ctid = f.row;
END $$
