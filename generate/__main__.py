"""Write the sync twin of each async façade: python -m generate [--check]

A twin is the text of its source with other words: `await` goes, `async with` is `with`, `AsyncGroup` is `SyncGroup`.
`WORDS` has them all. `--check` writes nothing and exits with 1 when a twin is not what its source makes.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "apportion"
TWINS = {
    "groups/admin/facade.py": "sync/admin.py",
    "groups/facade.py": "sync/groups.py",
    "groups/leader.py": "sync/leader.py",
    "shards/facade.py": "sync/shards.py",
    "shards/replicas/facade.py": "sync/replicas.py",
    "stores/facade.py": "sync/stores.py",
    "tables/facade.py": "sync/tables.py",
    "work/admin/cron/facade.py": "sync/cron_admin.py",
    "work/admin/facade.py": "sync/task_admin.py",
    "work/current.py": "sync/current.py",
    "work/facade.py": "sync/tasks.py",
}
HEAD = "# Generated from {source} by `python -m generate`; change that file, and generate anew.\n"

# An async form shows its sync form; a sync form has no other.
LEFT_OUT = (
    r"if TYPE_CHECKING:  # the sync form registers itself\n.*?\n\n",
    r"    @property\n    def sync\(self\) .*?\n\n",
    r"(?<=from typing import )TYPE_CHECKING, (?=Any, cast)",
    r"(?<=from typing import Any), cast",
    r"(?<=import parsed_receipt), required_form",
)

# In this order: a longer word comes before its parts.
WORDS = (
    (r"The sync twin of this file is `sync/\w+\.py`\.", "The async twin of this file is `{source}`."),
    (r"apportion\.groups\.facade", "apportion.sync.groups"),
    (r"from apportion\.groups import admin", "from apportion.sync import admin"),
    (r"apportion\.work\.facade", "apportion.sync.tasks"),
    (r"(?<![.\w])Queue\(url(?!,\s*checked)", "apportion.sync.Queue(url"),
    (r"from apportion\.work import admin", "from apportion.sync import task_admin"),
    (r"(?<!_)\badmin\.(why|redrive)\(", r"task_admin.\1("),
    (r"from apportion\.work\.admin import cron\b", "from apportion.sync import cron_admin"),
    (r"(?<![\w.])cron\.(schedules|pause)\(", r"cron_admin.\1("),
    (
        r"In a plain task function, the calls are .*",
        "`InvalidInput` on an event loop too: use the async twin there.",
    ),
    (
        r"apportion\.(open_group|open_map|open_shards|open_store|leader|follow|publish|Queue|current_task)\b",
        r"apportion.sync.\1",
    ),
    (r"apportion\.work\.worker import QueueWorker", "apportion.work.thread_worker import ThreadWorker"),
    (r"\bQueueWorker\b", "ThreadWorker"),
    (r"\b_worker_of\b", "_thread_worker_of"),
    (r"\basync_form\b", "sync_form"),
    (r"(?<![.\w])(Queue|TaskHandle)\b", r"Sync\1"),
    (r"on the event loop of the block", "on an event loop of the worker"),
    (r"SIGTERM ends the block\.", "SIGTERM ends the worker; see `until_left`."),
    (r"\bAwaitable\[Result\]", "Result"),
    (r"\bAwaitable, Callable\b", "Callable"),
    (r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bOnlyAsync\b", "OnlySync"),
    (r"\bAsync(\w+)", r"Sync\1"),
    (r"\bLeader\b(?!:| election)", "SyncLeader"),
    (r"\bawaited\b", "threaded"),
    (r"\bholding\b(?!s)", "held"),
    (r"\bHandler\b", "PlainHandler"),
    (r"\b_serve_here\b", "_serve_in_threads"),
    (r"changes\.finish\(", "changes.send_end("),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\banext\(", "next("),
    (r"\.aclose\(", ".close("),
    (r"\.hop\(", ".wait("),
    (r"\bfollow_async\b", "follow"),
    (r"\bcalled_async\b", "called_here"),
    (r"\.finish\(", ".wait_finished("),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\ban sync\b", "a sync"),
    (r"\ban `with`", "a `with`"),
    (r"\ban async function\b", "a plain function"),
    (r"for callers on any event loop", "for callers without an event loop; it is not to be called from one"),
    (r"on any event loop", "without an event loop"),
    (r"a caller that is cancelled", "a caller that is interrupted"),
    (r"A caller that is cancelled", "A caller that is interrupted"),
)


def twin_of(source: str) -> str:
    """Return the text of the sync twin of a source, not formatted yet."""
    text = (PACKAGE / source).read_text()
    for pattern in LEFT_OUT:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement.replace("{source}", source), text)
    return HEAD.format(source=source) + text


def formatted(text: str, name: str) -> str:
    """Return a text as the project's formatter writes it, its imports sorted."""
    for arguments in (["check", "--quiet", "--fix-only", "--select", "I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", name, "-"]
        text = subprocess.run(command, input=text, capture_output=True, check=True, text=True, cwd=ROOT).stdout
    return text


def main() -> int:
    """Write the twins, or with `--check` compare them."""
    different = 0
    for source, twin in TWINS.items():
        text = formatted(twin_of(source), str(PACKAGE / twin))
        path = PACKAGE / twin
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text() != text:
                different += 1
                print(f"{twin} is not what {source} makes; run: python -m generate")
        else:
            path.write_text(text)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
