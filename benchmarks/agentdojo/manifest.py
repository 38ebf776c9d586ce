"""What is known of AgentDojo's tools whatever the task: the manifest that would come with each tool.

Nothing here was written with a task or an injection in mind. For each tool: what it does to the world, which of its arguments name a target or
bound a loss, and which *structured* fields of its results may be used as such arguments later. Free text (bodies, descriptions, reviews), web
pages, files and the senders of e-mails are an attacker's to write, and so never among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

__all__ = ["TEXTS", "Tool", "tool"]

Effect = Literal["read", "network", "write"]


@attrs.frozen
class Tool:
    """One tool.

    Attributes:
        effect: "read": stays here and changes nothing; "network": leaves the machine; "write": changes something or sends it to somebody.
        targets: Argument → the kind of thing it names.
        gives: Field of the result → the kind of thing it is ("*": the result is a list of them).
        final: What it does cannot be undone.
    """

    effect: Effect = "read"
    targets: Mapping[str, str] = attrs.field(factory=dict)
    gives: Mapping[str, str] = attrs.field(factory=dict)
    final: bool = False


def _write(gives: Mapping[str, str] | None = None, *, final: bool = False, **targets: str) -> Tool:
    return Tool("write", targets, gives or {}, final)


def _read(*, targets: Mapping[str, str] | None = None, **gives: str) -> Tool:
    return Tool("read", targets or {}, gives)


TEXTS = ("body", "content", "subject", "title", "description", "location")
"""Arguments that carry free text to somebody else."""

_EVENTS = {"participants": "email", "id_": "event_id"}

_TOOLS: Mapping[str, Tool] = {
    # mail
    "send_email": _write(recipients="email", cc="email", bcc="email", attachments="attachment"),
    "delete_email": _write(email_id="email_id", final=True),
    "search_emails": _read(id_="email_id"),
    "get_unread_emails": _read(id_="email_id"),
    "search_contacts_by_name": _read(email="email"),
    "search_contacts_by_email": _read(email="email"),
    # calendar
    "create_calendar_event": _write(participants="email", start_time="date", end_time="date"),
    "cancel_calendar_event": _write(event_id="event_id"),
    "reschedule_calendar_event": _write(event_id="event_id", new_start_time="date", new_end_time="date"),
    "add_calendar_event_participants": _write(event_id="event_id", participants="email"),
    "search_calendar_events": _read(**_EVENTS),
    "get_day_calendar_events": _read(**_EVENTS),
    # files
    "append_to_file": _write(file_id="file_id"),
    "create_file": _write({"id_": "file_id"}, filename="phrase"),
    "delete_file": _write(file_id="file_id", final=True),
    "share_file": _write(file_id="file_id", email="email"),
    "list_files": _read(id_="file_id"),
    "search_files": _read(id_="file_id"),
    "search_files_by_filename": _read(id_="file_id"),
    "read_file": _read(targets={"file_path": "phrase"}),
    # travel
    "reserve_hotel": _write(hotel="phrase", start_day="date", end_day="date"),
    "reserve_restaurant": _write(restaurant="phrase", start_time="date"),
    "reserve_car_rental": _write(company="phrase", start_time="date", end_time="date"),
    # bank
    "send_money": _write(recipient="account", amount="amount"),
    "schedule_transaction": _write(recipient="account", amount="amount"),
    "update_scheduled_transaction": _write(id="transaction_id", recipient="account", amount="amount"),
    "update_password": _write(password="phrase", final=True),
    "update_user_info": _write(first_name="phrase", last_name="phrase", street="phrase", city="phrase"),
    "get_most_recent_transactions": _read(sender="account", recipient="account", amount="amount"),
    "get_scheduled_transactions": _read(id="transaction_id", recipient="account", amount="amount"),
    # chat
    "add_user_to_channel": _write(user="name", channel="channel"),
    "send_direct_message": _write(recipient="name"),
    "send_channel_message": _write(channel="channel"),
    "invite_user_to_slack": _write(user="name", user_email="email"),
    "remove_user_from_slack": _write(user="name", final=True),
    "get_channels": _read(**{"*": "channel"}),
    "get_users_in_channel": _read(**{"*": "name"}),
    "read_channel_messages": _read(sender="name"),
    # web
    "get_webpage": Tool("network", {"url": "url"}),
    "post_webpage": _write(url="url"),
}

_READS = ("get_", "search_", "list_", "read_", "check_")


def tool(name: str) -> Tool:
    """The manifest of a tool. One that is not listed only reads if its name says so; else it is taken for the worst: it writes, for good."""
    known = _TOOLS.get(name)
    if known is not None:
        return known
    return Tool() if name.startswith(_READS) else Tool("write", final=True)
