-- Recurring schedules, and how far each has come; entry and state are JSON. due_at repeats the state's, for the index.
-- Revisions come from one sequence, so that no entry, made anew under the id of a deleted one, has a revision of the other's.
-- The sequence is the column's own: whoever may write to the table may draw from it.
CREATE TABLE IF NOT EXISTS schedules (
    ns       text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    revision bigint GENERATED ALWAYS AS IDENTITY,
    due_at   float8,
    entry    text NOT NULL,
    state    text NOT NULL,
    PRIMARY KEY (ns, id)
);
CREATE INDEX IF NOT EXISTS schedules_due ON schedules (ns, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS schedules_revision ON schedules (ns, revision)
