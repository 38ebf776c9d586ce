"""The folder `mailbox/` at the repository's root must not hide the standard library's module of that name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_root_really_comes_first_there():
    """Else the tests below prove nothing."""
    assert run("-c", "import importlib.util as u; print(u.find_spec('mailbox').origin)") == str(ROOT / "mailbox" / "__init__.py")


def test_import_mailbox_at_the_root_gives_the_standard_librarys():
    source = "import mailbox, sys; print(mailbox.__file__ == sys.modules['mailbox'].__file__, mailbox.mbox.__module__, mailbox.__file__)"
    same, module, file = run("-c", source).split(" ", 2)
    assert (same, module) == ("True", "mailbox")
    assert not Path(file).is_relative_to(ROOT)


def test_it_works_with_python_dash_m(tmp_path, monkeypatch):
    (tmp_path / "reads_mail.py").write_text("import mailbox\nfrom mailbox import Maildir\nprint(mailbox.mbox.__name__, Maildir.__name__)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # -m puts the working folder, the root, before it
    assert run("-m", "reads_mail") == "mbox Maildir"


@pytest.mark.parametrize("first", ["import mailbox, retinue.mailbox", "import retinue.mailbox, mailbox"])
def test_both_can_be_used_in_one_program(first):
    assert run("-c", f"{first}; print(mailbox.mbox.__name__, retinue.mailbox.Request.__name__)") == "mbox Request"


def test_a_package_of_the_standard_library_that_needs_it_works_there():
    assert (
        run("-c", "import mailbox, pickle; print(pickle.loads(pickle.dumps(mailbox.NoSuchMailboxError)).__name__)") == "NoSuchMailboxError"
    )
