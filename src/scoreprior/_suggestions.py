"""What a name that does not exist was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.6


def meant(wrong: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a wrong one, whatever its case; None where none is alike."""
    by_case = {name.casefold(): name for name in known}
    found = get_close_matches(str(wrong).casefold(), by_case, 1, _ALIKE)
    return by_case[found[0]] if found else None


def did_you_mean(wrong: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a sentence about a name that does not exist: the likely one, or where none is alike, `otherwise`."""
    likely = meant(wrong, known)
    return otherwise if likely is None else f"did you mean {likely!r}?"
