-- Tell whether anything except events has expired or is past its retention.
SELECT
    EXISTS (SELECT 1 FROM stem_tasks WHERE ns = ?1 AND ended_at <= ?3)
    OR EXISTS (SELECT 1 FROM stem_uniques WHERE ns = ?1 AND held_until <= ?2)
    OR EXISTS (SELECT 1 FROM stem_mail WHERE ns = ?1 AND expires_at <= ?2)
    OR EXISTS (SELECT 1 FROM stem_buckets WHERE ns = ?1 AND expires_at <= ?2)
    OR EXISTS (SELECT 1 FROM stem_places WHERE ns = ?1 AND expires_at <= ?2)
    OR EXISTS (SELECT 1 FROM stem_locks WHERE ns = ?1 AND held_until <= ?2)
    OR EXISTS (SELECT 1 FROM stem_heartbeats WHERE ns = ?1 AND expires_at <= ?2)
    OR EXISTS (SELECT 1 FROM stem_revokes WHERE ns = ?1 AND expires_at <= ?2)
    OR EXISTS (SELECT 1 FROM stem_stage_jobs WHERE ns = ?1 AND promoted_at <= ?3)
    OR EXISTS (SELECT 1 FROM stem_rollups WHERE ns = ?1 AND minute <= ?4)
    OR EXISTS (SELECT 1 FROM stem_task_logs WHERE ns = ?1 AND at <= ?5)
    OR EXISTS (SELECT 1 FROM stem_lost WHERE ns = ?1 AND at <= ?2 - 3600)
