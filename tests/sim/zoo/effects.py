"""The zoo's house of effects: bugs in the shipped code of effects, which the scenario of effects must find."""

from dataclasses import replace

from tests.sim.zoo.cage import Bug

_ONCE = "stores/task_once.py"

_ON_KEYS = (
    Bug(
        "an effect is done in the log before it happens",
        "work/current.py",
        "                value = await called_async(function, *args) if value is None else value\n"
        "                state = await io_thread().hop(self.desk.once(effect.end(value)))\n",
        "                state = await io_thread().hop(self.desk.once(effect.end(args[0])))\n"
        "                await called_async(function, *args)\n",
    ),
    Bug(
        "an effect begins while another claim does it",
        _ONCE,
        '        return "busy"\n',
        '        return "begun"\n',
    ),
    Bug(
        "an effect with an unknown fate begins unasked",
        _ONCE,
        'return "begun" if entry.receipt == step.instead_of else "unknown"\n',
        'return "begun"\n',
    ),
    Bug(
        "an effect that is done begins again",
        _ONCE,
        '    if entry.value is not None:\n        return "done"\n    if entry.receipt',
        "    if entry.receipt",
    ),
)

_ON_TRANSACTIONS = (
    Bug(
        "a completion has a transaction of its own, after that of the effect",
        "work/running_task.py",
        "            self._task.complete(connection)\n"
        "            self._stack = stack.pop_all()\n"
        "        return connection\n\n"
        "    def __exit__(self, *raised: *Raised) -> None:\n"
        "        self._stack.__exit__(*raised)\n",
        "            self._stack = stack.pop_all()\n"
        "        return connection\n\n"
        "    def __exit__(self, *raised: *Raised) -> None:\n"
        "        self._stack.__exit__(*raised)\n"
        "        if raised[0] is None:\n"
        "            with self._task.desk.transactions.begin() as connection:\n"
        "                self._task.complete(connection)\n",
        store="sqlite",
    ),
)

BUGS = tuple(replace(bug, scenario="effects") for bug in (*_ON_KEYS, *_ON_TRANSACTIONS))

FOUND_BY: dict[str, tuple[str, ...]] = {
    "OnceIsOnce": (
        "an effect is done in the log before it happens",
        "an effect begins while another claim does it",
        "an effect with an unknown fate begins unasked",
    ),
}
