-- Upkeep.now: the store's clock.
SELECT {s}.now_seconds()
