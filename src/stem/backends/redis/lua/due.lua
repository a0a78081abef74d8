-- needs: call due
-- Broker.wait: when may a claim on these queues find something?
-- INPUT {queues}
-- Reply: microseconds until then; 0 for now, -1 if nothing waits.
return due_in(INPUT)
