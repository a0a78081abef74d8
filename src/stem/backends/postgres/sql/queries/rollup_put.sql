-- Rollups.put: replace the rows of the same minute and key, where they changed.
INSERT INTO {s}.rollups AS r (ns, minute, digest, body)
SELECT %(ns)s, minute, digest, body
FROM unnest(%(minutes)s::bigint[], %(digests)s::text[], %(bodies)s::text[]) AS given (minute, digest, body)
ON CONFLICT (ns, minute, digest) DO UPDATE SET body = excluded.body WHERE r.body <> excluded.body
