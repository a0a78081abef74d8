-- Rate limits: the tokens left in each bucket that is not full, and how long from then on tokens are promised. key is a JSON
-- string.
-- expires_at moves in steps, so that most updates touch no index and leave nothing to vacuum.
CREATE TABLE IF NOT EXISTS buckets (
    ns               text COLLATE "C" NOT NULL,
    key              text COLLATE "C" NOT NULL,
    tokens           float8 NOT NULL,
    promised_seconds float8 NOT NULL,
    pace_seconds     float8 NOT NULL,
    updated_at       float8 NOT NULL,
    expires_at       float8 NOT NULL,
    PRIMARY KEY (ns, key)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS buckets_expiry ON buckets (ns, expires_at)
