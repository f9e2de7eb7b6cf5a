"""Results of a pure function, remembered by its argument, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Remembered(dict[Argument, Result], Generic[Argument, Result]):
    """A function of one argument, called with square brackets.

    At most `limit` results are kept; when there are so many, all of them are forgotten. What the
    function raises is passed on, and not kept. A dictionary, because no look-up is faster.
    """

    def __init__(self, function: Callable[[Argument], Result], limit: int) -> None:
        super().__init__()
        self._function = function
        self._limit = limit

    def __missing__(self, argument: Argument) -> Result:
        result = self._function(argument)
        if len(self) >= self._limit:
            self.clear()
        self[argument] = result
        return result
