"""The pure decisions: where a call goes, when it may start, what becomes of an attempt, how many isolates run."""
