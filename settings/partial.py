"""What the rules see when a part of the settings could not be read: `UNKNOWN` in its place.

A report should hold the misspelt key and the missing zone at once, so the rules run on whatever can be read. A rule
that touches a value which could not be read has nothing to say, and says nothing: any use of `UNKNOWN` raises
`Unknown`. So no rule has to declare what it reads, and none can complain about a value that another message already
covers.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn


class Unknown(Exception):
    """A rule used a value that could not be read."""


def _stop(self: object, *_: object) -> NoReturn:
    raise Unknown


class _UnknownValue:
    __slots__ = ()
    __getattr__ = __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = __call__ = _stop
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _stop  # pyright: ignore[reportAssignmentType]
    __str__ = __format__ = __int__ = __index__ = _stop  # pyright: ignore[reportAssignmentType]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _stop


UNKNOWN: Final[Any] = _UnknownValue()  # Any: it stands where any type is expected
