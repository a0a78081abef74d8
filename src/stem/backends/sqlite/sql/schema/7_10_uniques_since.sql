-- When the series of pushes that superseded each other began; NULL in rows of earlier versions.
ALTER TABLE stem_uniques ADD COLUMN since REAL
