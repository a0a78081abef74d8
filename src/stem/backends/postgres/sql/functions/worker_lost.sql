-- Part of Broker.reclaim: return the error of a task whose worker died: in full for record and dead letter, in short for events.
CREATE OR REPLACE FUNCTION worker_lost(_worker text, _is_whole boolean) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN _is_whole
        THEN json_build_object('type', 'WorkerLost', 'message', message, 'stack', '', 'retryable', true)::text
        ELSE json_build_object('type', 'WorkerLost', 'message', left(message, 500), 'retryable', true)::text END
    FROM (SELECT format('Worker %s was lost while it ran the task.', coalesce(_worker, 'None')) AS message) m
$$
