"""examples/leaking_summariser.py"""

from __future__ import annotations

from example_runner import run_example


def test_the_summary_comes_out_and_nothing_else_does() -> None:
    assert run_example("leaking_summariser").splitlines() == [
        "refused: fs.read (arguments)",  # another folder
        "refused: web.post (arguments)",  # another host
        "refused: web.post (permission)",  # the right host, after something private was read
        "summary: Dear all, the picnic is on Friday at noon, by the lake. Bring something to drink.",
        "on record: fs.read of ada at /user/files, web.post of ada at /user/web, web.post of ada at /user/web",
        "got out: []",
    ]
