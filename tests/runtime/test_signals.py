"""SIGTERM in processes of their own: leaves, deaths, and the handlers before and after."""

import subprocess
import sys

import pytest

PATIENCE_SECONDS = 30
BEGIN = """
import multiprocessing, os, signal, sys, threading, time
from contextlib import ExitStack
from apportion import sync
from apportion.runtime import signals
from apportion.runtime.signals import leaving_on_sigterm

def terminate(process=None):
    os.kill(process or os.getpid(), signal.SIGTERM)

heard = []
"""


def told(story, *arguments):
    """Return the exit code and output of a process that runs a story. Later Pythons warn of some forks."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + story, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert "" == done.stderr, done.stderr
    return done.returncode, done.stdout.split()


@pytest.mark.slow
def test_one_sigterm_leaves_every_group_and_candidacy_of_a_process(tmp_path):
    story = """
url = sys.argv[1]
with sync.open_group(url, "a", partitions=2) as first, sync.open_group(url, "b", partitions=2) as second:
    with sync.leader(url, "boss") as election:
        election.wait_until_elected()
        terminate()
        for group in (first, second):
            changes = [*group.changes()]
        while election.is_leader:
            time.sleep(0.01)
        print(first.is_alive, second.is_alive, election.is_leader)
"""
    assert (0, ["False"] * 3) == told(story, f"sqlite:///{tmp_path / 'store.db'}")


def test_signals_within_a_second_are_one_request_and_a_later_one_ends_the_process():
    story = """
with leaving_on_sigterm(lambda: print("leaves", flush=True)), leaving_on_sigterm(lambda: None):
    for _ in range(3):
        terminate()
    print("goes-on", flush=True)
    signals._asked.at -= signals.ONE_SIGNAL_SECONDS
    terminate()
    print("goes on")
"""
    assert (-15, ["leaves", "goes-on"]) == told(story)


def test_a_signal_within_a_second_is_the_same_request_also_after_the_last_block():
    story = """
with leaving_on_sigterm(lambda: print("leaves", flush=True)):
    terminate()
terminate()
print("ends", flush=True)
signals._asked.at -= signals.ONE_SIGNAL_SECONDS
terminate()
print("goes on")
"""
    assert (-15, ["leaves", "ends"]) == told(story)


@pytest.mark.slow
def test_a_block_that_begins_after_the_first_signal_hears_the_next_one_at_once():
    story = """
with leaving_on_sigterm(lambda: heard.append("first")):
    terminate()
    with leaving_on_sigterm(lambda: heard.append("second")):
        terminate()
        terminate()
print(*heard)
"""
    assert (0, ["first", "second"]) == told(story)


def test_the_default_is_back_when_the_last_block_has_ended_and_no_earlier():
    story = """
with leaving_on_sigterm(lambda: heard.append("outer")):
    with leaving_on_sigterm(lambda: heard.append("inner")):
        pass
    terminate()
    print(*heard)
    with leaving_on_sigterm(lambda: heard.append("later")):
        terminate()
    print(*heard)
    signals._asked.at -= signals.ONE_SIGNAL_SECONDS
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
    assert (0, ["outer", "outer", "later", "True"]) == told(story)


@pytest.mark.slow
@pytest.mark.parametrize("is_before", [True, False])
def test_a_handler_of_the_program_is_left_alone_whenever_it_was_installed(is_before):
    story = """
def install():
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append("program"))

is_before = "True" == sys.argv[1]
is_before and install()
with leaving_on_sigterm(lambda: heard.append("left")):
    is_before or install()
    terminate()
terminate()
print(*heard)
"""
    assert (0, ["program", "program"]) == told(story, str(is_before))


@pytest.mark.slow
def test_what_another_thread_opened_leaves_with_the_rest():
    story = """
with ExitStack() as blocks:
    thread = threading.Thread(target=lambda: blocks.enter_context(leaving_on_sigterm(lambda: heard.append("thread"))))
    thread.start()
    thread.join()
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    with leaving_on_sigterm(lambda: heard.append("main")):
        terminate()
    print(*sorted(heard))
"""
    assert (0, ["True", "main", "thread"]) == told(story)


@pytest.mark.slow
def test_sigterm_ends_a_process_whose_last_block_another_thread_has_ended():
    story = """
blocks = ExitStack()
blocks.enter_context(leaving_on_sigterm(lambda: print("leaves", flush=True)))
thread = threading.Thread(target=blocks.close)
thread.start()
thread.join()
terminate()
time.sleep(20)
"""
    assert (-15, []) == told(story)


@pytest.mark.slow
def test_a_forked_child_ends_by_its_first_sigterm_however_early_it_comes():
    story = """
fork, codes = multiprocessing.get_context("fork"), set()
with leaving_on_sigterm(lambda: heard.append("left")):
    for _ in range(30):
        child = fork.Process(target=time.sleep, args=(20,), daemon=True)
        child.start()
        child.terminate()
        child.join(2)
        codes.add(child.exitcode)
        child.kill()
    terminate()
print(*codes, *heard)
"""
    assert (0, ["-15", "left"]) == told(story)


@pytest.mark.slow
def test_a_child_that_a_thread_forks_ends_by_its_first_sigterm():
    story = """
def fork():
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    terminate(child)
    heard.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

with leaving_on_sigterm(lambda: heard.append("left")):
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
print(*heard)
"""
    assert (0, ["-15"]) == told(story)


@pytest.mark.slow
def test_a_forked_child_that_opens_a_block_of_its_own_leaves_that_one_alone():
    story = """
with leaving_on_sigterm(lambda: heard.append("parent")):
    child = os.fork()
    if child == 0:
        print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
        with leaving_on_sigterm(lambda: heard.append("child")):
            terminate()
        print(*heard, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(*heard, "goes-on")
"""
    assert (0, ["True", "child", "goes-on"]) == told(story)


@pytest.mark.slow
def test_signals_that_a_program_has_blocked_are_blocked_after_a_fork():
    story = """
with leaving_on_sigterm(lambda: None):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    child = os.fork()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    if child == 0:
        os._exit(0 if {signal.SIGTERM, signal.SIGUSR1} <= blocked else 1)
    print(os.waitpid(child, 0)[1], {signal.SIGTERM, signal.SIGUSR1} <= blocked)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    child = os.fork()
    if child == 0:
        os._exit(0 if signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ()) else 1)
    print(os.waitpid(child, 0)[1], signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    assert (0, ["0", "True", "0", "False"]) == told(story)
