"""Files of logged data that are cut off, damaged, packed or of another kind than their name says."""

import gzip
from pathlib import Path

import h5py
import numpy as np
import pandas
import pytest
from logged_pendulums import pendulum_log, saved

from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.errors import UserError

ENDINGS = (".npz", ".csv", ".tsv", ".csv.gz", ".parquet", ".hdf5")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One log in every kind of file."""
    home, arrays = tmp_path_factory.mktemp("logs"), pendulum_log((2.0, 10.0), episodes=2, steps=30)
    vectors = {
        f"{part}_{i}": arrays[part][:, i]
        for part in ("state", "action", "next_state")
        for i in range(arrays[part].shape[1])
    }
    frame = pandas.DataFrame({**{name: arrays[name] for name in ("gravity", "step", "episode")}, **vectors})
    found = {ending: home / f"log{ending}" for ending in ENDINGS}
    saved(found[".npz"], arrays)
    frame.to_csv(found[".csv"], index=False)
    frame.to_csv(found[".tsv"], index=False, sep="\t")
    frame.to_csv(found[".csv.gz"], index=False)
    frame.to_parquet(found[".parquet"])
    with h5py.File(found[".hdf5"], "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return found


def complaint(file: Path) -> str:
    with pytest.raises(UserError) as fault:
        read_data(file, "gravity")
    assert str(file) in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_kind_of_file_holds_the_same(ending: str, logs: dict[str, Path]) -> None:
    ours = read_data(logs[ending], "gravity").transitions.arrays()
    for name, array in read_data(logs[".npz"], "gravity").transitions.arrays().items():
        if name != "reward":  # which the tables have not
            np.testing.assert_array_equal(ours[name], array)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.997])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_is_cut_off_is_called_damaged(
    ending: str, share: float, logs: dict[str, Path], tmp_path: Path
) -> None:
    content = logs[ending].read_bytes()
    file = tmp_path / f"cut{ending}"
    file.write_bytes(content[: int(share * len(content))])
    assert "is damaged, or cut off" in complaint(file)


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_empty_file_is_called_empty(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"empty{ending}"
    file.write_bytes(b"" if ending != ".csv.gz" else gzip.compress(b""))
    assert "is empty" in complaint(file)


@pytest.mark.parametrize("ending", [one for one in ENDINGS if one not in (".csv", ".tsv")])
@pytest.mark.parametrize("name", [".npz", ".csv", ".parquet", ".hdf5"])
def test_a_file_with_the_ending_of_another_kind_is_named_by_its_content(
    ending: str, name: str, logs: dict[str, Path], tmp_path: Path
) -> None:
    if ending != name:
        file = tmp_path / f"log{name}"
        file.write_bytes(logs[ending].read_bytes())
        assert f"is a {ending} file by its content" in complaint(file)


def test_other_damage_is_named(logs: dict[str, Path], tmp_path: Path) -> None:
    content = bytearray(logs[".npz"].read_bytes())
    content[1000:1100] = bytes(100)
    (tmp_path / "flipped.npz").write_bytes(content)
    assert "it is damaged: Bad CRC-32" in complaint(tmp_path / "flipped.npz")
    text = logs[".csv"].read_bytes()
    cut = text.index(b"\n", len(text) // 2) - 3
    (tmp_path / "zeros.csv").write_bytes(text[:cut] + bytes(500) + text[cut:])
    assert "the file is damaged there" in complaint(tmp_path / "zeros.csv")
    np.save(tmp_path / "one.npy", np.zeros((3, 2)))
    assert "holds one array alone" in complaint(tmp_path / "one.npy")
    (tmp_path / "log.json").write_text("{}")
    assert "is of no kind that is read (.npz, .csv" in complaint(tmp_path / "log.json")
    assert "there is no file" in complaint(tmp_path / "missing.hdf5")
