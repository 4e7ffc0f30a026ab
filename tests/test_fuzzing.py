"""A short turn of the fuzzer over every loader; ``tests/fuzz_loaders.py`` takes as long as one likes."""

import os
from collections import Counter
from pathlib import Path

import pytest
from foreign_files import LOADERS, make_samples
from fuzz_loaders import fuzz

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("PYRO_DYNAMICS_FUZZ_EXAMPLES", "15"))
"""Damaged files of each kind."""
SEED = int(os.environ.get("PYRO_DYNAMICS_FUZZ_SEED", "0"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.mark.parametrize("name", LOADERS)
def test_an_honest_file_is_read(name: str, home: Path) -> None:
    LOADERS[name].load(home)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_give_the_users_error_and_no_other(name: str, home: Path) -> None:
    counts: Counter[str] = Counter()
    fuzz(home, LOADERS[name], EXAMPLES, SEED, counts)
    assert counts["tries"] == counts["refused"] + counts["read"] >= min(EXAMPLES, 10)
    assert counts["refused"]
