"""A key that does not show itself."""

from __future__ import annotations

from urllib.parse import quote

from retinue.actors.llm.errors import BadEndpoint

__all__ = ["Key"]

_HIDDEN = "[key]"
_SHORTEST_SEARCHED = 8  # shorter ones ("k", "ollama") are no secrets, and words of every text


class Key:
    """An endpoint's key: `str()`, `repr()` and `format()` hide it, and it can hide itself in texts of others.

    Args:
        value: The key; white space around it is dropped. Raises BadEndpoint (without quoting it) for what cannot stand in an HTTP header.
    """

    __slots__ = ("_quoted", "_value")

    def __init__(self, value: str) -> None:
        stripped = value.strip() if isinstance(value, str) else ""
        if not stripped or not stripped.isascii() or not stripped.isprintable() or " " in stripped:
            raise BadEndpoint(
                "the key is no text, is empty, or holds blanks, line breaks or characters outside ASCII: look at how it was copied (OPENAI_API_KEY, api_key=)"
            )
        self._value = stripped
        self._quoted = quote(stripped, safe="")

    def __repr__(self) -> str:
        return _HIDDEN

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled or copied")

    @property
    def header(self) -> str:
        """The value of the `Authorization` header."""
        return f"Bearer {self._value}"

    @property
    def plain(self) -> str:
        """The key itself, for a header of another form; never for a text."""
        return self._value

    def hide_in(self, text: str) -> str:
        """Return the text with the key blotted out wherever it stands in it, as it is or as addresses have it."""
        if len(self._value) < _SHORTEST_SEARCHED:
            return text
        return text.replace(self._value, _HIDDEN).replace(self._quoted, _HIDDEN)
