"""The store in Postgres, for fleets: 13 or later, also behind a transaction-mode pooler."""
