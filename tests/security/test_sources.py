import copy
import gc
import pickle
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constraint_strategies import ODD, Name, Text, odd_objects, scalars, unhurried
from retinue.security.errors import ConstraintError
from retinue.security.sources import MAX_SOURCE_VALUES, Source, check_source_name, make_source


def test_a_source_knows_what_was_added_and_nothing_else():
    payees = make_source("payees")
    assert not payees.knows("ACME")
    payees.add("ACME", "Bolt")
    payees.add()
    assert payees.knows("ACME")
    assert [payees.knows(other) for other in ["acme", "ACME ", "", "ACM", "*", b"ACME", ["ACME"], None]] == [False] * 8
    assert payees.values() == ("ACME", "Bolt")
    assert len(payees) == 2


def test_values_are_known_with_their_types():
    alike = [1, True, 1.0, "1", b"1", 0, False, 0.0, -0.0, "0", None, "None", ""]
    for value in alike:
        source = make_source("x")
        source.add(value)
        assert [repr(other) for other in alike if source.knows(other)] == [repr(value)]
    everything = make_source("x")
    everything.add(*alike)
    assert list(map(repr, everything.values())) == list(map(repr, alike))


def test_values_are_made_unknown_again():
    source = make_source("x")
    source.add(1, True, "a")
    source.discard(True, "b", object())
    assert source.values() == (1, "a")
    source.clear()
    assert len(source) == 0
    assert not source.knows(1)
    assert source, "an empty source is still a source"


def test_adding_a_value_again_changes_nothing():
    source = make_source("x", limit=2)
    source.add("a", "b", "a")
    source.add("b", "a")
    assert source.values() == ("a", "b")


def test_a_full_source_refuses_and_adds_nothing_of_the_rest():
    source = make_source("x", limit=3)
    source.add("a", "b")
    with pytest.raises(ConstraintError, match=r"would exceed its limit of 3\. Nothing was added"):
        source.add("c", "d")
    assert source.values() == ("a", "b")
    source.add("c", "a")
    assert make_source("y").limit == MAX_SOURCE_VALUES


UNFIT = [*ODD, [1], (1,), {}, "x" * 4097, b"x" * 4097, 10**300]


@pytest.mark.parametrize("number", range(len(UNFIT)))  # pytest itself cannot bear to look at some of them
def test_a_value_that_is_no_plain_scalar_is_refused_and_with_it_all_that_were_to_be_added(number):
    value = UNFIT[number]
    source = make_source("x")
    with pytest.raises(ConstraintError) as caught:
        source.add("good", value)
    assert len(source) == 0
    assert not source.knows(value)
    assert len(str(caught.value)) < 300


@given(st.lists(scalars, max_size=5), scalars, odd_objects)
@unhurried
def test_whatever_is_asked_the_answer_is_whether_it_was_added(values, other, odd):
    source = make_source("x")
    added = [value for value in values if not (type(value) is int and abs(value) >= 10**300)]
    source.add(*added)
    assert all(source.knows(value) is True for value in added)
    assert source.knows(other) is ((type(other), repr(other)) in {(type(value), repr(value)) for value in added})
    assert source.knows(odd) is False


@pytest.mark.parametrize("name", ["payees", "a", "A-b_c.9", "x" * 64])
def test_a_well_formed_name_is_returned_as_it_is(name):
    assert check_source_name(name) == make_source(name).name == name


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a b", "a*", "é", "a\n", "x" * 65, None, 3, b"x", Text("x"), Name.ACME])
def test_a_malformed_name_is_refused(name):
    for check in (check_source_name, make_source):
        with pytest.raises(ConstraintError):
            check(name)


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, None, "9"])
def test_a_malformed_limit_is_refused(limit):
    with pytest.raises(ConstraintError):
        make_source("x", limit=limit)


def test_a_source_is_not_made_altered_subclassed_or_pickled_by_hand():
    source = make_source("x")
    source.add("secret")
    with pytest.raises(TypeError, match="made by an authority"):
        Source("x")
    with pytest.raises(TypeError, match="final"):
        type("Mine", (Source,), {})
    for name in ("name", "limit", "_values", "other"):
        with pytest.raises(AttributeError):
            setattr(source, name, {})
        with pytest.raises(AttributeError):
            delattr(source, name)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(source)
    assert copy.copy(source) is copy.deepcopy([source])[0] is source
    assert "secret" not in repr(source)
    assert "'x'" in repr(source)


def test_many_threads_add_to_one_source_and_its_limit_holds_exactly():
    source = make_source("x", limit=500)
    refused = []
    start = threading.Barrier(8)

    def add(first):
        start.wait()
        for number in range(first, first + 100):
            try:
                source.add(number, str(number))
            except ConstraintError:
                refused.append(number)
            assert not source.knows(object())

    threads = [threading.Thread(target=add, args=(100 * number,)) for number in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(source) == len(source.values()) == 500
    assert len(refused) == 800 - 250
    assert all(source.knows(value) for value in source.values())


@pytest.mark.parametrize("change", [lambda source: source.add("late"), lambda source: source.discard("early"), Source.clear, Source.values])
def test_no_change_begins_while_another_is_under_way(change):
    source = make_source("x")
    source.add("early")
    thread = threading.Thread(target=change, args=(source,))
    with source._lock:
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        assert source.values() == ("early",)
    thread.join(10)
    assert not thread.is_alive()


def test_a_finaliser_that_runs_inside_may_add_too():
    source = make_source("x")

    class Dying:
        def __del__(self):
            source.add("last words")

    knot = Dying()
    knot.self = knot
    del knot
    with source._lock:
        gc.collect()
    assert source.knows("last words")
