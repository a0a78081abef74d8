-- Names are kept once; every other row carries the number, so two namespaces never meet.
CREATE TABLE stem_namespaces (
    ns INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
)
