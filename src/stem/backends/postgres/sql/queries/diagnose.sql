-- Upkeep.diagnose: read settings of the server, how long its oldest writing transaction (prepared ones included) and its oldest
-- snapshot have been open, and whether the event log holds transaction numbers from another server.
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('autovacuum'),
       greatest(
           (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
            WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()),
           (SELECT max(extract(epoch FROM clock_timestamp() - prepared))::float8 FROM pg_prepared_xacts)
       ),
       (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND backend_type = 'client backend' AND pid <> pg_backend_pid()
          AND query NOT ILIKE 'vacuum%%'),
       EXISTS (SELECT FROM {s}.events WHERE ns = %(ns)s AND txid >= pg_snapshot_xmax(pg_current_snapshot()))
