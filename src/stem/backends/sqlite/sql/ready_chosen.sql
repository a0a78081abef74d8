-- Read the tasks at these places (rank, number, queue), in the order given.
SELECT
    json_extract(place.value, '$[0]'), t.seq, json_extract(place.value, '$[2]'), t.id, t.name, t.queue, t.priority,
    t.attempt, t.deaths, t.visibility_timeout, t.expires_at, t.body
FROM json_each(?) AS place
CROSS JOIN stem_tasks AS t ON t.seq = json_extract(place.value, '$[1]')
ORDER BY place.key
