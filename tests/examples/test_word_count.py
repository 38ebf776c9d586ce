"""examples/word_count.py"""

from __future__ import annotations

from pathlib import Path

from example_runner import run, run_example


def test_the_words_of_the_old_novels_are_counted_and_no_message_is_lost() -> None:
    printed = run_example("word_count").splitlines()
    assert "messages lost: 0" in printed
    assert "504 words in 4 files, the same as in a plain count: True" in printed
    assert printed[-3:] == ["  the: 34", "  of: 26", "  it: 19"]


def test_all_splitters_have_worked() -> None:
    lines = [line.split(" ") for line in run_example("word_count").splitlines() if line.startswith("/user/splitter-")]
    assert len(lines) == 3
    assert all(int(words[3]) > 0 for words in lines)


def test_the_words_of_another_folder_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("To be, or not to be: that's the question.\n" * 30, encoding="utf-8")
    printed = run_example("word_count", str(tmp_path)).splitlines()
    assert printed[-4:] == ["270 words in 1 files, the same as in a plain count: True", "  to: 60", "  be: 60", "  or: 30"]


def test_a_folder_without_texts_is_told_of(tmp_path: Path) -> None:
    done = run("word_count", str(tmp_path))
    assert done.returncode == 1
    assert "there are no .txt files in" in done.stderr
