"""Files from strangers are data: nothing in them is run, nothing leads out of their folder, and memory is bounded."""

import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_files import ADAPTATION, LOADERS, arrays_of, make_samples

from pyro_dynamics.errors import UserError
from pyro_dynamics.io import checkpoint_files
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.io.untrusted_folders import FORMAT, file_name, require_own_code
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

ROOT = Path(__file__).parents[1]
CODE = re.compile(
    r"\bimport (c?pickle|dill|cloudpickle|joblib|shelve|marshal|yaml)\b|\bfrom (c?pickle|dill|joblib|shelve|marshal)\b"
    r"|allow_pickle=True|\beval\(|(?<!\.)\bexec\(|yaml\.(unsafe_)?load|shell=True|os\.system|read_pickle|pickle\.load"
)
LOADS = re.compile(r"torch\.load\(([^\n]*)")
NUMPY = re.compile(r"\b(np|numpy)\.(load|fromfile|memmap)\(([^\n]*)")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def home(samples: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples, tmp_path / "home"))


def refusal(load: Callable[[], Any]) -> str:
    """The one line in which something is refused."""
    with pytest.raises(UserError) as told:
        load()
    words = " ".join(str(told.value).split())
    assert words
    return words


# Nothing is run


def sources() -> list[Path]:
    folders = ("pyro_dynamics", "models", "guides", "runners")
    return [
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in file.parents)
    ]


def test_no_source_loads_code_out_of_data() -> None:
    found: dict[str, list[str]] = {}
    for file in sources():
        text = file.read_text()
        bad = [match[0] for match in CODE.finditer(text) if not match[0].startswith("eval(") or ".eval(" not in text]
        bad += [match[0] for match in LOADS.finditer(text) if "weights_only=True" not in match[1]]
        bad += [match[0] for match in NUMPY.finditer(text)]  # arrays are read by data_files alone
        found |= {file.name: bad} if bad else {}
    assert len(sources()) > 100
    assert not found


class Creates:
    """What is pickled so that, unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def write_objects(file: Path, marker: Path) -> None:
    """An npz one of whose arrays, or a checkpoint one of whose values, is such an object."""
    if file.suffix == ".pt":
        state = torch.load(file, weights_only=True)
        torch.save({**state, "more": Creates(marker)}, file)
        return
    arrays = arrays_of(file)
    name = sorted(arrays)[0]
    arrays[name] = np.full(len(arrays[name]), Creates(marker), dtype=object)
    np.savez(file, allow_pickle=True, **arrays)


@pytest.mark.parametrize(
    "name", ["checkpoint", "transitions", "adaptation transitions", "adaptation beliefs", "logged npz"]
)
def test_objects_in_files_are_refused_and_do_nothing(name: str, home: Path, tmp_path: Path) -> None:
    loader, marker = LOADERS[name], tmp_path / "marker"
    write_objects(home / loader.file, marker)
    told = refusal(lambda: loader.load(home))
    assert re.search(r"Python objects|names (posix|nt) mkdir", told), told
    assert not marker.exists()
    # The file was dangerous: read without care, it does make the marker.
    careless = (
        f"import torch; torch.load({str(home / loader.file)!r}, weights_only=False)"
        if name == "checkpoint"
        else f"import numpy; dict(numpy.load({str(home / loader.file)!r}, allow_pickle=True))"
    )
    subprocess.run([sys.executable, "-c", careless], check=True)
    assert marker.exists()


def test_a_checkpoint_may_not_call_what_takes_memory(home: Path) -> None:
    """``bytearray(n)`` is allowed by torch's ``weights_only``."""
    file = home / LOADERS["checkpoint"].file
    rewrite(file, "data.pkl", lambda _: b"\x80\x02c__builtin__\nbytearray\nJ\x00\x00\x00\x70\x85R.")
    assert "names __builtin__ bytearray" in refusal(lambda: LOADERS["checkpoint"].load(home))


def rewrite(file: Path, ending: str, change: Callable[[bytes], bytes], compress: int = zipfile.ZIP_STORED) -> None:
    """Change the members of an archive whose names end so."""
    out = io.BytesIO()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(out, "w", compress) as fresh:
        for name in archive.namelist():
            content = archive.read(name)
            fresh.writestr(name, change(content) if name.endswith(ending) else content)
    file.write_bytes(out.getvalue())


# StreamState


def header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_2_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue()


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "10^12 rows": lambda _: header((10**12, 3)) + bytes(64),
    "10^12 rows of nothing": lambda _: header((10**12,), "|V0"),
    "-1 rows": lambda _: header((-1, 3)),
    "4 GiB of zeros": lambda _: header((2**30,)) + bytes(2**20),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", ["transitions", "adaptation transitions", "logged npz"])
def test_arrays_that_claim_more_than_is_there(name: str, bomb: str, home: Path) -> None:
    rewrite(home / LOADERS[name].file, "state.npy", BOMBS[bomb])
    assert re.search(
        r"says that it is|cannot be read|hold transitions|damaged", refusal(lambda: LOADERS[name].load(home))
    )


IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from foreign_files import LOADERS
from pyro_dynamics.errors import UserError
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    LOADERS[sys.argv[2]].load(Path(sys.argv[3]))
except UserError as told:
    print("refused:", " ".join(str(told).split()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used)
"""


def load_in_little_memory(name: str, home: Path) -> tuple[str, int]:
    """What a process with 8 GB of addresses says of a file, and how many kB it took for it."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))

    ran = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, str(Path(__file__).parent), name, str(home)],
        capture_output=True, text=True, check=True, preexec_fn=limit,
    )  # fmt: skip
    *words, took = ran.stdout.splitlines()
    assert len(words) == 1, ran.stdout + ran.stderr
    return words[0], int(took)


@pytest.mark.slow
def test_a_zip_bomb_takes_no_memory(home: Path) -> None:
    """1.1 GiB of zeros, and as honest a header, in 5 MB."""
    file = home / "log.npz"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("state.npy", "w", force_zip64=True) as member,
    ):
        member.write(header((17 * 2**24, 1)))
        for _ in range(17 * 2**2):
            member.write(bytes(2**24))
    told, took = load_in_little_memory("logged npz", home)
    assert "unpack to 1.1 GiB" in told
    assert took < 300_000


def test_a_member_that_is_longer_than_it_says(home: Path) -> None:
    """The size in the archive's directory is a lie: what is read ends there, and its checksum does not fit."""
    file = home / "log.npz"
    content = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo("state.npy")
    at = content.rindex(b"PK\x01\x02", 0, content.rindex(b"state.npy"))
    content[at + 24 : at + 28] = (info.file_size - 12).to_bytes(4, "little")
    file.write_bytes(content)
    refusal(lambda: LOADERS["logged npz"].load(home))


def test_json_nested_100_000_deep(home: Path) -> None:
    for name, loader in LOADERS.items():
        if Path(loader.file).suffix in (".json", ".jsonl"):
            file = home / loader.file
            honest = file.read_bytes()
            file.write_bytes(b"[" * 100_000 + b"]" * 100_000 + b"\n")
            assert "nested too deeply" in refusal(partial(loader.load, home)) or "schedule" in name
            file.write_bytes(honest)


@pytest.mark.parametrize(
    "bad",
    [
        {"round": -1},
        {"round": 10**400},
        {"round": 1.5},
        {"return": float("nan")},
        {"return": 10**400},
        {"environment": -3},
    ],
)
def test_metrics_of_nonsense(bad: dict[str, Any], home: Path) -> None:
    file = home / "run/metrics.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **bad}), *rest]))
    told = refusal(lambda: LOADERS["metrics"].load(home))
    assert "line 1" in told
    assert len(told) < 500


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


def test_a_tensor_that_claims_a_terabyte(home: Path) -> None:
    """One stored number, seen 10^12 times."""
    file = home / "run/checkpoints/round-001.pt"
    torch.save({"agents": [torch.zeros(1).expand(10**12)]}, file)
    assert "claim" in refusal(lambda: load_run(home / "run"))


def test_a_storage_that_is_not_there(home: Path) -> None:
    file = home / "run/checkpoints/round-001.pt"
    torch.save({"a": torch.arange(1000.0)}, file)
    rewrite(file, "data.pkl", lambda content: content.replace((1000).to_bytes(2, "little"), b"\x60\xea"))
    assert "is not a checkpoint" in refusal(lambda: load_run(home / "run"))
    torch.save({"a": torch.arange(1000.0)}, file)
    rewrite(file, "data/0", lambda content: content[:100])
    assert "is not a checkpoint" in refusal(lambda: load_run(home / "run"))


def test_a_compressed_checkpoint_is_not_unpacked(home: Path) -> None:
    file = home / "run/checkpoints/round-001.pt"
    rewrite(file, "data/0", lambda _: bytes(2**24), zipfile.ZIP_DEFLATED)
    assert "compressed" in refusal(lambda: load_run(home / "run"))


def test_torchs_old_form_which_trusts_its_sizes_is_not_read(home: Path) -> None:
    file = home / "run/checkpoints/round-001.pt"
    torch.save({"a": torch.zeros(3)}, file, _use_new_zipfile_serialization=False)
    assert "is not a checkpoint" in refusal(lambda: load_run(home / "run"))


def test_parts_that_are_too_large_together(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "run/checkpoints/round-001.pt"
    monkeypatch.setattr(checkpoint_files, "LARGEST_STATE", 1000)
    assert "more than the 1000" in refusal(lambda: load_run(home / "run"))
    assert file.stat().st_size > 1000


@pytest.mark.parametrize("name", ["configuration", "transitions", "logged npz", "checkpoint"])
def test_a_pipe_in_the_place_of_a_file_does_not_wait(name: str, home: Path) -> None:
    file = home / LOADERS[name].file
    file.unlink()
    os.mkfifo(file)
    refusal(lambda: LOADERS[name].load(home))


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
    """Diagnosing it would remove the pictures there."""
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
    told = capsys.readouterr().err
    assert "code out of a run is not run" in told
    assert len(told.strip().splitlines()) == 1
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["os:abort", "this:c", "antigravity:fly", "os.path:abspath", "pip.__main__:main"])
def test_a_part_of_python_is_no_family(name: str, home: Path) -> None:
    name_family(home / "run", name)
    assert "a part of Python" in refusal(lambda: RunFolder.open(home / "run"))


def test_families_that_are_registered_or_not_there_pass(tmp_path: Path) -> None:
    for name in ("pendulum-gravity", "no_such_module:family", 3, None, "no.such:x", "numpy.no_such.part:x"):
        require_own_code("family", name, tmp_path)


# Versions


def test_the_format_is_recorded_and_newer_ones_are_told(home: Path) -> None:
    for file in (home / "run/config.json", home / ADAPTATION / "summary.json", home / "results/reproduction.json"):
        values = json.loads(file.read_text())
        assert values["format"] == FORMAT
    newer = f"made by a newer version of pyro-dynamics (format {FORMAT + 1}"
    for name in ("configuration", "adaptation summary", "reproduction settings"):
        file = home / LOADERS[name].file
        honest = json.loads(file.read_text())
        file.write_text(json.dumps({**honest, "format": FORMAT + 1, "a new setting": 1}))
        told = refusal(partial(LOADERS[name].load, home))
        assert newer in told
        assert told.endswith("upgrade pyro-dynamics")
        older = {key: value for key, value in honest.items() if key != "format"}
        file.write_text(json.dumps(older))  # from before there was a format
        LOADERS[name].load(home)


# Crashes that the fuzzer found


@pytest.mark.parametrize("name", ["guide", "planner", "belief", "update"])
def test_settings_of_a_choice_that_is_not_told(name: str, home: Path) -> None:
    """They stayed a dictionary, on which the guide or the planner then stumbled."""
    file = home / "run/config.json"
    config = json.loads(file.read_text())
    del (config if name in config else config["online"])[name]
    file.write_text(json.dumps(config))
    assert f"settings of a {name}" in refusal(lambda: load_run(home / "run"))


@pytest.mark.parametrize("value", [None, "missing"])
def test_returns_that_are_not_there(value: Any, home: Path) -> None:
    file = home / "run/metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["return"] = None
    if value == "missing":
        del rows[0]["return"]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert "return" in refusal(lambda: LOADERS["metrics"].load(home))


def test_a_description_without_labels(home: Path) -> None:
    file = home / "fit/data.json"
    values = json.loads(file.read_text())
    del values["labels"]
    file.write_text(json.dumps(values))
    assert "damaged" in refusal(lambda: LOADERS["description of logged data"].load(home))


# Other tensors than Transitions would hold


def test_transitions_of_other_types_are_refused(home: Path) -> None:
    file = home / "run/transitions/round-001.npz"
    for kind in ("f8", "i4", "U3", "c8", ">f4"):
        np.savez(file, **{**arrays_of(home / "run/transitions/round-000.npz"), "reward": np.zeros(60, kind)})  # type: ignore[arg-type]
        assert "does not hold transitions" in refusal(lambda: Transitions.load(file))
