"""Reads the timeline of a server. Any role may read it.

`pg_control_checkpoint()` still names the old timeline for a while after a promotion. So the number comes from the name
of the file of the log that the server writes to.
Source: https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-BACKUP
"""

from sqlalchemy import Connection

from apportion.shards.timeline.timeline import Timeline

NUMBER = "CASE WHEN pg_is_in_recovery() THEN '0' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END"
"""The number of the timeline, in hexadecimal. `0` on a standby. It costs some microseconds."""

TIMELINE = f"(SELECT system_identifier FROM pg_control_system())::text, {NUMBER}"  # noqa: S608 - ours
"""The cluster and the number of the timeline. The server reads a file for it."""


def timeline_in(cluster: str, number: str) -> Timeline:
    """Return the timeline from the two columns of `TIMELINE`."""
    return Timeline(cluster=cluster, number=int(number, 16))


def timeline_of(connection: Connection) -> Timeline:
    """Return the timeline of the server behind a connection."""
    cluster, number = connection.exec_driver_sql(f"SELECT {TIMELINE}").one()
    return timeline_in(cluster, number)
