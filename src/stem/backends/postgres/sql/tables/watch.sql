-- When reclaim was last called, and since when it has been called without a gap. Nothing here need survive a crash.
CREATE UNLOGGED TABLE IF NOT EXISTS watch (
    ns      text COLLATE "C" PRIMARY KEY,
    seen_at float8 NOT NULL,
    since   float8 NOT NULL
) WITH (fillfactor = 50)
