-- needs: call revokes
-- Revokes.prune, one step: drop exactly the expired.
-- INPUT {limit}
-- Reply: how many went.
return drop_expired_marks(INPUT.limit)
