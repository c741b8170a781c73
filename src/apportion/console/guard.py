"""`apportion guard`: a guard for programs that are not Python, such as a shell script that `group run` starts.

    apportion guard check "$URL" || exit 1

Promises: the store keeps the newest token of each checked resource; see `guards.store`.
Refuses: to hold the resource while the caller writes. If check and write must be one step, use the guard of a database.
"""

import asyncio
import os
import sys

from apportion.console.options.arguments import Json
from apportion.console.print.output import print_json
from apportion.errors import Fenced, InvalidInput
from apportion.guards.store import check
from apportion.model.epoch import FencingToken

_HINT = "`apportion group run` sets the variable for its commands; elsewhere pass the option."


def check_guard(
    url: str, /, *, resource: str | None = None, token: str | None = None, holder: str | None = None, json: Json = False
) -> int:
    """Tell whether a token is the newest that its resource has seen. Exit code 0: go on, 1: write nothing.

    Parameters
    ----------
    url
        URL of the store that keeps the tokens, such as sqlite:///work.db
    resource
        The resource (default: $APPORTION_GROUP/$APPORTION_PARTITION)
    token
        Its fencing token, incarnation:epoch (default: $APPORTION_TOKEN)
    holder
        The holder of the token (default: $APPORTION_TOKEN_HOLDER)
    """
    asked = _token(resource, token, holder)
    try:
        asyncio.run(check(url, asked))
    except Fenced as error:
        if json:
            print_json("guard check", resource=asked.resource, token=str(asked), accepted=False, newer=str(error.newer))
        else:
            print(f"Fenced: {error.problem}", file=sys.stderr)
        return 1
    if json:
        print_json("guard check", resource=asked.resource, token=str(asked), accepted=True, newer=None)
    return 0


def _token(resource: str | None, token: str | None, holder: str | None) -> FencingToken:
    """Return the token from the options, or from the variables that `group run` sets."""
    environ = os.environ
    if resource is None:
        group, partition = environ.get("APPORTION_GROUP"), environ.get("APPORTION_PARTITION")
        resource = f"{group}/{partition}" if group and partition else ""
    holder = environ.get("APPORTION_TOKEN_HOLDER", "") if holder is None else holder
    token = environ.get("APPORTION_TOKEN", "") if token is None else token
    for name, value in (("resource", resource), ("holder", holder)):
        if not value:
            raise InvalidInput(name, value, f"the {name} of a token", _HINT)
    incarnation, _, epoch = token.partition(":")
    if not (_is_number(incarnation) and _is_number(epoch)):
        raise InvalidInput("token", token, "incarnation:epoch, two numbers", _HINT)
    return FencingToken(resource=resource, holder=holder, incarnation=int(incarnation), epoch=int(epoch))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 20
