"""What has become of requests for consent is looked up, and nothing is changed by it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import retinue as rt
from retinue.viewing.consents import states_of


@rt.message
class Send(rt.Request[str]):
    to: str


class Post(rt.Actor):
    @rt.handler(requires="post.send", approval=True)
    def send(self, message: Send) -> str:
        return message.to


async def asked(folder: Path, *decisions: str) -> list[str]:
    """Requests with these decisions, of somebody who can send the message again: they outlast their system."""
    ids = []
    async with rt.ActorSystem(data_dir=folder) as system:
        post = await system.spawn(Post)
        for number, decision in enumerate(decisions):
            with pytest.raises(rt.ApprovalRequired) as caught:
                await post.ask(Send(f"{number}"))
            ids.append(caught.value.requests[0].id)
            if decision == "approved":
                await system.approvals.approve(ids[-1], reviewer="eve")
            elif decision == "rejected":
                await system.approvals.reject(ids[-1], reviewer="eve")
            elif decision == "cancelled":
                await system.approvals.cancel(ids[-1])
            elif decision == "edited":
                await system.approvals.edit(ids[-1], {"to": "another"}, reviewer="eve")
    return ids


async def test_states_are_those_of_the_file_and_unknown_requests_are_left_out(tmp_path: Path) -> None:
    decisions = ["pending", "approved", "rejected", "cancelled", "edited"]
    ids = await asked(tmp_path, *decisions)
    assert states_of(tmp_path, [*ids, "apr_unknown", "%"]) == dict(zip(ids, decisions, strict=True))


async def test_a_request_whose_time_is_over_has_expired(tmp_path: Path) -> None:
    (request,) = await asked(tmp_path, "pending")
    with sqlite3.connect(tmp_path / "approvals.db") as connection:
        connection.execute("UPDATE requests SET expires_ms = 1")
    connection.close()
    assert states_of(tmp_path, [request]) == {request: "expired"}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, but for those in which SQLite keeps who reads."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.name.endswith(("-shm", "-wal"))}


async def test_a_look_changes_no_file(tmp_path: Path) -> None:
    ids = await asked(tmp_path, "pending")
    (tmp_path / "approvals.seen").unlink()  # whoever decides would notice, and void what was approved
    before = contents(tmp_path)
    assert states_of(tmp_path, ids) == {ids[0]: "pending"}
    assert contents(tmp_path) == before


def test_without_a_file_that_can_be_read_nothing_is_known(tmp_path: Path) -> None:
    assert states_of(tmp_path, ["apr_1"]) == {}
    (tmp_path / "approvals.db").write_bytes(b"no database" * 500)
    assert states_of(tmp_path, ["apr_1"]) == {}
