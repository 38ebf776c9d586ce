"""Mutants of pools, virtual actors, adopted actors, of how actors end, and of injected faults."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["MANY"]

_POOL_RIGHTS = ("tests/actors/runtime/test_pools_authority.py",)
_PULLING = ("tests/actors/runtime/test_pools_pulling.py",)
_POOL_ENDS = ("tests/actors/runtime/test_pools_ends.py",)
_VIRTUAL_RIGHTS = ("tests/actors/runtime/test_virtual_authority.py",)
_ACTIVATION = ("tests/actors/runtime/test_virtual_activation.py",)
_PASSIVATION = ("tests/actors/runtime/test_virtual_passivation.py",)
_BOOKS = "tests/actors/runtime/test_conservation.py"
_FAULTS = ("tests/testing/test_faults.py", "tests/testing/test_faults_rules.py")

MANY = (
    # -- pools
    Mutant(
        "a worker has its system's authority",
        "actors/runtime/fronts.py",
        "self.kernel.make_cell(self, self.staff, place.name, self.grant, self.birth)",
        "self.kernel.make_cell(self, self.staff, place.name, self.kernel.root, self.birth)",
        _POOL_RIGHTS,
    ),
    Mutant(
        "what goes by a group is not within its grant",
        "actors/runtime/routing.py",
        "            delivery.context = effective(delivery.context, self.grant)\n",
        "",
        ("tests/actors/runtime/test_pools_authority.py", "tests/actors/runtime/test_pool_groups.py"),
    ),
    Mutant(
        "a consent is used up twice",
        "actors/runtime/pulling.py",
        "handler.kind == GENERATOR or postmark.approvals or",
        "handler.kind == GENERATOR or",
        (*_POOL_RIGHTS, *_PULLING),
    ),
    Mutant(
        "a message is tried once too often",
        "actors/runtime/pulling.py",
        "postmark.attempts > front.retries",
        "postmark.attempts > front.retries + 1",
        _PULLING,
    ),
    Mutant(
        "a message is tried once too seldom",
        "actors/runtime/pulling.py",
        "postmark.attempts > front.retries",
        "postmark.attempts >= front.retries",
        _PULLING,
    ),
    Mutant(
        "what its worker ends with is not counted as tried",
        "actors/runtime/pulling.py",
        "        postmark.attempts += 1",
        "        postmark.attempts += 0",
        _PULLING,
    ),
    Mutant(
        "nobody is woken for what comes",
        "actors/runtime/pulling.py",
        "        if receipt is ACCEPTED and self.idle:\n            self.wake()\n",
        "",
        _PULLING,
    ),
    Mutant(
        "a worker's mail dies with it",
        "actors/runtime/fronts.py",
        "        if front.closed or front.kernel.closing:\n            return mail\n        returned",
        "        if front is not None:\n            return mail\n        returned",
        _POOL_ENDS,
    ),
    Mutant(
        "a worker that has ended is not replaced",
        "actors/runtime/fronts.py",
        "            self._replace(place, terminated)\n",
        "            pass\n",
        _POOL_ENDS,
    ),
    Mutant(
        "the replacement of a worker does not take longer each time",
        "actors/runtime/fronts.py",
        "max(place.delay * 2, FIRST_DELAY)",
        "max(place.delay, FIRST_DELAY)",
        _POOL_ENDS,
    ),
    Mutant(
        "a key goes elsewhere once its worker was replaced",
        "actors/runtime/routing.py",
        "            weight = _mixed(digest ^ place.seed)\n",
        "            weight = _mixed(digest ^ id(place.cell))\n",
        ("tests/actors/runtime/test_pools.py", *_POOL_ENDS),
    ),
    Mutant(
        "a broadcast pool answers",
        "actors/runtime/broadcasting.py",
        "        if delivery.slot is not None:\n            raise",
        "        if not self.places:\n            raise",
        ("tests/actors/runtime/test_pools.py", "tests/actors/runtime/test_pools_asking.py"),
    ),
    # -- virtual actors
    Mutant(
        "a virtual actor may what its first sender may",
        "actors/runtime/virtual_regions.py",
        "            now = self._settle(ref)\n",
        "            now = self._settle(ref)\n            now.grant = delivery.context\n",
        _VIRTUAL_RIGHTS,
    ),
    Mutant(
        "who may not use a virtual actor wakes it",
        "actors/runtime/virtual_regions.py",
        "            refusal: Exception | None = self._refusal(cell, delivery)\n",
        "            refusal: Exception | None = None\n",
        _VIRTUAL_RIGHTS,
    ),
    Mutant(
        "a region and its actors count as one level",
        "actors/runtime/virtual.py",
        "derivation.child_grant(kernel, current(), parent, grant, 2)",
        "derivation.child_grant(kernel, current(), parent, grant, 1)",
        _VIRTUAL_RIGHTS,
    ),
    Mutant(
        "an instance is not known to its region",
        "actors/runtime/virtual_regions.py",
        "        self.seats.add(ref.key, cell)\n",
        "",
        _ACTIVATION,
    ),
    Mutant(
        "an actor with mail is not needed",
        "actors/runtime/passivation.py",
        "or cell.children or cell.control or cell.waiting():",
        "or cell.children or cell.control:",
        (*_PASSIVATION, "tests/actors/runtime/test_virtual_races.py"),
    ),
    Mutant(
        "an actor with a timer is not needed",
        "actors/runtime/passivation.py",
        "bool(extra.tasks or extra.timers or",
        "bool(extra.tasks or",
        _PASSIVATION,
    ),
    Mutant(
        "an actor with a deferred answer is not needed",
        "actors/runtime/passivation.py",
        "extra.deferred or ",
        "",
        _PASSIVATION,
    ),
    Mutant(
        "a region has room for one more",
        "actors/runtime/passivation.py",
        "        while len(by_key) - self.leaving >= self.capacity:\n",
        "        while len(by_key) - self.leaving > self.capacity:\n",
        (*_PASSIVATION, *_ACTIVATION),
    ),
    Mutant(
        "what comes while an instance ends is lost",
        "actors/runtime/virtual_regions.py",
        "            _move_mail(cell, self._settle(cell.ref))\n",
        "            pass\n",
        _PASSIVATION,
    ),
    Mutant(
        "a passivated actor is not told",
        "actors/runtime/virtual_regions.py",
        "        if cell.spec.has_stop or (extra is not None and extra.host is not None) or cell.control:\n",
        "        if (extra is not None and extra.host is not None) or cell.control:\n",
        _PASSIVATION,
    ),
    Mutant(
        "two keys have one path",
        "actors/runtime/virtual_keys.py",
        'f"={byte:02X}"',
        'f"={byte % 16:02X}"',
        ("tests/actors/runtime/test_virtual_keys.py",),
    ),
    # -- adopted actors
    Mutant(
        "an adopted actor is open to everybody",
        "actors/hosts/adopting.py",
        "handler(requires=operation, approval=rule, shield=True)",
        "handler(approval=rule, shield=True)",
        ("tests/hosts/test_adopt_authority.py",),
    ),
    # -- how actors end
    Mutant(
        "a limit that is cut short leaves its deadline",
        "actors/runtime/haste.py",
        "        unlimit(cell)  # a later one, which could hit `on_stop`\n",
        "",
        (f"{_BOOKS}::test_a_stop_that_is_asked_for_again_leaves_no_deadline_that_could_cut_on_stop_off",),
    ),
    Mutant(
        "who ends forgets that a tell may wait for room at it",
        "actors/runtime/lifecycle.py",
        "        elif delivery.slot is not None:  # not so a tell",
        "        else:  # not so a tell",
        (f"{_BOOKS}::test_a_member_of_a_group_ends_in_good_order_where_tells_wait_for_room_at_it",),
    ),
    Mutant(
        "who publishes does not hear that a virtual actor ends",
        "actors/runtime/virtual_regions.py",
        '                self.kernel.refuse(delivery, "stopped")\n',
        '                self.kernel.record("stopped", delivery)\n',
        (f"{_BOOKS}::test_a_report_is_told_at_once_when_the_instance_of_a_virtual_actor_ends_before_its_turn",),
    ),
    Mutant(
        "who is handed over twice on a delayed link can be withdrawn",
        "actors/testing/limbo.py",
        "            self._last = last\n",
        "            pass\n",
        (f"{_BOOKS}::test_a_request_that_is_handed_over_twice_on_a_delayed_link_is_counted_once_when_its_asker_has_gone",),
    ),
    # -- faults
    Mutant(
        "a message that a fault drops is no dead letter",
        "actors/testing/faults.py",
        '            kernel.record("fault", delivery)\n',
        "",
        _FAULTS,
    ),
    Mutant(
        "a message that comes twice is counted once",
        "actors/testing/faults.py",
        "            kernel.sent += 1\n            second",
        "            second",
        _FAULTS,
    ),
    Mutant(
        "a fault happens once too often",
        "actors/testing/faults.py",
        "self.hits >= self._times:",
        "self.hits > self._times:",
        _FAULTS,
    ),
    Mutant(
        "what is held back is not queued",
        "actors/testing/limbo.py",
        "        link.append(_Held(cell, delivery, due, patient=patient))\n        self.held += 1\n",
        "        link.append(_Held(cell, delivery, due, patient=patient))\n",
        _FAULTS,
    ),
    Mutant(
        "an answer that comes after its request was lost goes on",
        "actors/testing/limbo.py",
        "        slot.value = slot.error = None\n        self._keep_reply(slot, self._lost)\n",
        "        self._answer(slot)\n",
        _FAULTS,
    ),
)
