-- Staging.stage, in the transaction of its rows: so many more of a part.
CREATE OR REPLACE FUNCTION stage_note(_ns text, _job text, _part text, _rows bigint, _low text, _high text)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO stage_parts AS p (ns, job, part, rows, low, high) VALUES (_ns, _job, _part, _rows, _low, _high)
    ON CONFLICT (ns, job, part) DO UPDATE
    SET rows = p.rows + excluded.rows, low = least(p.low, excluded.low), high = greatest(p.high, excluded.high)
$$
