"""Reports and failure triage from the lake."""
