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

BUGS = tuple(replace(bug, scenario="effects") for bug in _ON_KEYS)

FOUND_BY: dict[str, tuple[str, ...]] = {
    "OnceIsOnce": (
        "an effect is done in the log before it happens",
        "an effect begins while another claim does it",
        "an effect with an unknown fate begins unasked",
    ),
}
