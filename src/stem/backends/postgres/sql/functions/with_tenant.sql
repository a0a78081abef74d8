-- Part of event_data: add the tenant of a body. An unreadable body has no tenant; its task soon becomes a dead letter.
CREATE OR REPLACE FUNCTION with_tenant(_body text, _data text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    _tenant text := nullif(_body::json #>> '{headers,tenant}', '');
BEGIN
    RETURN CASE WHEN _tenant IS NULL THEN _data
                WHEN _data IS NULL OR _data = '{}' THEN json_build_object('tenant', _tenant)::text
                ELSE left(_data, -1) || ',"tenant":' || to_json(_tenant) || '}' END;
EXCEPTION WHEN data_exception THEN
    RETURN _data;
END $$
