"""Interrupts in processes of their own: the user's are noted, and the handlers before come back."""

import pytest

from tests.runtime.test_signals import told

BEGIN = """
from contextlib import suppress
from apportion.runtime.interrupt import is_interrupted, noted_interrupts

def interrupt():
    signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.slow
def test_an_interrupt_of_the_user_is_noted_and_one_by_code_is_not():
    story = """
with noted_interrupts():
    with suppress(KeyboardInterrupt):
        raise KeyboardInterrupt
    print(is_interrupted())
    with suppress(KeyboardInterrupt):
        interrupt()
    print(is_interrupted())
    told = []
    thread = threading.Thread(target=lambda: told.append(is_interrupted()))
    thread.start()
    thread.join()
    print(*told)
with noted_interrupts():
    print(is_interrupted())
"""
    assert (0, ["False", "True", "False", "False"]) == told(BEGIN + story)


@pytest.mark.slow
def test_the_last_of_two_blocks_puts_the_handler_back():
    story = """
first, second = noted_interrupts(), noted_interrupts()
first.__enter__(), second.__enter__()
first.__exit__(None, None, None)
with suppress(KeyboardInterrupt):
    interrupt()
print(is_interrupted())
second.__exit__(None, None, None)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    assert (0, ["True", "True"]) == told(BEGIN + story)


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "print"])
def test_a_handler_of_the_program_keeps_its_effect(handler):
    story = f"""
mine = {handler}
with noted_interrupts():
    signal.signal(signal.SIGINT, mine)
print(signal.getsignal(signal.SIGINT) is mine)
with noted_interrupts():
    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""
    assert (0, ["True", str(handler != "print")]) == told(BEGIN + story)


@pytest.mark.slow
def test_a_block_in_another_thread_changes_no_handler():
    story = """
def block():
    with noted_interrupts():
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
thread = threading.Thread(target=block)
thread.start()
thread.join()
"""
    assert (0, ["True"]) == told(BEGIN + story)
