-- Delete a row of the log whose events are all past the count or age that the log keeps.
DELETE FROM stem_events WHERE seq = ?
