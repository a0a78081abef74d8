-- needs: call due
-- Broker.wait: tell when a claim on these queues may find a task.
-- INPUT {queues}
-- Reply: microseconds until then; 0 for now, -1 if no task waits.
return due_in(INPUT)
