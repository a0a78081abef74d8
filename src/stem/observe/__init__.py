"""The questions that command line, dashboard and health checks ask of a store, one per file. They only read."""
