"""Schema mark: a short text that stands for the form of all sharded tables of a database, and for their files.

A column that is added, dropped or changed gives another mark. So does another primary key, a new sharded table, and a
partition that is attached or detached. Each statement that writes all rows of a table anew gives another mark too. No
trigger sees the rows that such a statement changes. So a mover that finds another mark compares all rows again.

Refuses: to tell which part differs; `table_differences` does.
Source: https://www.postgresql.org/docs/current/sql-altertable.html#SQL-ALTERTABLE-NOTES
"""

# The trigger is on each partition too, so the table of all triggers lists the partitions. A dropped column stays in
# the catalog under its number.
SCHEMA_MARK = """SELECT md5(coalesce(string_agg(
    concat_ws(' ', c.oid, c.relfilenode, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated,
    (SELECT i.indkey FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)),
    ', ' ORDER BY c.oid, a.attnum), '')) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    AND c.oid IN (SELECT tgrelid FROM pg_trigger WHERE tgname = 'apportion_insert')"""
