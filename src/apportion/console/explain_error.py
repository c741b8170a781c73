"""`apportion explain-error`: the meaning of an error and the next step, without a network."""

import inspect
from typing import Annotated

from cyclopts import Parameter

from apportion import errors
from apportion.console.options.arguments import Json
from apportion.console.print.output import print_json, print_text
from apportion.errors import ApportionError, UnknownOption

NEXT = {
    "BadRange": "Correct the ranges: each begins where the one before ends.",
    "AlreadyTriggered": "Do nothing: the slot has its task. Go on with the next slot.",
    "BadSnapshot": "Take a fresh copy of the file, and check that it is of the kind that the command reads.",
    "BadWeight": "Write 0 to drain a node, or a finite number above 0.",
    "ClockAstray": "Set the clock of the machine that the message names, and open the map again.",
    "ClaimLost": "Stop this run: the store has given the task to another attempt, or has ended it.",
    "Compacted": "Scan the prefix again, and watch from the revision of that scan.",
    "CrossShard": "Open a session of the other key, and write the row there.",
    "DuplicateMember": "Give each process an id of its own, or stop the other process.",
    "DuplicateNode": "Rename one of the two nodes, or drop it.",
    "Fenced": "Stop this work: the holder of the newer token does it.",
    "InvariantBroken": "Report it: this is a defect of apportion. Nothing was written.",
    "KeyedTasksOpen": "Let the workers finish the tasks with a key, or cancel them, and try again.",
    "LeaseLost": "Stop the work that depended on the lease. Ask for a new lease, and write the keys again.",
    "MissingExtra": "Install the extra that the message names.",
    "NoNodes": "Add a node, or give a node a weight above 0.",
    "NotEnoughNodes": "Add nodes or zones, or ask for fewer replicas.",
    "NotOwner": "Leave the partition to its owner.",
    "NotPromised": "Use a store that gives the guarantee, or do without it.",
    "NotScatterable": "Change the statement as the reason says, or ask one shard in a pinned session.",
    "OutcomeUnknown": "Look for the tasks by id before you enqueue them again.",
    "PlanRefused": "Plan again from the current table, and apply the new plan.",
    "QuorumNotReached": "Try again: a put is safe to repeat. Look at the nodes that are down.",
    "SchemaDiffers": "Bring both databases to one schema, and try again.",
    "StaleEpoch": "Read the current state, plan again, and apply the new plan.",
    "StaleRoute": "Refresh the followed table, and route again.",
    "StoreClosed": "Connect again; after a fork, connect in the child.",
    "StoreDenied": "Correct the URL, or let the owner of the store run: apportion store grants URL --user NAME",
    "StoreUnavailable": "Try again, or run: apportion doctor --store URL",
    "StoreWentBack": "Scan, and join again. After a restore, run: apportion store restored URL",
    "TaskDead": "Mend the cause that the message names, then redrive the task.",
    "TimedOut": "Wait again, or look at the state of the task.",
    "Unequal": "Find the program that wrote to the target of the move, then let the move go on.",
    "UnknownNode": "Add the node first, or use an id of the topology.",
    "UnknownOption": "Write one of the known names; the message offers the nearest.",
}
"""The next step for each leaf of the tree of errors."""
KINDS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ApportionError)
}


def explain_error(code: Annotated[str, Parameter(name="CODE")], /, *, json: Json = False) -> None:
    """Show the meaning of an error and the next step.

    Parameters
    ----------
    code
        Code of the error, such as StaleEpoch; with --json, each error holds its code.
    """
    kind = KINDS.get(code)
    if kind is None:
        raise UnknownOption("code of an error", code, KINDS)
    meaning = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    step = NEXT.get(code, "Correct the value or the state that the message names.")
    if json:
        print_json("explain-error", code=code, meaning=meaning, retryable=kind.retryable, next=step)
        return
    retry = "may help" if kind.retryable else "does not help"
    print_text(f"{code}\n{meaning}\n\nretry   {retry}\nnext    {step}")
