-- Opening a store: find what Stem would execute with its own rights although a role that it has no reason to trust owns it or
-- may add to it: the schema and all in it, triggers on its tables, the right to add to it, and objects on the search path with
-- the name of a built-in one. Trusted are Stem's role, the roles it is a member of, superusers, and those that
-- STEM_POSTGRES_OWNERS names. Nothing here can be shadowed: all names are qualified, and all operators match a built-in one
-- exactly.
WITH RECURSIVE mine (oid) AS (
    SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN mine ON m.member = mine.oid
), named (oid) AS (
    SELECT oid FROM mine
    UNION
    SELECT r.oid FROM pg_catalog.pg_roles r
    WHERE r.rolsuper OR r.rolname = ANY (pg_catalog.string_to_array(%(owners)s, ',')::name[])
), trusted (oid) AS (
    SELECT oid FROM named
    UNION  -- the role that stands for whoever owns the database, if that is one of those above
    SELECT r.oid FROM pg_catalog.pg_roles r, pg_catalog.pg_database d JOIN named ON named.oid = d.datdba
    WHERE r.rolname = 'pg_database_owner'::name AND d.datname = pg_catalog.current_database()
), ours (oid) AS (
    SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = %(schema)s::name
), beside (oid) AS (
    SELECT n.oid FROM pg_catalog.pg_namespace n
    WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> %(schema)s::name
      AND n.nspname <> 'pg_catalog'::name
), found (what, name, owner) AS (
    SELECT 'schema', n.nspname, n.nspowner FROM pg_catalog.pg_namespace n JOIN ours ON n.oid = ours.oid
    UNION ALL
    SELECT 'right to create', n.nspname, a.grantee
    FROM ours JOIN pg_catalog.pg_namespace n ON n.oid = ours.oid, pg_catalog.aclexplode(n.nspacl) a
    WHERE a.privilege_type = 'CREATE'::text AND a.grantee = 0::oid
    UNION ALL
    SELECT 'table', c.relname, c.relowner FROM pg_catalog.pg_class c JOIN ours ON c.relnamespace = ours.oid
    UNION ALL
    SELECT 'function', p.proname, p.proowner FROM pg_catalog.pg_proc p JOIN ours ON p.pronamespace = ours.oid
    UNION ALL
    SELECT 'operator', o.oprname, o.oprowner FROM pg_catalog.pg_operator o JOIN ours ON o.oprnamespace = ours.oid
    UNION ALL
    SELECT 'trigger', t.tgname, p.proowner
    FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN ours ON c.relnamespace = ours.oid
    JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
    WHERE NOT t.tgisinternal
    UNION ALL
    SELECT 'function', p.proname, p.proowner FROM pg_catalog.pg_proc p JOIN beside ON p.pronamespace = beside.oid
    WHERE EXISTS (
        SELECT FROM pg_catalog.pg_proc b WHERE b.proname = p.proname AND b.pronamespace = 'pg_catalog'::regnamespace::oid
    ) AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_proc'::regclass::oid AND d.objid = p.oid AND d.deptype = 'e'::"char"
    )
    UNION ALL
    SELECT 'operator', o.oprname, o.oprowner FROM pg_catalog.pg_operator o JOIN beside ON o.oprnamespace = beside.oid
    WHERE NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_operator'::regclass::oid AND d.objid = o.oid AND d.deptype = 'e'::"char"
    )
    UNION ALL
    SELECT 'right to create', n.nspname, a.grantee
    FROM ours JOIN pg_catalog.pg_namespace n ON n.oid = ours.oid, pg_catalog.aclexplode(n.nspacl) a
    WHERE a.privilege_type = 'CREATE'::text AND a.grantee <> 0::oid
)
SELECT what, name::text, CASE WHEN owner <> 0::oid THEN pg_catalog.pg_get_userbyid(owner)::text END FROM found
WHERE NOT EXISTS (SELECT FROM trusted WHERE trusted.oid = found.owner) LIMIT 1
