-- History: read the index in its order. Before a fresh table was analysed, the planner would gather and sort the rest of a
-- slice for every chunk of it.
SET LOCAL enable_bitmapscan = off
