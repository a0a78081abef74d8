-- Broker.settle for successes as processes of versions before 17 call it; see settle.
CREATE OR REPLACE FUNCTION settle_done(
    _ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text
) RETURNS integer[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT s.held_places FROM settle_successes(_ns, _worker, _ids, _fences, _runs, _payloads, _metas, _progress, false) s);
END $$
