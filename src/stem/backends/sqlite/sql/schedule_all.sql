-- Schedules.all and broken: by id. As bytes, because a text that is not UTF-8 would fail the whole query.
SELECT CAST(id AS BLOB), CASE typeof(revision) WHEN 'integer' THEN revision END, CAST(entry AS BLOB), CAST(state AS BLOB)
FROM stem_schedules WHERE ns = ? ORDER BY id
