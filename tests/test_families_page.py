"""What docs/reference/families.md shows works as it stands, and it lists every family."""

import re
from pathlib import Path

from pyro_dynamics import FAMILIES, Family

PAGE = (Path(__file__).parents[1] / "docs/reference/families.md").read_text()
BUILT_IN = list(FAMILIES)  # now: tests that come before may register families of their own
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(block: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(block, "docs/reference/families.md", "exec"), names)
    return names


def test_every_family_is_in_the_table() -> None:
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE) == BUILT_IN


def test_environments_are_made_by_their_ids() -> None:
    names = run(BLOCKS[0])
    assert names["env"].unwrapped.context == (0.75, 1.25)  # type: ignore[attr-defined]
    assert names["heavy"].unwrapped.context == 1.5  # type: ignore[attr-defined]


def test_the_walkers_are_made_and_hold_their_contexts() -> None:
    walkers = run(BLOCKS[1])["walkers"]
    family: Family = walkers()  # type: ignore[operator]
    for context in (*family.train, *family.test_contexts):
        env = family.make(context, 5)
        assert env.reset(seed=0)[1]["context"] == context
        assert env.reset(seed=0)[0].shape == (family.task().state_dim,)


def test_a_class_of_ones_own_holds_its_context() -> None:
    env = run(BLOCKS[2])["env"]
    assert env.context == (2.0, 0.8)  # type: ignore[attr-defined]


def test_carls_dictionaries_are_read() -> None:
    assert run(BLOCKS[3])["contexts"] == ((1.2, 0.9), (0.8, 1.0))
    assert len(BLOCKS) == 4
