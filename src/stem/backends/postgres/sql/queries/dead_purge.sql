-- DeadLetters.purge: delete these letters; from now on retention counts for their records.
WITH gone AS (
    DELETE FROM {s}.dead d USING (
        SELECT x.id FROM {s}.dead x WHERE x.ns = %(ns)s AND x.seq = ANY (%(numbers)s) ORDER BY x.seq FOR UPDATE
    ) chosen
    WHERE d.ns = %(ns)s AND d.id = chosen.id RETURNING d.id
), ageing AS (
    UPDATE {s}.records r SET kept_from = coalesce(r.finished_at, 0) FROM gone WHERE r.ns = %(ns)s AND r.id = gone.id
)
SELECT count(*) FROM gone
