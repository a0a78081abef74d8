-- Events.note: log an event of a worker, under the number of its own transaction as every event, so that readers skip none.
INSERT INTO {s}.events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, worker, data)
SELECT %(ns)s, now, now, 0, %(kind)s, '', '', '', %(worker)s, %(data)s FROM {s}.now_seconds() AS now
