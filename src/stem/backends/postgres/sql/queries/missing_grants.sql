-- Schema migration: list the grants that give every role that may use messages, except its owner, the same rights on these
-- tables, unless the role has rights there.
SELECT format('GRANT %%s ON %%I TO %%s', string_agg(g.privilege_type, ', '), t.relname, g.role)
FROM (
    SELECT grantee, privilege_type,
           CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS role
    FROM pg_class c, aclexplode(c.relacl) WHERE c.oid = '{s}.messages'::regclass AND grantee <> c.relowner
) g JOIN pg_class t ON t.relnamespace = '{s}'::regnamespace AND t.relname = ANY (%(tables)s)
WHERE NOT EXISTS (SELECT FROM aclexplode(t.relacl) a WHERE a.grantee = g.grantee)
GROUP BY t.relname, g.role
