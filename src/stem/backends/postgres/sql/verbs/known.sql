-- Which of these ids, just stored in messages, an ended task has, or one in a table below messages.
CREATE OR REPLACE FUNCTION known(_ns text, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _known text[] := (SELECT array_agg(r.id) FROM records r WHERE r.ns = _ns AND r.id = ANY (_ids));
BEGIN
    IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass) THEN
        RETURN _known || (SELECT array_agg(m.id) FROM messages m
                          WHERE m.ns = _ns AND m.id = ANY (_ids) AND m.tableoid <> 'messages'::regclass);
    END IF;
    RETURN _known;
END $$
