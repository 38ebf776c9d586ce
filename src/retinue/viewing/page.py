"""A run as one web page that needs nothing else: no network, no font, no other file."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.viewing.summary import Summary

__all__ = ["page_of"]


def page_of(summary: Summary, states: Mapping[str, str] | None = None) -> str:
    """The page's HTML.

    Args:
        summary: The run.
        states: What has become of requests for consent, by their ids.
    """
    raise NotImplementedError
