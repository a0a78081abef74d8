-- The holders of a limited number of places per key. Whoever counts the holders of a key has locked its row in places.
-- key and holder are JSON strings.
CREATE TABLE IF NOT EXISTS places (
    ns         text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    expires_at float8 NOT NULL,
    PRIMARY KEY (ns, key)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS places_expiry ON places (ns, expires_at);
CREATE TABLE IF NOT EXISTS holders (
    ns         text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    holder     text COLLATE "C" NOT NULL,
    expires_at float8 NOT NULL,
    PRIMARY KEY (ns, key, holder)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS holders_expiry ON holders (ns, expires_at)
