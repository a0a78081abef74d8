-- needs: call revokes
-- Revokes.prune, one step: delete exactly the expired records.
-- INPUT {limit}
-- Reply: how many were deleted.
return drop_expired_revokes(INPUT.limit)
