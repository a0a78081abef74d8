-- List the tables with Stem's prefix, so that tables of others are left alone.
SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'stem_*'
