-- Part of Broker.reclaim: tell whether it has been called for the grace without a gap; core/decisions/reclaim_watch.py explains why.
-- Writes only while a task is leased.
CREATE OR REPLACE FUNCTION watched(_ns text, _now float8, _grace float8) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _since float8;
BEGIN
    IF NOT EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.place = 2) THEN
        RETURN false;
    END IF;
    INSERT INTO watch AS w (ns, seen_at, since) VALUES (_ns, _now, _now)
    ON CONFLICT (ns) DO UPDATE
    SET seen_at = _now,
        since = CASE WHEN _now - w.seen_at > _grace OR w.since > _now THEN _now ELSE w.since END
    RETURNING w.since INTO _since;
    RETURN _now - _since >= _grace;
END $$
