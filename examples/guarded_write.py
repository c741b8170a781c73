"""A worker that slept through its lease wakes up and writes: the database refuses it. Runs on a file of SQLite."""

import sqlite3
from contextlib import closing

from apportion.errors import Fenced
from apportion.guards import SqlGuard
from apportion.model.epoch import FencingToken

guard = SqlGuard()


def add(connection: sqlite3.Connection, token: FencingToken, amount: int) -> None:
    with connection:  # one transaction: the check lets the write in, or neither happens
        guard.check(connection, token)
        connection.execute("UPDATE account SET balance = balance + ?", [amount])


with closing(sqlite3.connect("guarded.db")) as connection:
    guard.create(connection)  # once, as the rest of the schema
    connection.execute("CREATE TABLE account (balance INTEGER)")
    connection.execute("INSERT INTO account VALUES (0)")

    # What `group.hold(partition)` gives: first to ann, then, when she was not heard of any more, to bob.
    anns = FencingToken(resource="accounts/17", holder="ann", incarnation=1, epoch=7)
    bobs = FencingToken(resource="accounts/17", holder="bob", incarnation=1, epoch=8)
    add(connection, anns, 100)
    add(connection, bobs, 10)
    try:
        add(connection, anns, 1)  # ann wakes up, and believes that it is still hers
    except Fenced as error:
        print(error)
    print("balance", *connection.execute("SELECT balance FROM account").fetchone())

# Prints:
# accounts/17 belongs to another holder: token 1:7 came after 1:8 had been accepted.
# Nothing was written. Stop this work: the holder of the newer token does it.
# balance 110
