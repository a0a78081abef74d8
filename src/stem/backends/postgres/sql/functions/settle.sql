-- Broker.settle as processes of versions before 17 call it. What it releases is found by the slow poll of waiting workers.
CREATE OR REPLACE FUNCTION settle(
    _ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text,
    _kinds text, _delays text, _errors text, _reasons text, _letters text, _data text
) RETURNS integer[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT s.held_places FROM settle_mixed(_ns, _worker, _ids, _fences, _runs, _payloads, _metas, _progress,
                                                   _kinds, _delays, _errors, _reasons, _letters, _data, '', false) s);
END $$
