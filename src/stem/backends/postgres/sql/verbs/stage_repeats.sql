-- Staging.promote: whether an id may be staged more than once in these parts, as far as the order of their batches tells.
CREATE OR REPLACE FUNCTION stage_repeats(_ns text, _job text, _parts text[]) RETURNS boolean LANGUAGE sql AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT p.is_rising, p.low,
                   max(p.high) OVER (ORDER BY p.low ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM stage_parts p WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts)
        ) ranges
        WHERE NOT ranges.is_rising OR ranges.low <= ranges.before
    )
$$
