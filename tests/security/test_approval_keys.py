"""The keys of approvals: one private file that the approving side alone reads, one public file for everybody, whole at any moment."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from approval_values import HOUR, KEY, NOW, binding
from retinue.security.approval_keys import SigningKey, VerifyingKey, VerifyingKeys, load_signing, load_verifying, open_signing, rotate
from retinue.security.approval_tokens import read_token, sign_token
from retinue.security.approvals import new_id
from retinue.security.errors import ApprovalError, DefinitionError, KeyFileError


def kids(keys: VerifyingKeys) -> list[str]:
    return [key.kid for key in keys.keys]


def token_of(key: SigningKey) -> str:
    return sign_token(key, binding(), request_id=new_id("apr"), approver="bob", now_ms=NOW, lifetime_ms=HOUR)


def test_the_first_to_open_makes_both_files_and_the_next_reads_them(tmp_path: Path) -> None:
    key = open_signing(tmp_path)
    private, public = tmp_path / "approvals.key", tmp_path / "approvals.pub"
    assert sorted(tmp_path.iterdir()) == [private, public]
    assert private.stat().st_mode & 0o777 == 0o600 and public.stat().st_mode & 0o777 == 0o644
    written = public.read_bytes()
    assert open_signing(tmp_path).kid == key.kid == load_signing(tmp_path).kid
    assert public.read_bytes() == written
    assert load_verifying(tmp_path) == key.verifying
    assert read_token(token_of(load_signing(tmp_path)), load_verifying(tmp_path)).approver == "bob"


def test_the_umask_neither_closes_the_public_file_nor_opens_the_private_one(tmp_path: Path) -> None:
    for umask in (0o077, 0o000):
        folder = tmp_path / oct(umask)
        folder.mkdir()
        before = os.umask(umask)
        try:
            open_signing(folder)
        finally:
            os.umask(before)
        assert (folder / "approvals.key").stat().st_mode & 0o777 == 0o600
        assert (folder / "approvals.pub").stat().st_mode & 0o777 == 0o644


def test_who_verifies_never_looks_at_the_private_file(tmp_path: Path) -> None:
    key = open_signing(tmp_path)
    token = token_of(key)
    (tmp_path / "approvals.key").unlink()
    assert read_token(token, load_verifying(tmp_path)).approver == "bob"
    (tmp_path / "approvals.key").symlink_to("/nowhere")
    assert load_verifying(tmp_path) == key.verifying
    (tmp_path / "approvals.key").unlink()
    (tmp_path / "approvals.key").mkdir()
    assert load_verifying(tmp_path) == key.verifying


def test_no_secret_is_in_the_public_file_nor_in_anything_that_is_printed(tmp_path: Path) -> None:
    key = open_signing(tmp_path)
    seed = json.loads((tmp_path / "approvals.key").read_text(encoding="utf-8"))["seed"]
    assert len(seed) == 64
    for text in (
        (tmp_path / "approvals.pub").read_text(encoding="utf-8"),
        repr(key),
        str(key),
        repr(key.verifying),
        repr(load_verifying(tmp_path)),
    ):
        assert seed not in text and key.kid in text


def test_the_public_file_is_text_that_a_person_can_read(tmp_path: Path) -> None:
    key = open_signing(tmp_path)
    header, line = (tmp_path / "approvals.pub").read_text(encoding="utf-8").splitlines()
    assert header.startswith("# Public keys of approvals")
    assert line == f"{key.kid} {key.verifying.keys[0].public.hex()} {key.created_ms}"
    assert abs(key.created_ms - time.time() * 1000) < 60_000


def test_a_lost_public_file_is_made_again_and_a_lost_private_one_replaced_beside_the_trusted_keys(tmp_path: Path) -> None:
    key = open_signing(tmp_path)
    (tmp_path / "approvals.pub").unlink()
    assert open_signing(tmp_path).kid == key.kid and kids(load_verifying(tmp_path)) == [key.kid]
    (tmp_path / "approvals.key").unlink()
    other = open_signing(tmp_path)
    assert kids(load_verifying(tmp_path)) == [other.kid, key.kid]


def test_rotation_signs_with_a_new_key_and_trusts_as_many_old_ones_as_it_is_told(tmp_path: Path) -> None:
    made = [open_signing(tmp_path)]
    tokens = [token_of(made[0])]
    for _ in range(3):
        made.append(rotate(tmp_path))
        tokens.append(token_of(made[-1]))
        assert kids(load_verifying(tmp_path)) == [made[-1].kid, made[-2].kid]
        assert load_signing(tmp_path).kid == made[-1].kid
    trusted = load_verifying(tmp_path)
    assert [read_token(token, trusted).approver for token in tokens[2:]] == ["bob", "bob"]
    for token in tokens[:2]:
        with pytest.raises(ApprovalError) as caught:
            read_token(token, trusted)
        assert caught.value.reason == "unknown_key"
    last = rotate(tmp_path, keep=0)
    assert kids(load_verifying(tmp_path)) == [last.kid]
    assert kids(load_verifying(tmp_path)) == kids(last.verifying)


def test_rotation_is_refused_where_there_is_nothing_to_rotate_and_for_negative_numbers(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError):
        rotate(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DefinitionError):
        rotate(tmp_path, keep=-1)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_private_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    open_signing(tmp_path)
    (tmp_path / "approvals.key").chmod(mode)
    for act in (load_signing, open_signing):
        with pytest.raises(KeyFileError, match="chmod 600"):
            act(tmp_path)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o622, 0o666])
def test_a_public_file_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    open_signing(tmp_path)
    (tmp_path / "approvals.pub").chmod(mode)
    for act in (load_verifying, open_signing, rotate):
        with pytest.raises(KeyFileError, match="chmod 644"):
            act(tmp_path)


@pytest.mark.parametrize("name", ["approvals.key", "approvals.pub"])
def test_a_link_a_folder_or_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    open_signing(tmp_path)
    file = tmp_path / name
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    for make in (lambda: file.symlink_to(elsewhere), file.mkdir, lambda: os.mkfifo(file, 0o600)):
        make()
        with pytest.raises(KeyFileError):
            (load_signing if name.endswith("key") else load_verifying)(tmp_path)
        with pytest.raises(KeyFileError):
            open_signing(tmp_path)
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["approvals.key", "approvals.pub"])
def test_another_users_file_is_refused(tmp_path: Path, name: str) -> None:
    open_signing(tmp_path)
    os.chown(tmp_path / name, 12345, 12345)
    with pytest.raises(KeyFileError, match="another user"):
        (load_signing if name.endswith("key") else load_verifying)(tmp_path)


def test_a_missing_file_is_refused_with_the_way_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"approvals\.key cannot be read: No such file.*open_signing"):
        load_signing(tmp_path)
    with pytest.raises(KeyFileError, match=r"approvals\.pub cannot be read: No such file"):
        load_verifying(tmp_path)
    with pytest.raises(KeyFileError, match="cannot be written"):
        open_signing(tmp_path / "no" / "folder")


def test_a_torn_or_edited_private_file_is_refused_and_never_replaced(tmp_path: Path) -> None:
    open_signing(tmp_path)
    file = tmp_path / "approvals.key"
    whole = file.read_bytes()
    data = json.loads(whole)
    seed = data["seed"]
    odd = [whole[:length] for length in range(len(whole) - 2)]
    changes: list[dict[str, Any]] = [
        {"seed": seed[:-1]},
        {"seed": seed.upper() + "A"},
        {"seed": 1},
        {"format": "x"},
        {"created_ms": -1},
        {"created_ms": "1"},
        {"more": 1},
    ]
    odd += [json.dumps({**data, **change}).encode() for change in changes]
    odd += [json.dumps({name: value for name, value in data.items() if name != left}).encode() for left in data]
    for content in odd:
        file.write_bytes(content)
        for act in (load_signing, open_signing):
            with pytest.raises(KeyFileError) as caught:
                act(tmp_path)
            assert seed[:8] not in str(caught.value)
        assert file.read_bytes() == content
    file.write_bytes(b"x" * 20_000)
    with pytest.raises(KeyFileError, match="larger"):
        load_signing(tmp_path)


def test_a_torn_or_edited_public_file_is_refused(tmp_path: Path) -> None:
    key = open_signing(tmp_path)
    file = tmp_path / "approvals.pub"
    public = key.verifying.keys[0].public.hex()
    other = KEY.verifying.keys[0]
    for lines in (
        "",
        "# nothing\n",
        f"{key.kid} {public}\n",
        f"{key.kid} {public[:-2]} 1\n",
        f"{key.kid} {public.upper()} 1\n",
        f"{key.kid} {public} x\n",
        f"{key.kid} {public} -1\n",
        f"{key.kid} {public} 1 2\n",
        f"{other.kid} {public} 1\n",  # a key under another's name
        f"{key.kid} {other.public.hex()} 1\n",
        f"{key.kid} {public} 1\n{key.kid} {public} 1\n",
        f"{key.kid}  {public} 1\n",
        "ключ\n",
        "\n".join(f"{one.kid} {one.verifying.keys[0].public.hex()} 1" for one in (SigningKey.ephemeral() for _ in range(33))),
    ):
        file.write_text(lines, encoding="utf-8")
        with pytest.raises(KeyFileError, match="malformed|larger"):
            load_verifying(tmp_path)


_OPEN = """
import sys
from pathlib import Path
from retinue.security.approval_keys import open_signing
Path(sys.argv[2]).touch()
while not Path(sys.argv[3]).exists():
    pass
print(open_signing(sys.argv[1]).kid)
"""


def test_processes_that_open_at_once_get_one_key(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    go = tmp_path / "go"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN, folder, tmp_path / f"ready{number}", go], stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        for number in range(3)
    ]
    deadline = time.monotonic() + 60
    while not all((tmp_path / f"ready{number}").exists() for number in range(3)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    go.touch()
    printed = {process.communicate(timeout=60)[0].strip() for process in started}
    assert printed == {load_signing(folder).kid} and kids(load_verifying(folder)) == [load_signing(folder).kid]
    assert sorted(child.name for child in folder.iterdir()) == ["approvals.key", "approvals.pub"]


_ROTATE = """
import sys
from retinue.security.approval_keys import rotate
rotate(sys.argv[1], keep=3)
print("ready", flush=True)
while True:
    rotate(sys.argv[1], keep=3)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_rotates_leaves_files_that_can_be_used(tmp_path: Path) -> None:
    first = open_signing(tmp_path)
    for number in range(12):
        process = subprocess.Popen([sys.executable, "-c", _ROTATE, tmp_path], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(0.002 * number)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()
        load_verifying(tmp_path)
        key = open_signing(tmp_path)
        assert kids(load_verifying(tmp_path))[0] == key.kid
        assert read_token(token_of(key), load_verifying(tmp_path)).approver == "bob"
    assert load_signing(tmp_path).kid != first.kid
    rotate(tmp_path)  # whoever writes next tidies up
    assert not [child for child in tmp_path.iterdir() if child.name.endswith(".new")], "what a killed process left is tidied up"


def test_a_key_is_no_value_to_pass_about() -> None:
    for thing in (KEY, KEY.verifying, KEY.verifying.keys[0]):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="neither copied nor pickled"):
                act(thing)
        with pytest.raises(AttributeError, match="immutable"):
            thing.kid = "x"  # type: ignore[union-attr]
        with pytest.raises(AttributeError, match="immutable"):
            del thing.kid  # type: ignore[union-attr]


def test_keys_are_told_apart_by_what_they_are() -> None:
    one, other = SigningKey.ephemeral(), SigningKey.ephemeral()
    assert one.kid != other.kid and one.verifying != other.verifying
    assert SigningKey(bytes(32)).verifying == SigningKey(bytes(32)).verifying
    assert len({one.verifying, other.verifying, *one.verifying.keys, *other.verifying.keys}) == 4
    assert one.verifying.find(one.kid) is one.verifying.keys[0] and one.verifying.find(other.kid) is None and len(one.verifying) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: SigningKey(b"short"),
        lambda: SigningKey("x" * 32),  # type: ignore[arg-type]
        lambda: VerifyingKey(b"short"),
        lambda: VerifyingKey(bytes(32), -1),
        lambda: VerifyingKeys(),
        lambda: VerifyingKeys(*KEY.verifying.keys, *KEY.verifying.keys),
        lambda: VerifyingKeys(KEY),  # type: ignore[arg-type]
        lambda: VerifyingKeys(*(one for _ in range(33) for one in SigningKey.ephemeral().verifying.keys)),
    ],
)
def test_what_is_no_key_is_refused(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()


def test_who_only_reads_about_approvals_loads_no_cryptography() -> None:
    code = (
        "import sys, retinue.security.approvals, retinue.security.approval_keys, retinue.security.approval_tokens, retinue.security.standing, "
        "retinue.security.definitions, retinue.security.showing; sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
