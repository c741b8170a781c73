"""Each change is taken back: a node that was added to a table, and a drain of a member of a group."""

import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from apportion.sync import admin, open_group


def undo_a_table(folder: Path) -> None:
    export, plan = "table export --nodes a,b,c", "plan --table table.json --add d -o plan.json"
    for words in (export, f"{export} -o old.json", plan, "apply plan.json", "undo"):
        command = [sys.executable, "-m", "apportion.console.main", *words.split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    print(done.stdout, end="")
    print("the table is as before:", (folder / "old.json").read_bytes() == (folder / "table.json").read_bytes())


def undo_a_drain(url: str) -> None:
    with open_group(url, "mailers", partitions=8, member_id="worker", settle=timedelta(0)) as worker:
        worker.wait_until_settled()
        admin.drain(url, "mailers", "worker")
        admin.undrain(url, "mailers", "worker")
        worker.wait_until_settled()
        print("worker owns", len(worker.owned), "of 8 partitions")


with tempfile.TemporaryDirectory() as place:
    undo_a_table(Path(place))
    undo_a_drain(f"sqlite:///{place}/work.db")

# Prints:
# undone: table.json is at epoch 1:904fa806 now (was 2:4f722564); 25.00% moves back
# the table is as before: True
# worker owns 8 of 8 partitions
