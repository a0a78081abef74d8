"""Store everything in Postgres, for fleets: version 13 or later, also behind a transaction-mode pooler."""
