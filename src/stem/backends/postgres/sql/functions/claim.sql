-- claim_with_priority without the priority, for workers of the version before: they go on after a newer one has migrated the
-- schema, and know this name and these columns.
CREATE OR REPLACE FUNCTION claim(_ns text, _queues text[], _limit integer, _seconds float8)
RETURNS TABLE (id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text)
LANGUAGE sql AS $$
    SELECT c.id, c.fence, c.name, c.queue, c.attempt, c.deaths, c.body FROM claim_with_priority(_ns, _queues, _limit, _seconds) c
$$
