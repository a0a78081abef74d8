-- Read those of these tasks that are leased, with the fence of the holder: only the columns that a plain success needs.
SELECT t.seq, t.id, t.name, t.queue, t.state, t.attempt, l.fence, t.enqueued_at, t.started_at, t.unique_key,
    t.awaited
FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
CROSS JOIN stem_leases AS l ON l.seq = t.seq
