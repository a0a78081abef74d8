-- Read the number of a job's last push.
SELECT coalesce(max(number), 0) FROM beside.rows
