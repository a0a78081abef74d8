-- Part of Broker.cancel and purge: end these rows, which are locked and wait; logs the event revoked. Returns their ids.
CREATE OR REPLACE FUNCTION cancel_rows(_ns text, _rows tid[], _reason text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN end_waiting(
        _ns, _rows, 'revoked',
        json_build_object('type', 'Cancelled', 'message', _reason, 'stack', '', 'retryable', false)::text,
        json_build_object('reason', _reason)::text
    );
END $$
