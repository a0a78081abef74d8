-- Part of every ending: keep the records of tasks that have ended. They replace a record that was saved during the push.
CREATE OR REPLACE FUNCTION file_records(_ended records[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO records SELECT e.* FROM unnest(_ended) AS e
    ON CONFLICT (id, ns) DO UPDATE
    SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
        updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
        heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
        priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
        worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
        meta = excluded.meta, dependents = excluded.dependents, is_join = excluded.is_join, passes = excluded.passes;
END $$
