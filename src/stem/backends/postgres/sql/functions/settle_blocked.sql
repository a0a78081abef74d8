-- Broker.settle, last step: let tasks that were settled as blocked wait for others (after: ids joined by commas). Returns a
-- prerequisite that is not known, or the task itself, if there is one; the caller rolls back then.
CREATE OR REPLACE FUNCTION settle_blocked(_ns text, _ids text, _after text, _ttl float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ids text[] := cells(_ids);
    waiting text[];
    prerequisites text[];
    entries text[];
    attached record;
    itself text;
BEGIN
    SELECT array_agg(u.id ORDER BY u.place, p.place), array_agg(p.id ORDER BY u.place, p.place),
           array_agg(u.id || ' ' || m.wait_number ORDER BY u.place, p.place)
    INTO waiting, prerequisites, entries
    FROM unnest(ids, cells(_after)) WITH ORDINALITY AS u (id, after, place)
    CROSS JOIN LATERAL (SELECT x.wait_number FROM messages x WHERE x.ns = _ns AND x.id = u.id OFFSET 0) m
    CROSS JOIN LATERAL unnest(string_to_array(u.after, ',')) WITH ORDINALITY AS p (id, place);
    IF waiting IS NOT NULL THEN
        SELECT u.id INTO itself FROM unnest(waiting, prerequisites) AS u (id, prerequisite) WHERE u.id = u.prerequisite LIMIT 1;
        IF itself IS NOT NULL THEN
            RETURN itself;
        END IF;
        attached := attach(_ns, prerequisites, entries, _ttl);
        IF attached.unknown IS NOT NULL THEN
            RETURN attached.unknown;
        END IF;
    END IF;
    PERFORM block(_ns, ids, waiting, prerequisites, true);
    RETURN NULL;
END $$
