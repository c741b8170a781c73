"""`apportion explain`: why a key is at its node."""

import os

from apportion.console.options.arguments import Json
from apportion.console.options.placement import PlacementOptions
from apportion.console.print.output import key_member, print_json, print_text
from apportion.model.token import position_text


def explain(key: str, /, *, source: PlacementOptions = PlacementOptions(), json: Json = False) -> None:  # noqa: B008 - a frozen value
    """Explain why a node handles a key, which nodes come next, and which node would take over.

    Parameters
    ----------
    key
        The key, as the bytes of this text.
    """
    data = os.fsencode(key)
    # Text and its UTF-8 bytes are the same key. A key that is text is passed as text, so that it is printed as text.
    why = source.load_explained().explain(key if data == key.encode(errors="replace") else data)
    source.warn_of_keys((key,))
    if not json:
        print_text(str(why))
        return
    print_json(
        "explain",
        **key_member(data),
        placement=why.placement,
        hasher=why.hasher,
        hash=None if why.hash is None else f"{why.hash:016x}",
        range=None if why.range is None else [position_text(why.range.start), position_text(why.range.end)],
        node=why.owner,
        why=why.why,
        next=why.next,
        if_node_left=why.if_owner_left,
    )
