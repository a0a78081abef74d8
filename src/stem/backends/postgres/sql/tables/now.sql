-- The store's clock, in seconds since 1970.
CREATE FUNCTION now_seconds() RETURNS float8 LANGUAGE sql VOLATILE PARALLEL SAFE
AS 'SELECT extract(epoch FROM clock_timestamp())::float8'
