"""The zoo's house of two stores: bugs of workers that take the store of their group for the store of their tasks.

Some of them do no harm in a world of one store: there, both sessions are one, and all data go back together.
"""

from dataclasses import replace

from tests.sim.zoo.cage import Bug

_RUNS, _CLAIMANT, _LANES = "work/runs.py", "work/claimant.py", "work/lanes/lane_holds.py"
_ACCEPTS = "    return seen is None or token > seen or (token == seen and token.holder == seen.holder)"
_MOVES = "            self._give_back([each for each in self._waiting if each.claim.lane in moving], LANE_MOVED)\n"

_OF_SESSIONS = (
    Bug(
        "all stores of a process share one session",
        "groups/session.py",
        "    return os.getpid(), parsed_url(url).canonical()",
        '    return os.getpid(), parsed_url(url and "sqlite:///shared.db").canonical()',
    ),
    Bug(
        "a worker takes the end of its session in the group for that of its session with the tasks",
        _RUNS,
        _MOVES,
        _MOVES + "            self._places.stop(self._places)\n",
    ),
    Bug(
        "a run whose lane has moved gives its claim back and goes on",
        _RUNS,
        _MOVES,
        _MOVES + "            for each in self._places:\n"
        '                self._desk.settle(Settlement(receipt=each, fate="released", reason=LANE_MOVED))\n',
    ),
    Bug(
        "a claim that comes after its lane has moved runs without a hold",
        _LANES,
        "        except NotOwner:\n            return None\n",
        "        except NotOwner:\n            return claim\n",
    ),
    Bug(
        "a worker without lanes counts as dead, so that the new owner does not wait for its claims",
        "stores/task_ledger.py",
        "self._retaken(worker, (want + 1) // 2, alive, now)",
        "self._retaken(worker, (want + 1) // 2, {each.session for each in self.lanes.values()} & {*alive}, now)",
    ),
)

_OF_TOKENS = (
    Bug(
        "the token of a lane is compared with the life of the store of the tasks",
        _CLAIMANT,
        "        lanes = self._lanes.owned()\n",
        "        lanes = self._lanes.owned()\n"
        "        lanes = tuple(each for each in lanes if each.token.incarnation == session.incarnation)\n",
    ),
)

_IN_SQL = (
    Bug(
        "a worker without lanes counts as dead in the file",
        "stores/sqlite/task_statements.py",
        'ENDED_SESSIONS = f"{_SESSIONS} WHERE session NOT IN (SELECT id FROM lease)"',
        'ENDED_SESSIONS = f"{_SESSIONS} WHERE session NOT IN (SELECT id FROM lease)'
        ' OR session NOT IN (SELECT session FROM lane)"',
    ),
    Bug(
        "the life of the store is not part of the token of a lane in the file",
        "stores/lanes/tokens.py",
        _ACCEPTS,
        _ACCEPTS.replace("token > seen", "token.epoch > seen.epoch"),
        seeds=320,
    ),
)

BUGS = (
    *(replace(bug, scenario="keys") for bugs in (_OF_SESSIONS, _OF_TOKENS) for bug in bugs),
    *(replace(bug, scenario="keys", store="sqlite") for bug in _IN_SQL),
)
