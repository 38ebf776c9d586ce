"""Mutants of what has room beside the mailbox: inlets, timers, topics."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["BESIDE"]

_INLETS = ("tests/actors/runtime/test_inlets.py",)
_TIMERS = ("tests/actors/runtime/test_timers.py", "tests/actors/runtime/test_timer_bounds.py")
_TIMER_RIGHTS = ("tests/actors/runtime/test_timers_authority.py",)
_TOPICS = ("tests/actors/runtime/test_topics.py",)
_TOPIC_RIGHTS = ("tests/actors/runtime/test_topics_authority.py",)

BESIDE = (
    # -- inlets
    Mutant(
        "what was taken out of an inlet is handled all the same",
        "actors/runtime/inlets.py",
        "        if index == 0:\n            self._unseat()\n",
        "",
        _INLETS,
    ),
    Mutant(
        "what was cleared out of an inlet is handled all the same",
        "actors/runtime/inlets.py",
        "        self._unseat()\n        found = list(self._items)\n",
        "        found = list(self._items)\n",
        _INLETS,
    ),
    Mutant(
        "one inlet starves another",
        "actors/runtime/inlets.py",
        "            inlets.remove(self)\n            if self._items:\n                inlets.append(self)\n",
        "            if not self._items:\n                inlets.remove(self)\n",
        _INLETS,
    ),
    Mutant("an inlet's mail is not counted as sent", "actors/runtime/inlets.py", "        kernel.sent += 1\n", "", _INLETS),
    # -- timers
    Mutant(
        "a tick of a timer that was set anew is seen",
        "actors/runtime/timers.py",
        "    if old is not None:\n        table.end(old)\n",
        "    if old is not None:\n        old.disarm()\n",
        _TIMERS,
    ),
    Mutant(
        "a tick of a cancelled timer is seen",
        "actors/runtime/timers.py",
        "    timer.table.remove(timer)\n    timer.table.end(timer)\n",
        "    timer.table.remove(timer)\n    timer.disarm()\n",
        _TIMERS,
    ),
    Mutant(
        "a cancelled timer ticks on",
        "actors/runtime/timers.py",
        '        """Ends a timer at once: a tick of it that waits becomes a dead letter."""\n        timer.disarm()\n',
        '        """Ends a timer at once: a tick of it that waits becomes a dead letter."""\n',
        _TIMERS,
    ),
    Mutant(
        "two ticks of a key wait",
        "actors/runtime/timers.py",
        "        if self.tick is not None:\n            self.skipped",
        "        if cell is None:\n            self.skipped",
        _TIMERS,
    ),
    Mutant(
        "a timer that was late drifts",
        "actors/runtime/timers.py",
        "        passed = max(0, math.floor((now - self.start) / interval) - self.count)\n",
        "        passed = 0\n",
        _TIMERS,
    ),
    Mutant(
        "an actor may have a timer too many",
        "actors/runtime/timers.py",
        "len(table.timers) >= MAX_TIMERS",
        "len(table.timers) > MAX_TIMERS",
        _TIMERS,
    ),
    Mutant(
        "timers outlive their instance",
        "actors/runtime/lifecycle.py",
        "    clear_timers(cell)\n    for _ in range(ROUNDS):",
        "    for _ in range(ROUNDS):",
        _TIMERS,
    ),
    Mutant(
        "a tick carries what its actor may",
        "actors/runtime/timers.py",
        "_Timer(table, key, message, handler, security, trace)",
        "_Timer(table, key, message, handler, cell.grant, trace)",
        _TIMER_RIGHTS,
    ),
    Mutant(
        "a timer keeps an actor's own authority",
        "actors/runtime/derivation.py",
        "            _given(kernel, context, target)\n        _check_lasts(kernel, turn.security, target)\n",
        "            pass\n        _check_lasts(kernel, turn.security, target)\n",
        _TIMER_RIGHTS,
    ),
    Mutant(
        "a timer goes on whose ticks are refused",
        "actors/runtime/timers.py",
        "        if taken is None or taken[0] is not tick:\n            return\n",
        "        if taken is None or tick is not None:\n            return\n",
        _TIMER_RIGHTS,
    ),
    # -- topics
    Mutant(
        "a topic's message is sent under the subscriber's authority",
        "actors/runtime/topics.py",
        "            delivery.context = security\n",
        "            delivery.context = subscription.under\n",
        _TOPIC_RIGHTS,
    ),
    Mutant(
        "anybody may publish",
        "actors/runtime/topic_faces.py",
        "    if topic.publish is not None:\n        message = topic_rights.admit(",
        "    if topic is None:\n        message = topic_rights.admit(",
        _TOPIC_RIGHTS,
    ),
    Mutant(
        "anybody may publish who waits for the report",
        "actors/runtime/topic_faces.py",
        "    if topic.publish is not None:\n        message = await",
        "    if topic is None:\n        message = await",
        _TOPIC_RIGHTS,
    ),
    Mutant(
        "anybody may subscribe",
        "actors/runtime/topic_faces.py",
        "    if topic.subscribe is not None:\n",
        "    if topic is None:\n",
        _TOPIC_RIGHTS,
    ),
    Mutant(
        "a subscription outlives its authority",
        "actors/runtime/topics.py",
        "            if gated and topic_rights.has_ended(kernel, subscription.under, cell):\n",
        "            if kernel is None:\n",
        _TOPIC_RIGHTS,
    ),
    Mutant(
        "Lagged tells of one too few",
        "actors/runtime/topic_subscriptions.py",
        "self._marker.message.missed + 1)",
        "self._marker.message.missed)",
        _TOPICS,
    ),
    Mutant(
        "a slow subscriber's room has no bound",
        "actors/runtime/topic_subscriptions.py",
        "        return self.squeeze() if len(self._items) > self.capacity else 0\n",
        "        return 0\n",
        _TOPICS,
    ),
    Mutant(
        "a slow subscriber has room for one more",
        "actors/runtime/topic_subscriptions.py",
        "while self.waiting > self.capacity:",
        "while self.waiting > self.capacity + 1:",
        _TOPICS,
    ),
    Mutant(
        "what is dropped for a slow subscriber is no dead letter",
        "actors/runtime/topic_subscriptions.py",
        '        cell.kernel.record("lagged", victim)\n',
        "",
        _TOPICS,
    ),
    Mutant(
        "whoever is dropped waits in the head all the same",
        "actors/runtime/topic_subscriptions.py",
        "            if extra is not None and extra.guest is self:\n                cell.head = items[0]",
        "            if extra is None:\n                cell.head = items[0]",
        ("tests/actors/runtime/test_topics.py", "tests/actors/runtime/test_topics_mixed.py"),
    ),
    Mutant(
        "anybody may tell a Lagged",
        "actors/runtime/cell.py",
        "        self.private = {kind: handlers.pop(kind) for kind in PRIVATE if kind in handlers}\n",
        "        self.private = {kind: handlers[kind] for kind in PRIVATE if kind in handlers}\n",
        ("tests/actors/runtime/test_topics.py", "tests/actors/runtime/test_topics_refusals.py"),
    ),
    Mutant(
        "a report calls what failed handled",
        "actors/runtime/topic_reports.py",
        'if isinstance(error, AuthorityError) else "failed"',
        'if isinstance(error, AuthorityError) else "handled"',
        ("tests/actors/runtime/test_topics_reports.py",),
    ),
    # -- services
    Mutant(
        "who has ended is found",
        "actors/runtime/names.py",
        "                    tie.cut()\n",
        "                    pass\n",
        ("tests/actors/runtime/test_receptionist.py",),
    ),
    Mutant(
        "an actor finds whom it may not address",
        "actors/runtime/receptionist_faces.py",
        "for cell in found if may_address(turn.security, turn.cell, cell))",
        "for cell in found)",
        ("tests/actors/runtime/test_receptionist.py",),
    ),
)
