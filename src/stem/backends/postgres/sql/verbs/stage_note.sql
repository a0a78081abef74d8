-- Staging.stage, in the transaction of its rows: so many more of a part, how many of them in a slot, and whether the ids of
-- each batch come after those of the one before.
CREATE OR REPLACE FUNCTION stage_note(_ns text, _job text, _part text, _rows bigint, _slotted bigint, _low text, _high text)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO stage_parts AS p (ns, job, part, rows, slotted, low, high)
    VALUES (_ns, _job, _part, _rows, _slotted, _low, _high)
    ON CONFLICT (ns, job, part) DO UPDATE
    SET rows = p.rows + excluded.rows, slotted = p.slotted + excluded.slotted, is_rising = p.is_rising AND p.high < excluded.low,
        low = least(p.low, excluded.low), high = greatest(p.high, excluded.high)
$$
