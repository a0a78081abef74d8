-- Upkeep.now: read the store's clock.
SELECT {s}.now_seconds()
