-- TaskLogs.append: store lines, in their order.
INSERT INTO {s}.task_logs (ns, id, at, body)
SELECT %(ns)s, id, {s}.now_seconds(), body
FROM unnest(%(ids)s::text[], %(bodies)s::text[]) WITH ORDINALITY AS given (id, body, place) ORDER BY place
