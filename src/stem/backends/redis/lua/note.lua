-- needs: call log
-- Events.note: log a worker's own doing, which is of no task.
-- INPUT {kind, worker, data as JSON}
log(1, INPUT.kind, NOW, '', '', '', 0, INPUT.worker, NOW, false, INPUT.data)
close_log()
flush_numbers()
return 1
