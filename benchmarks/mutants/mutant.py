"""What a mutant is."""

from __future__ import annotations

import attrs

__all__ = ["Mutant"]


@attrs.frozen
class Mutant:
    """One change that makes the code worse, and the tests that have to notice.

    Attributes:
        name: What is wrong now, in a few words; for `--only`.
        file: The file, from the root of the repository.
        old: Text that occurs in it exactly once.
        new: What stands there in the mutant.
        tests: Test files (or `file::test`), from the root; the fewest that should do.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
