-- needs: call log
-- Events.note: log an event of a worker, which concerns no task.
-- INPUT {kind, worker, data as JSON}
log(1, INPUT.kind, NOW, '', '', '', 0, INPUT.worker, NOW, false, INPUT.data)
close_log()
flush_numbers()
return 1
