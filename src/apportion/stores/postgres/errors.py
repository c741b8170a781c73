"""The errors of a PostgreSQL server or its driver, as errors of this package.

Refuses: to pass on the driver's own text, which may echo parts of a URL. An unknown error is named by its class.
Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from apportion.errors import ApportionError, StoreDenied, StoreUnavailable

_GRANTS = "apportion store grants URL --user NAME"
MAKE_SCHEMA = f"With the right to create it, run: apportion store upgrade URL; then the statements of: {_GRANTS}"
_SCARCE = "Nothing was changed. Free resources of the server, then try again."
_WAIT = "Nothing was changed. Try again in a moment."
_TLS = "Check sslmode, sslrootcert, sslcert and sslkey of the URL, and the name in the server's certificate."

# The answer to a statement, by its code or the class (two characters) of its code.
_CODES = {
    "3F000": ("its schema does not exist", MAKE_SCHEMA),
    "42P01": ("its tables do not exist", MAKE_SCHEMA),
    "42883": ("its functions do not exist", MAKE_SCHEMA),
    "25006": (
        "the server, or a setting of this user, allows no writes",
        "Name the primary in the URL, or check the setting transaction_read_only.",
    ),
    "53100": ("the server's disk is full", _SCARCE),
    "53200": ("the server is out of memory", _SCARCE),
    "53": ("the server lacks a resource", _SCARCE),
    "40": ("other transactions conflicted with each try", _WAIT),
    "55P03": ("another transaction held a lock for too long", _WAIT),
    "57014": ("the request took too long and was cancelled", _WAIT),
    "57": ("the server is starting or stopping", _WAIT),
    "58": ("the server could not write or read its files", "See the server's log."),
    "XX": ("the server reports damage", "See the server's log; restore a copy, then: apportion store restored URL"),
}

# The causes of a failed connect, by words of the message, because the driver gives no code. Messages in other
# languages than English are recognized less well. The words of TLS come last, because the name of a host may contain
# them. The word `certificate` counts only beside a blank, which the name of a host never has.
_DENIALS = (
    (("password authentication failed",), "it refuses this user or password", "Check both in the URL."),
    (
        ("no password supplied", "fe_sendauth"),
        "it requires a password, and the URL has none",
        "Write user:password@host",
    ),
    (
        ("no pg_hba.conf entry", "authentication failed"),
        "it does not accept this user from this host",
        "Check pg_hba.conf on the server.",
    ),
    (("role", "does not exist"), "it has no such user", "Check the user in the URL."),
    (("not permitted to log in",), "this user may not log in", "ALTER ROLE … LOGIN"),
    (("permission denied for database",), "this user may not connect to it", "GRANT CONNECT ON DATABASE … TO …"),
    ((" certificate", "certificate ", "unknown ca"), "TLS failed: a certificate is not trusted", _TLS),
)
_WORDS = (
    (("database", "does not exist"), "it has no such database", "Check its name in the URL, or run: createdb NAME"),
    (("starting up", "shutting down", "recovery"), "the server is starting or stopping", _WAIT),
    (("too many", "connection slots"), "the server has no connection left", "Raise max_connections, or use a pooler."),
    (("read-only", "standby"), "no host of the URL is a primary", "Name the primary, or all hosts."),
    (
        ("resolve", "translate host name", "Name or service"),
        "the host's name is not known",
        "Check the host in the URL.",
    ),
    (("timeout", "timed out"), "no server answered in time", "Check host and port, and the firewalls on the way."),
    (
        ("refused", "No such file", "closed", "reset"),
        "no server listens there",
        "Check host and port; start the server.",
    ),
    (("SSL", "ssl"), "TLS failed", _TLS),
)
_EVERY = {"does not exist"}
_OF_TABLES = ("3F000", "42P01", "42883")


class ValueRefused(StoreUnavailable):
    """The server refused a value out of its range: a row is damaged."""


class TablesAbsent(StoreUnavailable):
    """The schema, its tables or its functions do not exist: an older copy was restored, or they were dropped."""


def refusal(store: str, code: str | None, kind: str) -> ApportionError:
    """Return the error for a statement that surely had no effect, from the code of the server's answer."""
    code = code or ""
    if code == "42501":
        return StoreDenied(store, "this user lacks rights on it", f"Run the statements of: {_GRANTS}")
    if code[:2] == "22":
        return ValueRefused(store, f"it answered {kind} ({code})")
    known = _CODES.get(code) or _CODES.get(code[:2])
    if known is not None and code in _OF_TABLES:
        return TablesAbsent(store, *known)
    if known is None:
        return StoreUnavailable(store, f"it answered {kind} ({code or 'without a code'})")
    return StoreUnavailable(store, *known)


def unreachable(store: str, said: str, kind: str) -> ApportionError:
    """Return the error for a failed connect, from the driver's message."""
    for table, error in ((_DENIALS, StoreDenied), (_WORDS, StoreUnavailable)):
        for words, reason, hint in table:
            found = all if _EVERY & set(words) else any
            if found(word in said for word in words):
                return error(store, reason, hint)
    return StoreUnavailable(store, f"no connection ({kind})")
