-- History: make the planner read the index in order. Before a fresh table is analysed, it would collect and sort the rest of a
-- slice for every chunk of it.
SET LOCAL enable_bitmapscan = off
