"""`stem schedule`: list, add, change, run and preview schedules."""
