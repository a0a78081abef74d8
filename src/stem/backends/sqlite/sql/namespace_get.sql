-- Read the number of a namespace.
SELECT ns FROM stem_namespaces WHERE name = ?
