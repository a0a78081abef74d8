"""Make, migrate, diagnose and prune the schema of a Postgres store."""
