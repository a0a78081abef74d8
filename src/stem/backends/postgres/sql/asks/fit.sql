-- Whether server and schema are as this Stem needs them. If not, or if there is no schema, opening the whole store says why.
SELECT current_setting('server_encoding') = 'UTF8'
   AND current_setting('default_transaction_isolation') = 'read committed'
   AND version = %(version)s
FROM {s}.version
