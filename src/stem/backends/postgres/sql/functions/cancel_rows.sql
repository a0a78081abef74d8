-- Part of Broker.cancel, purge and push: end these rows, which are locked; logs the event revoked. Returns what end_waiting does.
CREATE OR REPLACE FUNCTION cancel_rows(_ns text, _rows tid[], _reason text, OUT ids text[], OUT awaited text[])
LANGUAGE plpgsql AS $$
DECLARE
    _gone record;
BEGIN
    _gone := end_waiting(
        _ns, _rows, 'revoked',
        json_build_object('type', 'Cancelled', 'message', _reason, 'stack', '', 'retryable', false)::text,
        json_build_object('reason', _reason)::text
    );
    ids := _gone.ids;
    awaited := _gone.awaited;
END $$
