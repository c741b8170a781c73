"""`apportion store`: an operator's work on a store: its schema, its rights, and the record of a restore."""

import asyncio

from apportion.console.options.arguments import Json, Url
from apportion.console.print.output import print_json, print_text
from apportion.stores import administration, schemes
from apportion.stores.administration import Administration
from apportion.stores.url import parse


def upgrade_store(url: Url, /, *, sql: bool = False, json: Json = False) -> None:
    """Make the schema of a store with its tables of tasks, or bring an older one to the newest version.

    Parameters
    ----------
    sql
        Only print the statements, so that an administrator can run them.
    """
    store = administration(url)
    if sql:
        _print_statements("store upgrade", url, store.upgrade_statements(), "has no schema: nothing to run", json=json)
        return
    (before, after), (tasks_before, tasks_after) = asyncio.run(_upgraded(store))
    if json:
        tasks = {"before": tasks_before, "after": tasks_after}
        print_json("store upgrade", store=_name(url), before=before, after=after, tasks=tasks)
        return
    if before != after:
        print_text(f"{_name(url)} has schema {after} now; it had {before or 'none'}")
    if tasks_before != tasks_after:
        print_text(
            f"{_name(url)} has version {tasks_after} of the tables of tasks now; it had {tasks_before or 'none'}"
        )
    if (before, tasks_before) == (after, tasks_after):
        print_text(f"{_name(url)} has schema {after}, the newest: nothing to do")


def grants_store(url: str, /, *, user: str, json: Json = False) -> None:
    """Print the statements that give a user the rights that a member needs, and no more.

    Parameters
    ----------
    url
        URL of the store, such as postgresql://host/database
    user
        Name of the user that members connect as.
    """
    statements = administration(url).grants(user)
    _print_statements("store grants", url, statements, "has no users: nothing to grant", json=json)


def restored_store(url: Url, /, *, json: Json = False) -> None:
    """Record that a store was restored from a copy: a new incarnation begins, and all members join again."""
    before, after = asyncio.run(administration(url).restored())
    if json:
        print_json("store restored", store=_name(url), before=before, after=after)
    else:
        print_text(f"{_name(url)} has incarnation {after} now; it had {before}: members join again")


async def _upgraded(store: Administration) -> tuple[tuple[int, int], tuple[int, int]]:
    return await store.upgrade(), await store.upgrade_tasks()


def _print_statements(command: str, url: str, statements: tuple[str, ...], none: str, *, json: bool) -> None:
    if json:
        print_json(command, store=_name(url), statements=statements)
    elif statements:
        print("\n".join(statements))
    else:
        print(f"-- {_name(url)} {none}")


def _name(url: str) -> str:
    """Return the URL in a form that may be shown: without user and password."""
    return str(parse(url, schemes=schemes()))
