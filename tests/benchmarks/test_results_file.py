"""Each command replaces its own part of the file of results."""

from __future__ import annotations

import pytest

from housekeeping import ROOT


@pytest.fixture
def put_part(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.results import put_part

    return put_part


def test_a_part_replaces_the_one_of_the_same_heading_and_leaves_the_others(tmp_path, put_part):
    path = tmp_path / "RESULTS.md"
    put_part("# Results\n\n## ask\n\n1\n", path)
    put_part("# Authority\n\n2\n", path)
    put_part("# Results\n\n3\n", path)
    assert path.read_text(encoding="utf-8") == "# Results\n\n3\n\n# Authority\n\n2\n"


def test_a_heading_that_begins_like_another_is_another(tmp_path, put_part):
    path = tmp_path / "RESULTS.md"
    put_part("# Authority and more\n\n1\n", path)
    put_part("# Authority\n\n2\n", path)
    assert path.read_text(encoding="utf-8") == "# Authority and more\n\n1\n\n# Authority\n\n2\n"


def test_the_committed_file_is_made_of_parts(put_part):
    from benchmarks.results import RESULTS

    assert RESULTS.read_text(encoding="utf-8").startswith("# Results\n")
