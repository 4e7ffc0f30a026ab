"""Checkpoints in files of limited size, and what a kill leaves of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box

from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io import checkpoint_files
from pyro_dynamics.io.checkpoint_files import LARGEST, save_state
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.common.factory import build_group
from pyro_dynamics.transitions import Transitions

SMALL = 4000


def some_state(seed: int, size: int = 3000) -> dict[str, Any]:
    return {"weights": torch.randn(size, generator=torch.Generator().manual_seed(seed)), "names": ["a"]}


def some_rows() -> Transitions:
    vector, whole = torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)
    return Transitions(vector, vector, vector, torch.zeros(4), whole, whole)


def save(folder: RunFolder, m: int, keep: tuple[int, ...] = (), **state: Any) -> None:
    folder.save_round(
        m, some_rows(), [{"round": m, "environment": 0, "context": 1.0, "return": 0.0}], some_state(m, **state), keep
    )


def names(folder: RunFolder) -> list[str]:
    return sorted(file.name for file in (folder.path / "checkpoints").iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(checkpoint_files, "LARGEST", SMALL)
    return RunFolder.create(tmp_path / "run", {})


def test_a_large_checkpoint_is_split_and_comes_back(folder: RunFolder) -> None:
    save(folder, 0)
    assert names(folder) == ["round-000.pt", *(f"round-000.pt.{number}" for number in (1, 2, 3, 4))]
    assert all(file.stat().st_size <= SMALL for file in (folder.path / "checkpoints").iterdir())
    assert folder.last_round == 0
    loaded = folder.checkpoint()
    assert torch.equal(loaded["weights"], some_state(0)["weights"])
    assert loaded["names"] == ["a"]


def test_a_small_checkpoint_is_a_plain_file_of_torch_as_before(folder: RunFolder) -> None:
    save(folder, 0, size=10)
    assert names(folder) == ["round-000.pt"]
    plain = torch.load(folder.path / "checkpoints" / "round-000.pt", weights_only=True)
    assert torch.equal(plain["weights"], folder.checkpoint()["weights"])


def test_runs_with_one_large_file_still_load(folder: RunFolder) -> None:
    save(folder, 0)
    file = folder.path / "checkpoints" / "round-001.pt"
    torch.save(some_state(7), file)
    assert file.stat().st_size > SMALL
    assert folder.last_round == 1
    assert torch.equal(folder.checkpoint()["weights"], some_state(7)["weights"])


def test_parts_are_dropped_with_their_checkpoint(folder: RunFolder) -> None:
    for m in range(3):
        save(folder, m, keep=(1,))
    assert {name.split(".")[0] for name in names(folder)} == {"round-001", "round-002"}
    assert torch.equal(folder.checkpoint(1)["weights"], some_state(1)["weights"])


def test_a_kill_before_the_main_file_leaves_the_round_before(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the parts of round 1: it does not count, and is written again, by a run with fewer parts too."""
    save(folder, 0)
    write = checkpoint_files.write_bytes

    def killed(path: Path, content: bytes) -> None:
        if path.suffix == ".pt":
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            save(folder, 1)
    (folder.path / "checkpoints" / "round-001.pt.2.part").write_bytes(b"begun")
    assert "round-001.pt.4" in names(folder)
    assert folder.last_round == 0
    assert torch.equal(folder.checkpoint()["weights"], some_state(0)["weights"])

    save(folder, 1, size=1200)
    assert names(folder) == ["round-001.pt", "round-001.pt.1", "round-001.pt.2"]
    assert torch.equal(folder.checkpoint()["weights"], some_state(1, 1200)["weights"])


def test_a_kill_between_main_file_and_parts_is_cleaned_up_later(folder: RunFolder) -> None:
    save(folder, 0)
    (folder.path / "checkpoints" / "round-000.pt").unlink()  # killed while it was dropped
    save(folder, 1)
    assert all(name.startswith("round-001") for name in names(folder))


def test_a_missing_part_is_named(folder: RunFolder) -> None:
    save(folder, 0)
    (folder.path / "checkpoints" / "round-000.pt.3").unlink()
    with pytest.raises(UserError, match=r"round-000\.pt\.3, part 3 of the 4 of .*\.pt, cannot be read") as error:
        folder.checkpoint()
    assert len(str(error.value).splitlines()) == 1


def test_a_foreign_part_is_named(folder: RunFolder) -> None:
    for m in range(2):
        save(folder, m, keep=(0,))
    part = folder.path / "checkpoints" / "round-000.pt.2"
    other = folder.path / "checkpoints" / "round-001.pt.2"
    assert part.stat().st_size == other.stat().st_size
    part.write_bytes(other.read_bytes())
    with pytest.raises(UserError, match=r"round-000\.pt\.2 is not part 2 .* of another checkpoint"):
        folder.checkpoint(0)
    folder.checkpoint(1)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_file_that_is_no_checkpoint_is_refused_in_one_line(content: bytes | None, folder: RunFolder) -> None:
    file = folder.path / "checkpoints" / "round-000.pt"
    if content is None:
        torch.save({"parts": 3}, file)
    else:
        file.write_bytes(content)
    with pytest.raises(UserError, match="is not a checkpoint") as error:
        folder.checkpoint()
    assert len(str(error.value).splitlines()) == 1


def test_the_papers_specialists_come_in_files_of_at_most_15_mib(tmp_path: Path) -> None:
    """The largest state that a preset gives: five agents of 5 x 4 x 200, with Adam's moments."""
    family = find_family("halfcheetah-tilt")
    group = build_group(
        replace(preset_config("halfcheetah-tilt", "paper"), agent="specialist", precision="float32"),
        family,
        Box(-1.0, 1.0, (6,)),
    )
    for agent in group.agents:
        for parameter in agent.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        agent.offline.optimiser.step()
    save_state(tmp_path / "round-080.pt", group.state_dict())
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert sum(sizes) > 2 * LARGEST  # so that there is something to split
    assert max(sizes) <= LARGEST == 15 * 1024 * 1024
