"""The house's own rules: who may import whom, and what a wheel holds."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    file.relative_to(ROOT)
    for folder in ("pyro_dynamics", "models", "guides", "runners")
    for file in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in file.parents)
)

C_SOURCES = [f"models/{name}" for name in ("fused.c", "fused_noise.h", "fused_float32.h", "fused_bfloat16.h")]
C_SOURCES += ["benchmarks/avx2_only.c"]

FLOORS = [
    {
        *("errors", "version", "data_files", "parameters", "cuda_graphs", "gymnasium_ids", "command_start"),
        *("given_numbers", "progress_lines", "registry", "seeding"),
    },
    {"tasks", "transitions", "processor", "unusual_numbers"},
    {"contracts", "likely_angles"},
    {"observation"},
    {"environments", "models", "guides", "inference", "control"},
    {"agent"},
    {"agent_group", "last_layer_agent"},
    {"diagnostics", "io"},
    {"rollouts"},
    {"datasets", "online_belief", "online_verdict"},
    {"reproduction", "sweeps", "benchmarks", "online_agent"},
    {"plots"},
    {"reports"},
    {"runners"},
    {"interface"},
    {"__init__"},
    {"__main__"},
]
"""Who may import whom: a part imports from lower floors alone. Within a floor only errors are open to all."""
LEARNED = {"models", "guides"}
"""What the rest never names: it takes models and guides as objects."""


def imported_modules(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} uses a relative import"
            modules |= {node.module or ""}
    return modules


@pytest.mark.parametrize("file", SOURCES, ids=str)
def test_imports_follow_the_house_rule(file: Path) -> None:
    modules = imported_modules(file)
    bare = {module.split(".")[0] for module in modules} & {"models", "guides", "runners"}
    assert not bare, f"{file} imports {bare} by its bare name"

    part = file.parts[1] if file.parts[0] == "pyro_dynamics" else file.parts[0]
    part = part.removesuffix(".py")
    floor = next(index for index, parts in enumerate(FLOORS) if part in parts)
    below = set().union(*FLOORS[:floor]) | {"errors"}
    if part not in ("runners", "interface", "__init__"):
        below -= LEARNED
    if part in LEARNED:  # torch and Pyro, and the plain types that they share with the rest
        below &= {"contracts", "errors", "parameters", "registry", "transitions"}
    imported = {module.split(".")[1] for module in modules if module.startswith("pyro_dynamics.")}
    assert imported - {part} <= below, f"{file} imports {imported - {part} - below}"


def test_the_rule_covers_every_part() -> None:
    assert len(SOURCES) > 30
    parts = {file.parts[1].removesuffix(".py") for file in SOURCES if file.parts[0] == "pyro_dynamics"}
    assert parts <= set().union(*FLOORS)


def test_every_package_is_named() -> None:
    """A wheel holds the packages that pyproject.toml names, and no others."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {file.parent for file in SOURCES if file.name == "__init__.py"}
    assert named == sorted(".".join(("pyro_dynamics", *as_imported(folder).parts[1:])) for folder in folders)


@pytest.mark.parametrize("links", [True, False], ids=["links", "text files in place of links"])
def test_wheels_hold_exactly_the_tree(tmp_path: Path, links: bool) -> None:
    """Built from a checkout with links, and from one as git makes it where there are none (core.symlinks=false)."""
    copy, listed = copy_tree(tmp_path / "tree", links)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(tmp_path), str(copy)], check=True)
    expected = {str(as_imported(file)) for file in SOURCES if str(file) in listed} | {
        f"pyro_dynamics/{name}" for name in [*C_SOURCES, "py.typed"]
    }
    assert held_by(tmp_path) == expected
    by_setuptools = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    subprocess.run([sys.executable, "-c", by_setuptools], cwd=copy, check=True, capture_output=True)
    (source,) = tmp_path.glob("*.tar.gz")
    subprocess.run([*build, "-w", str(tmp_path / "from-source"), str(source)], check=True)
    assert held_by(tmp_path / "from-source") == expected


def as_imported(path: Path) -> Path:
    """``models/...`` as ``pyro_dynamics/models/...``."""
    return path if path.parts[0] == "pyro_dynamics" else Path("pyro_dynamics", path)


def held_by(folder: Path) -> set[str]:
    """What the one wheel in this folder holds of the package."""
    (wheel,) = folder.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("pyro_dynamics/")}


def copy_tree(copy: Path, links: bool) -> tuple[Path, list[str]]:
    """The files that git knows, and their names; links become text files where there are none."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink() and links:
            target.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_symlink():
            target.write_text(str((ROOT / name).readlink()))
        elif (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    return copy, listed
