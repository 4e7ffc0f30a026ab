"""Files from strangers are data: nothing in them is run, damage gets one line, nothing leads out of a folder."""

import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_files import ADAPTATION, LOADERS, arrays_of, make_samples

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.io.untrusted_folders import FORMAT, file_name, require_own_code
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def home(samples: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples, tmp_path / "home"))


def refusal(load: Callable[[], Any]) -> str:
    """The one line in which something is refused."""
    with pytest.raises(UserError) as printed:
        load()
    (line,) = str(printed.value).strip().splitlines()
    return line


class Creates:
    """What is pickled so that, unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def of_a_wrong_type(file: Path, home: Path) -> bytes:
    """What has the form of such a file, and other values."""
    out = io.BytesIO()
    if file.suffix == ".npz":
        np.savez(out, allow_pickle=False, **{name: np.array(["a"]) for name in arrays_of(home / file)})
    elif file.suffix == ".pt":
        torch.save([torch.zeros(3), "a"], out)
    return out.getvalue() or b'["a", null]\n'


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_or_foreign_file_gets_one_line_that_names_it(name: str, home: Path, tmp_path: Path) -> None:
    loader, marker = LOADERS[name], tmp_path / "marker"
    loader.load(home)
    file = home / loader.file
    whole = file.read_bytes()
    half = whole[: len(whole) // 2]
    damaged = {
        "truncated": half.rpartition(b",")[0] if file.suffix == ".csv" else half,  # by chance a row may end there
        "random": np.random.default_rng(0).bytes(1000) + b"\n",
        "code": pickle.dumps(Creates(marker)) + b"\n",
        "wrong type": of_a_wrong_type(Path(loader.file), home),
        "nested": b"[" * 100_000 + b"]" * 100_000 + b"\n",
    }
    for how, content in damaged.items():
        file.write_bytes(content)
        if (name, how) == ("sweep tries", "truncated"):  # a line without its end is still being written
            loader.load(home)
            continue
        printed = refusal(partial(loader.load, home))
        assert len(printed) < 700, how
        named = {file.name, file.stem, loader.file.split("/")[0]}  # Minari names its data set
        assert any(word in printed for word in named), (how, printed)
    assert not marker.exists()


def write_objects(file: Path, marker: Path) -> None:
    """An npz one of whose arrays, or a checkpoint one of whose values, makes a folder when it is unpickled."""
    if file.suffix == ".pt":
        torch.save({**torch.load(file, weights_only=True), "more": Creates(marker)}, file)
        return
    arrays = arrays_of(file)
    name = sorted(arrays)[0]
    arrays[name] = np.full(len(arrays[name]), Creates(marker), dtype=object)
    np.savez(file, allow_pickle=True, **arrays)


@pytest.mark.parametrize("name", [name for name in LOADERS if LOADERS[name].file.endswith((".npz", ".pt"))])
def test_objects_in_files_are_refused_and_do_nothing(name: str, home: Path, tmp_path: Path) -> None:
    loader, marker = LOADERS[name], tmp_path / "marker"
    write_objects(home / loader.file, marker)
    printed = refusal(lambda: loader.load(home))
    assert re.search(r"holds Python objects|more than tensors and plain values", printed), printed
    assert not marker.exists()


def test_the_objects_are_dangerous(home: Path, tmp_path: Path) -> None:
    """Read without care, they do make the folder."""
    for name, careless in (
        ("checkpoint", "import torch, sys; torch.load(sys.argv[1], weights_only=False)"),
        ("logged npz", "import numpy, sys; dict(numpy.load(sys.argv[1], allow_pickle=True))"),
    ):
        marker = tmp_path / name
        write_objects(home / LOADERS[name].file, marker)
        subprocess.run([sys.executable, "-c", careless, str(home / LOADERS[name].file)], check=True)
        assert marker.exists()


@pytest.mark.parametrize("name", ["configuration", "transitions", "logged npz", "checkpoint"])
def test_a_pipe_in_the_place_of_a_file_does_not_wait(name: str, home: Path) -> None:
    file = home / LOADERS[name].file
    file.unlink()
    os.mkfifo(file)
    refusal(lambda: LOADERS[name].load(home))


@pytest.mark.parametrize(
    "bad", [{"round": -1}, {"round": 1.5}, {"return": float("nan")}, {"return": 10**400}, {"latent_mean": ["a"]}]
)
def test_metrics_of_nonsense(bad: dict[str, Any], home: Path) -> None:
    file = home / "run/metrics.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **bad}), *rest]))
    assert re.search(rf"line 1: .*{next(iter(bad))}", refusal(lambda: LOADERS["metrics"].load(home)))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ensemble", {"members": 10**9}),
        ("ensemble", {"hidden": [10**5, 10**5], "weight_decay": [0, 0, 0]}),
        ("controller", {"particles": 10**6, "horizon": 10**5}),
        ("latent_dim", 10**12),
        ("steps", 10**400),
    ],
)
def test_a_configuration_that_asks_for_all_memory(setting: str, value: Any, home: Path) -> None:
    file = home / "run/config.json"
    config = json.loads(file.read_text())
    config[setting] = {**config[setting], **value} if isinstance(value, dict) else value
    file.write_text(json.dumps(config))
    assert len(refusal(lambda: load_run(home / "run"))) < 700


def test_tensors_of_other_shapes_are_refused(home: Path) -> None:
    file = home / "run/checkpoints/round-001.pt"
    state = torch.load(file, weights_only=True)
    agent = state["agents"][0]
    changes: list[tuple[str, Any]] = [
        ("model", {name: value[..., :1] for name, value in agent["model"].items()}),
        ("guide", {name: torch.zeros(()) for name in agent["guide"]}),
        ("optimiser", {**agent["optimiser"], "state": {0: {"step": torch.zeros(3), "exp_avg": 1, "exp_avg_sq": 2}}}),
        ("optimiser", {**agent["optimiser"], "state": {99: agent["optimiser"]["state"][0]}}),
        ("optimiser", 3),
        ("model", None),
    ]
    for name, value in changes:
        torch.save({"agents": [{**agent, name: value}]}, file)
        assert "another architecture" in refusal(lambda: load_run(home / "run")), name


def test_transitions_of_other_types_are_refused(home: Path) -> None:
    file = home / "run/transitions/round-001.npz"
    for kind in ("f8", "i4", "U3", "c8", ">f4"):
        np.savez(file, **{**arrays_of(home / "run/transitions/round-000.npz"), "reward": np.zeros(60, kind)})  # type: ignore[arg-type]
        assert "does not hold transitions" in refusal(lambda: Transitions.load(file))


@pytest.mark.parametrize("name", ["guide", "planner", "belief", "update"])
def test_settings_of_a_choice_that_is_not_named(name: str, home: Path) -> None:
    """They stayed a dictionary, on which the guide or the planner then stumbled."""
    file = home / "run/config.json"
    config = json.loads(file.read_text())
    del (config if name in config else config["online"])[name]
    file.write_text(json.dumps(config))
    assert f"settings of a {name}" in refusal(lambda: load_run(home / "run"))


# Paths


@pytest.mark.parametrize("inside", ["diagnose", "transitions", "run.part", "checkpoints/round-001.pt", "adapt/x"])
def test_links_that_lead_out_of_a_run_are_refused(inside: str, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.mkdir()
    link = home / "run" / inside
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(elsewhere)
    assert f"{inside} is a link to a place outside" in refusal(lambda: RunFolder.open(home / "run"))


def test_links_within_a_run_and_to_it_are_welcome(home: Path) -> None:
    (home / "run/last.jsonl").symlink_to("metrics.jsonl")
    (home / "elsewhere").symlink_to(home / "run")
    assert RunFolder.open(home / "elsewhere").last_round == 1


def test_links_out_of_an_adaptation_are_refused(home: Path, tmp_path: Path) -> None:
    """Diagnosing it would remove the figures there."""
    (home / ADAPTATION / "diagnose").mkdir()
    (home / ADAPTATION / "diagnose/figures").symlink_to(tmp_path)
    assert "outside" in refusal(lambda: load_adaptation(home / ADAPTATION))


@pytest.mark.parametrize("text", ["../../x", "/etc/passwd", "..", "", "a\0b", "x" * 5000, "...", "~", "a/b\\c:d"])
def test_names_out_of_data_are_one_part_of_a_path(text: str, tmp_path: Path) -> None:
    place = tmp_path / file_name(text)
    assert place.parent == tmp_path
    assert ".." not in place.parts
    place.touch()


def test_a_label_of_logged_data_does_not_lead_out_of_the_run(home: Path) -> None:
    arrays = arrays_of(home / "log.npz")
    rows = len(arrays["state"])
    np.savez(home / "log.npz", **arrays, body=np.full(rows, "../../../../outside"))  # type: ignore[arg-type]
    before = {path for path in home.parent.rglob("*") if (home / "fit") not in path.parents}
    assert main(["adapt", str(home / "fit"), "--replay", str(home / "log.npz"), "--group", "body", "--quiet"]) == 0
    after = {path for path in home.parent.rglob("*") if (home / "fit") not in path.parents}
    assert before == after
    assert list((home / "fit/adapt").glob("*outside*/summary.json"))


# Code that comes with a run

EVIL = "import pathlib\npathlib.Path(MARKER).touch()\nfrom pyro_dynamics.environments import FAMILIES\n"
EVIL += "def family(): return FAMILIES['pendulum-gravity']\n"


def name_family(run: Path, name: str) -> None:
    file = run / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "family": name}))


def test_a_family_of_the_users_own_is_found_beside_the_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(home)
    (home / "honest_family.py").write_text(EVIL.replace("MARKER", repr(str(tmp_path / "marker"))))
    name_family(home / "run", "honest_family:family")
    assert main(["adapt", "run", "--context", "4", "--steps", "2", "--quiet"]) == 0
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("place", ["here", "package", "data.json", "path"])
def test_a_family_that_came_with_the_run_is_not_imported(
    place: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    run, name = home / ("fit" if place == "data.json" else "run"), f"evil_{place.replace('.', '_')}"
    (run / f"{name}.py").write_text(EVIL.replace("MARKER", repr(str(tmp_path / "marker"))))
    monkeypatch.chdir(home if place in ("package", "path") else run)
    if place == "data.json":
        description = json.loads((run / "data.json").read_text())
        (run / "data.json").write_text(json.dumps({**description, "family": f"{name}:family"}))
    else:  # as a package without code, down from a folder of the user's, too
        name_family(run, f"run.{name}:family" if place == "package" else f"{name}:family")
    if place == "path":
        monkeypatch.syspath_prepend(run)
    capsys.readouterr()
    where = "run" if place in ("package", "path") else "."
    assert main(["adapt", where, *(("--replay", "../log.npz") if place == "data.json" else ("--context", "4"))]) == 2
    printed = capsys.readouterr().err
    assert "code out of a run is not run" in printed
    assert len(printed.strip().splitlines()) == 1
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["os:abort", "this:c", "antigravity:fly", "os.path:abspath", "pip.__main__:main"])
def test_a_part_of_python_is_no_family(name: str, home: Path) -> None:
    name_family(home / "run", name)
    assert "a part of Python" in refusal(lambda: RunFolder.open(home / "run"))


def test_families_that_are_registered_or_not_there_pass(tmp_path: Path) -> None:
    for name in ("pendulum-gravity", "no_such_module:family", 3, None, "no.such:x", "numpy.no_such.part:x"):
        require_own_code("family", name, tmp_path)


# Versions


def test_the_format_is_recorded_and_newer_ones_are_refused(home: Path) -> None:
    for file in (home / "run/config.json", home / ADAPTATION / "summary.json", home / "results/reproduction.json"):
        values = json.loads(file.read_text())
        assert values["format"] == FORMAT
    newer = f"made by a newer version of pyro-dynamics (format {FORMAT + 1}"
    for name in ("configuration", "adaptation summary", "reproduction settings"):
        file = home / LOADERS[name].file
        honest = json.loads(file.read_text())
        file.write_text(json.dumps({**honest, "format": FORMAT + 1, "a new setting": 1}))
        printed = refusal(partial(LOADERS[name].load, home))
        assert newer in printed
        assert printed.endswith("upgrade pyro-dynamics")
        older = {key: value for key, value in honest.items() if key != "format"}
        file.write_text(json.dumps(older))  # from before there was a format
        LOADERS[name].load(home)
