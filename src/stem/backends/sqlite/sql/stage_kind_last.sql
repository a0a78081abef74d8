-- Read the number of a job's last kind.
SELECT coalesce(max(number), 0) FROM kinds
