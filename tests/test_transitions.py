from pathlib import Path

import numpy as np
import pytest
import torch

from pyro_dynamics.errors import UserError
from pyro_dynamics.transitions import Transitions, shuffled_minibatches


def some_transitions(count: int, environments: int = 3) -> Transitions:
    column = torch.arange(count, dtype=torch.float32)
    pair = torch.stack([column, -column], 1)
    return Transitions(pair, column[:, None], pair + 1, column, torch.arange(count) % environments, torch.arange(count))


def test_every_member_sees_every_row_once_an_epoch_in_an_order_of_its_own(generator: torch.Generator) -> None:
    data = some_transitions(10)

    def epoch() -> torch.Tensor:
        batches = list(
            shuffled_minibatches(data.state, data.next_state, data.environment, members=3, size=4, generator=generator)
        )
        assert [batch.environment.shape[1] for batch in batches] == [4, 4, 2]
        assert all(batch.total == 10 for batch in batches)
        for batch in batches:  # rows stay together
            assert torch.equal(batch.targets, batch.inputs + 1)
            assert torch.equal(batch.environment, batch.inputs[..., 0].long() % 3)
        return torch.cat([batch.inputs[..., 0] for batch in batches], dim=1)

    first, second = epoch(), epoch()
    for order in (*first, *second):
        assert torch.equal(order.sort().values, data.reward)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("environments", "count", "some"), [(30, 600, 4), (7, 100, 2), (3, 50, 1), (50, 75, 4)])
def test_minibatches_of_a_few_environments_have_every_row_once_too(
    environments: int, count: int, some: int, generator: torch.Generator
) -> None:
    """The same environments for all members, each with rows of its own; the order differs from epoch to epoch."""
    data = some_transitions(count, environments)
    size = 16
    epochs = []
    for _ in range(2):
        batches = list(
            shuffled_minibatches(data.state, data.next_state, data.environment, 3, size, generator, environments=some)
        )
        order = torch.cat([batch.inputs[..., 0] for batch in batches], dim=1)
        for rows in order:
            assert torch.equal(rows.sort().values, data.reward)
        assert not torch.equal(order[0], order[1])
        for batch in batches:
            assert torch.equal(batch.environment, batch.environment[:1].expand(3, -1))
            assert torch.equal(batch.environment, batch.inputs[..., 0].long() % environments)
        smallest = count // environments  # an environment with fewer rows than its block fills less of a minibatch
        most = max(-(-size // min(smallest, size // some)) + 1, some + 2)
        assert max(len(batch.environment.unique()) for batch in batches) <= most
        epochs.append(order)
    assert not torch.equal(*epochs)


def test_selecting_environments_numbers_them_anew() -> None:
    part = some_transitions(9).of([2, 1])
    assert part.reward.tolist() == [1, 2, 4, 5, 7, 8]
    assert part.environment.tolist() == [1, 0, 1, 0, 1, 0]


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    data = some_transitions(5)
    np.savez(tmp_path / "data.npz", **data.arrays())  # type: ignore[arg-type]
    loaded = Transitions.load(tmp_path / "data.npz")
    assert all(np.array_equal(array, loaded.arrays()[name]) for name, array in data.arrays().items())


def test_a_file_of_something_else_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("nothing")
    np.savez(tmp_path / "objects.npz", state=np.array([{}], dtype=object))
    for name in ("text.npz", "objects.npz", "missing.npz"):
        with pytest.raises(UserError, match="does not hold transitions"):
            Transitions.load(tmp_path / name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("environment", np.zeros(5, dtype=np.float32)),
        ("environment", -np.ones(5, dtype=np.int64)),
        ("state", np.zeros((4, 2), dtype=np.float32)),
        ("reward", np.zeros((5, 1), dtype=np.float32)),
        ("next_state", np.zeros((5, 3), dtype=np.float32)),
    ],
)
def test_fields_that_do_not_belong_together_are_refused(field: str, value: np.ndarray, tmp_path: Path) -> None:
    arrays = some_transitions(5).arrays() | {field: value}
    np.savez(tmp_path / "damaged.npz", allow_pickle=False, **arrays)
    with pytest.raises(UserError, match="does not hold transitions"):
        Transitions.load(tmp_path / "damaged.npz")


def test_what_is_of_another_run_or_not_finite_is_named() -> None:
    data = some_transitions(6)
    data.require_of(3, 2, 1, "here")
    data.require_finite("here")
    with pytest.raises(UserError, match=r"here: there are transitions of the environments \[0, 1, 2\], not of 0 to 3"):
        data.require_of(4, 2, 1, "here")
    with pytest.raises(UserError, match="here: there are transitions of the environment 2, not of 0 to 1 alone"):
        data.require_within(2, 2, 1, "here")
    with pytest.raises(UserError, match="2 and 1 entries, not 18 and 6"):
        data.require_of(3, 18, 6, "here")
    data.action[4] = torch.inf
    with pytest.raises(UserError, match="here: the action of environment 1 at step 4 is not finite"):
        data.require_finite("here")


def test_episodes_of_environments_in_lockstep_are_separated() -> None:
    """Two instances of environment 0 alternate with one of environment 1; the first stops early and starts again."""
    environment = torch.tensor([0, 0, 1, 0, 0, 1, 0, 0, 1])
    step = torch.tensor([0, 0, 0, 1, 1, 1, 0, 2, 2])
    state = torch.tensor([0.0, 10, 20, 1, 11, 21, 5, 12, 22])[:, None]
    data = Transitions(state, state, state + 1, state[:, 0], environment, step)
    assert [rows.tolist() for rows in data.episodes()] == [[0, 3], [1, 4, 7], [2, 5, 8], [6]]
