from pathlib import Path

import numpy as np
import pytest

from pyro_dynamics import FAMILIES, find_family
from pyro_dynamics.environments import Schedule
from pyro_dynamics.environments.schedule_generators import ramp, random_walk, sine
from pyro_dynamics.errors import UserError

TILT, CART = find_family("halfcheetah-tilt"), find_family("cartpole-force-length")


def values(schedule: Schedule, steps: int) -> list:
    return [schedule.at(step) for step in range(steps)]


def test_steps() -> None:
    assert values(TILT.parse_schedule("0:-6,3:6"), 5) == [-6, -6, -6, 6, 6]
    assert values(CART.parse_schedule("0:10,0.5,2:force=6,length=0.4"), 3) == [(10, 0.5), (10, 0.5), (6, 0.4)]
    assert values(find_family("halfcheetah-crippled").parse_schedule("0:none,1:back-foot"), 2) == ["none", "back-foot"]


def test_a_ramp_goes_straight_from_point_to_point_and_stays() -> None:
    assert values(ramp([(0, -6.0), (2, -6.0), (5, 0.0)]), 8) == [-6, -6, -6, -4, -2, 0, 0, 0]
    assert values(TILT.parse_schedule("ramp:0:-6,2:-6,5:0"), 8) == [-6, -6, -6, -4, -2, 0, 0, 0]
    assert values(CART.parse_schedule("ramp:0:10,0.5,2:12,0.4"), 4) == [(10, 0.5), (11, 0.45), (12, 0.4), (12, 0.4)]


def test_a_sine_goes_between_two_contexts() -> None:
    schedule = TILT.parse_schedule("sine:-6:6:40", steps=80)
    assert (schedule.at(0), schedule.at(10), schedule.at(30), schedule.at(50)) == (0, 6, -6, 6)
    assert schedule.length == 80
    assert sine((10.0, 0.5), (12.0, 0.4), 4, 4).at(1) == (12.0, 0.4)


def test_a_random_walk_stays_in_its_bounds_and_is_its_seeds() -> None:
    walk = random_walk(0.0, 2.0, -5.0, 5.0, 3000, seed=1)
    path = np.array(values(walk, 3000))
    assert path[0] == 0
    assert path.min() >= -5
    assert path.max() <= 5
    assert np.ptp(path) > 9  # it comes near both
    inside = np.abs(path[:-1]) < 1  # where nothing is thrown back, steps are normal with this standard deviation
    assert 1.8 < np.diff(path)[inside].std() < 2.2
    assert TILT.parse_schedule("walk:0:2:-5:5:1", 3000) == walk
    assert TILT.parse_schedule("walk:0:2:-5:5:2", 3000) != walk
    assert TILT.parse_schedule("walk:0:2:-5:5", 9) == random_walk(0.0, 2.0, -5.0, 5.0, 9, seed=0)
    both = CART.parse_schedule("walk:10,0.5:1,0.05:6,0.4:14,0.6", 50)
    assert {type(context) for _, context in both.changes} == {tuple}


def test_a_schedule_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "named.csv").write_text("step,tilt\n0,-6\n\n4,2.5\n")
    (tmp_path / "bare.csv").write_text("0,10,0.5\n2,12,0.4\n")
    (tmp_path / "pairs.json").write_text("[[0, [10, 0.5]], [2, [12, 0.4]]]")
    (tmp_path / "names.json").write_text('[[0, "none"], [9, "back-foot"]]')
    assert TILT.parse_schedule(f"file:{tmp_path / 'named.csv'}").changes == ((0, -6.0), (4, 2.5))
    two = ((0, (10.0, 0.5)), (2, (12.0, 0.4)))
    assert CART.parse_schedule(f"file:{tmp_path / 'bare.csv'}").changes == two
    assert CART.parse_schedule(f"file:{tmp_path / 'pairs.json'}").changes == two
    crippled = find_family("halfcheetah-crippled").parse_schedule(f"file:{tmp_path / 'names.json'}")
    assert crippled.at(9) == "back-foot"


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff0,-6\n4,2.5\n",
        "\ufeffstep,tilt\r\n0,-6\r\n4,2.5\r\n",
        "step,tilt\n0.0,-6\n4.0,2.5\n",
        "0.0,-6\n4.0,2.5\n",
        "step,tilt,,\n0,-6,,\n,,,\n4,2.5,,\n",
        '"step","tilt"\n"0", "-6"\n 4 , 2.5 \n',
        ",,\nstep,tilt\n0,-6\n4,2.5\n",
    ],
)
def test_a_schedule_as_spreadsheets_and_tables_write_it(content: str, tmp_path: Path) -> None:
    (tmp_path / "saved.csv").write_text(content, newline="")
    assert TILT.parse_schedule(f"file:{tmp_path / 'saved.csv'}").changes == ((0, -6.0), (4, 2.5))
    (tmp_path / "saved.json").write_text("\ufeff[[0.0, -6], [4, 2.5]]")
    assert TILT.parse_schedule(f"file:{tmp_path / 'saved.json'}").changes == ((0, -6.0), (4, 2.5))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0;-6\n4;2,5\n", "is separated by semicolons: save it with commas"),
        ("step;tilt\n0;-6\n", "is separated by semicolons"),
        ("step\ttilt\n0\t-6\n", "is separated by tabs"),
        ("0,-6\n4.5,2.5\n", "must be a CSV file with lines of step,context"),
        ("nan,-6\n4,2.5\n", "must be a CSV file"),
        ("-1,-6\n0,2.5\n", r"starts at step 0 and continues at increasing steps, not at \[-1, 0\]"),
    ],
)
def test_what_a_schedule_file_has_wrong_is_named(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text(content, newline="")
    with pytest.raises(UserError, match=words):
        TILT.parse_schedule(f"file:{tmp_path / 'wrong.csv'}")


@pytest.mark.parametrize("name", ["slope.csv", "walks/slope.json", "~slope.csv"])
def test_a_schedule_file_may_lie_in_the_home_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walks").mkdir()
    (tmp_path / name).write_text("[[0, -6], [4, 2.5]]" if name.endswith("json") else "0,-6\n4,2.5\n")
    assert TILT.parse_schedule(f"file:~/{name}").changes == ((0, -6.0), (4, 2.5))
    assert TILT.parse_schedule(f"file:{name}").changes == ((0, -6.0), (4, 2.5))  # also where its name begins so
    with pytest.raises(UserError, match=r"nowhere\.csv cannot be read"):
        TILT.parse_schedule("file:~/nowhere.csv")


@pytest.mark.parametrize("content", ["", "a,b\nc,d\n", "0\n", "1,5\n", "0,5\n0,6\n", "0,nonsense\n", "0,1,2\n"])
def test_a_file_that_is_no_schedule_is_refused_in_words(content: str, tmp_path: Path) -> None:
    for name in ("bad.csv", "bad.json"):
        (tmp_path / name).write_text(content)
        with pytest.raises(UserError, match=r"bad|tilt|schedule starts") as error:
            TILT.parse_schedule(f"file:{tmp_path / name}")
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="cannot be read"):
        TILT.parse_schedule(f"file:{tmp_path / 'missing.csv'}")
    (tmp_path / "large.json").write_text(f"[[0, {10**400}]]")
    with pytest.raises(UserError, match="tilt must be a number of degrees"):
        TILT.parse_schedule(f"file:{tmp_path / 'large.json'}")


@pytest.mark.parametrize(
    "text",
    [
        *("", "6", "5:6", "0:1,0:2", "0:1,-3:2", "0:1,3:", "a:1", "0:1:2"),
        *("ramp:", "ramp:5", "ramp:5:1", "sine:1:2", "sine:1:2:x", "sine:1:2:0", "sine:1:2:3:4"),
        *("walk:0:1:2", "walk:0:1:-2:2:x", "walk:3:1:-2:2", "walk:0:0:-2:2", "walk:0:1:-2:2:1:1", "file:"),
    ],
)
def test_a_malformed_schedule_is_refused_in_words(text: str) -> None:
    with pytest.raises(UserError, match=r"schedule|sine|walk") as error:
        TILT.parse_schedule(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["0:1000", "ramp:0:0,10:1000", "sine:-100:6:9", "walk:0:1:-100:6"])
def test_contexts_that_the_simulator_does_not_accept_are_refused_before_anything_runs(text: str) -> None:
    with pytest.raises(UserError, match="tilt must lie between"):
        TILT.parse_schedule(text)


@pytest.mark.parametrize("text", ["ramp:0:none,9:back-foot", "sine:none:back-foot:9", "walk:none:1:none:none"])
def test_names_cannot_change_gradually(text: str) -> None:
    with pytest.raises(UserError, match="needs numbers"):
        FAMILIES["halfcheetah-crippled"].parse_schedule(text)


def test_a_course_is_followed_step_by_step() -> None:
    env = find_family("hopper-mass").make(find_family("hopper-mass").parse_schedule("ramp:0:1,4:1.4"), 20)
    env.reset(seed=0)
    seen = [env.step(0 * env.action_space.sample())[4]["context"] for _ in range(6)]
    assert seen == pytest.approx([1.0, 1.1, 1.2, 1.3, 1.4, 1.4])


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (30, "the schedule changes at steps 40 to 60, and that never comes: the episode has 30 steps"),
        (40, "the schedule changes at steps 40 to 60, and that never comes: the episode has 40 steps"),
        (60, "the schedule changes at step 60, and that never comes: the episode has 60 steps"),
        (61, ""),
    ],
)
def test_changes_after_the_last_step_are_named(steps: int, words: str) -> None:
    assert Schedule(((0, 3.0), (40, 9.0), (60, 3.0))).unreached(steps) == words
    assert Schedule.constant(3.0).unreached(1) == ""
