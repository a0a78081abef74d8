-- To version 17: tasks may wait for others, or for an event, and pushes may supersede others.
ALTER TABLE messages
    ADD COLUMN IF NOT EXISTS dependents text[],
    ADD COLUMN IF NOT EXISTS missing integer,
    ADD COLUMN IF NOT EXISTS wait_number bigint,
    ADD COLUMN IF NOT EXISTS on_failure text COLLATE "C",
    ADD COLUMN IF NOT EXISTS ending text,
    ADD COLUMN IF NOT EXISTS release_delay float8,
    ADD COLUMN IF NOT EXISTS awaited_event text;
CREATE INDEX IF NOT EXISTS messages_blocked ON messages (ns, queue, seq) WHERE place = 3;
ALTER TABLE records
    ADD COLUMN IF NOT EXISTS dependents text[],
    ADD COLUMN IF NOT EXISTS is_join boolean,
    ADD COLUMN IF NOT EXISTS passes boolean;
ALTER TABLE uniques ADD COLUMN IF NOT EXISTS since float8
