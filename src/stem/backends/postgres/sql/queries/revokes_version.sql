-- Revokes.version: read the highest version ever given.
SELECT version FROM {s}.revoke_versions WHERE ns = %(ns)s
