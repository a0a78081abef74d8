-- Broker.purge: read the number of the last task pushed so far.
SELECT last_value FROM {s}.task_seq
