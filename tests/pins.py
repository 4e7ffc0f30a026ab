"""Whether constraints.txt resolves for a stranger: by the registry's metadata alone, with no wheel from a local disk.

    python tests/pins.py

Each Python from 3.11 to 3.13 that this machine has resolves the package and its tests by a fresh pip's dry run. Then
uv, which needs neither another Python nor another system, resolves all extras for Linux, macOS and Windows, from
wheels alone. Nothing is installed but uv, in a folder that is removed. The exit code is 1 if anything does not resolve.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")
NAMED = ("torch", "triton", "numpy", "mujoco", "gymnasium", "arviz-base", "ray")
"""Packages whose versions are printed: those that differ between systems, and those that matter most."""
BARE = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_FIND", "PIP_EXTRA", "UV_"))} | {
    "PIP_CONFIG_FILE": os.devnull,
    "MACOSX_DEPLOYMENT_TARGET": "14.0",  # torch's wheels need it
}


def main() -> int:
    """Print a line for each resolution; 1 if one fails."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for version in PYTHONS:
            python = find_python(version)
            if python is None:
                print(f"pip, Python {version}: there is none here, and this was not tried")
                continue
            for extra in ("", "[test]"):
                failures += not report(f"pip, Python {version}, .{extra}", *by_pip(python, extra, Path(folder)))
        uv = install_uv(Path(folder))
        for version in PYTHONS:
            for platform in PLATFORMS:
                failures += not report(f"uv, Python {version}, {platform}", *by_uv(uv, version, platform))
    print("every pin resolves" if not failures else f"{failures} do not resolve")
    return int(bool(failures))


def find_python(version: str) -> str | None:
    """A Python of this version: the running one, one on the PATH, or one of pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{version}.*/bin/python{version}"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def by_pip(python: str, extra: str, folder: Path) -> tuple[dict[str, str], str]:
    """What pip of a fresh environment would install, or what it says."""
    programs, out = environment(python, Path(tempfile.mkdtemp(dir=folder))), folder / "report.json"
    install = [str(programs / "python"), "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    target = ["--report", str(out), "-c", str(ROOT / "constraints.txt"), f"{ROOT}{extra}"]
    ran = subprocess.run([*install, *target], env=BARE, capture_output=True, text=True)
    if ran.returncode:
        return {}, ran.stderr
    found = [row["metadata"] for row in json.loads(out.read_text())["install"]]
    return {row["name"].lower(): row["version"] for row in found}, ""


def install_uv(folder: Path) -> Path:
    """uv, in an environment of its own."""
    programs = environment(sys.executable, folder / "uv")
    subprocess.run([str(programs / "python"), "-m", "pip", "install", "-q", "uv"], env=BARE, check=True)
    return programs / "uv"


def environment(python: str, folder: Path) -> Path:
    """Make a virtual environment; the folder of its programs."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def by_uv(uv: Path, version: str, platform: str) -> tuple[dict[str, str], str]:
    """What all extras need on another system, or what uv says."""
    compiled = [str(uv), "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate", "--all-extras"]
    target = ["--python-version", version, "--python-platform", platform, "--only-binary", ":all:"]
    files = ["-c", str(ROOT / "constraints.txt"), str(ROOT / "pyproject.toml")]
    ran = subprocess.run([*compiled, *target, *files], env=BARE, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        return {}, ran.stderr
    lines = [line.partition(" ")[0] for line in ran.stdout.splitlines() if "==" in line]
    return dict(line.split("==") for line in lines), ""


def report(what: str, found: dict[str, str], fault: str) -> bool:
    """Print one line, or what went wrong; whether it resolved."""
    named = ", ".join(f"{name} {found[name]}" for name in NAMED if name in found)
    print(f"{what}: {f'{len(found)} packages: {named}' if found else 'DOES NOT RESOLVE'}", flush=True)
    if fault:
        print(fault.strip(), file=sys.stderr, flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
