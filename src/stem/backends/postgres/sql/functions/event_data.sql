-- Part of everything that writes events: return the data of an event, with the tenant of the call unless the data names one.
-- The tenant is read only from the few bodies that may name one.
CREATE OR REPLACE FUNCTION event_data(_body text, _data text DEFAULT NULL) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(_body, '"tenant"') = 0 OR strpos(_data, '"tenant":') > 0 THEN _data
                ELSE with_tenant(_body, _data) END
$$
