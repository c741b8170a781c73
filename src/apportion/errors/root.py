"""The root of the tree of errors: a problem, a hint, and a pickle of both."""

from typing import ClassVar


class ApportionError(Exception):
    """The base of every error that this library raises on purpose."""

    problem: str
    retryable: ClassVar[bool] = False

    # `Exception.__new__` has stored the arguments of the constructor, with the caller's values. The call below replaces
    # them: these values must not reach a `repr`, and some of them cannot be pickled.
    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}\n{self.hint}"

    def within(self, place: str) -> None:
        """Put the file or line of the fault before the message. Code that raises the error again calls this first."""
        self.problem = f"{place}: {self.problem}"

    def __reduce__(self) -> "tuple[object, ...]":
        return _revived, (type(self), self.args, self.__dict__)


class Unsafe(ApportionError):
    """Data could be lost or misplaced if the program went on."""

    __module__ = "apportion.errors"


def _revived(kind: type[ApportionError], args: tuple[str, str], state: dict[str, object]) -> ApportionError:
    """Make an error again without the constructor of its class, which takes other arguments."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error
