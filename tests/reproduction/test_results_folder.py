"""The folder of a reproduction."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.reproduction.results import Measurement, Results


@pytest.mark.parametrize("attempt", range(5))
def test_many_may_begin_one_at_once(attempt: int, tmp_path: Path) -> None:
    one = Measurement("pendulum-gravity", "latent", attempt, "test", 1)

    def begin(index: int) -> bool:
        results = Results(tmp_path / "results", "quick", {"rounds": 2, "threads": [attempt]})
        results.save(one, [{"context": 1.0, "episode": 0, "return": -1.0}], [])
        return results.has(one)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(begin, range(16)))
    with pytest.raises(UserError, match="other settings"):
        Results(tmp_path / "results", "quick", {"rounds": 3})


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="holds something else already"):
        Results(tmp_path, "quick", {})
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
