-- Tables of our prefix, so that those of somebody else are left alone.
SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'stem_*'
