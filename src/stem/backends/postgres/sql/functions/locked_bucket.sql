-- Return the bucket's row, locked until the transaction ends; a missing bucket is created full.
CREATE OR REPLACE FUNCTION locked_bucket(_ns text, _key text, _pace float8, _burst float8)
RETURNS buckets LANGUAGE plpgsql AS $$
DECLARE
    bucket buckets%ROWTYPE;
BEGIN
    LOOP
        SELECT * INTO bucket FROM buckets b WHERE b.ns = _ns AND b.key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        -- Another may make it first, or prune it in between: then look again.
        INSERT INTO buckets (ns, key, tokens, promised_seconds, pace_seconds, updated_at, expires_at)
        VALUES (_ns, _key, _burst, 0, _pace, now_seconds(), 0)
        ON CONFLICT (ns, key) DO NOTHING RETURNING * INTO bucket;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN bucket;
END $$
