"""Real flights: the residual force on a drone in winds, predicted causally, one belief updated at every step.

The data are those of Neural-Fly (O'Connell, Shi, Shi, Azizzadenesheli, Anandkumar, Yue and Chung, Science Robotics
2022, arXiv:2205.06908), which the user has downloaded: they are read from a folder, and no part of them is here.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks.belief.measures import half_width
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.datasets.columns import out_of_cells
from pyro_dynamics.datasets.log_arrays import refuse_not_finite
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.last_layer_agent import LastLayerAgent
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

SIZES = {"v": 3, "q": 4, "pwm": 4, "fa": 3}
"""Columns that are read, each with a list of so many numbers in a cell: velocity in m/s, attitude (a quaternion), what
the four motors are commanded, and the residual force in N."""
PWM = 1000.0
"""Unit of the motors' commands, as the authors have it."""
STATE = SIZES["v"] + SIZES["q"]
FEWEST = 50
"""Steps of a flight: one second."""
PUBLISHED = {"nowind": 0.45, "35wind": 0.74, "70wind": 1.17, "100wind": 1.89}
"""Mean squared errors that the authors' notebook prints for their network, whose last layer is fitted to ALL of a test
flight by least squares before that flight is predicted."""
FORCES = ("force 0", "last force")
"""What is predicted without a model: no residual force at all, and that of the step before."""
Split = Literal["authors", "winds"]


class ForceTask(Task):
    """The residual force in this step, from velocity, attitude and motor commands; nothing is planned.

    A state holds velocity and attitude, and the force in the step before, which is no input of the network.
    """

    state_dim, action_dim, feature_dim, target_dim = STATE + SIZES["fa"], SIZES["pwm"], STATE, SIZES["fa"]
    target_names = tuple(f"residual force {axis} (N)" for axis in "xyz")

    def features(self, state: Tensor) -> Tensor:
        return state[..., :STATE]

    def targets(self, state: Tensor, next_state: Tensor) -> Tensor:
        return next_state[..., STATE:]

    def next_state(self, state: Tensor, target: Tensor) -> Tensor:
        return torch.cat([state[..., :STATE], target], dim=-1)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros_like(next_state[..., 0])


@dataclass(frozen=True)
class Flight:
    """One flight.

    Attributes:
        name: of its file.
        wind: what the fans did, in the words of the file's name: ``nowind``, ``35wind`` (per cent of their power).
        controller: which flew: ``baseline``, and others.
        steps: its T - 1 steps of 0.02 s, as transitions of environment 0.
    """

    name: str
    wind: str
    controller: str
    steps: Transitions

    @property
    def force(self) -> Tensor:
        """What is to be predicted, ``[T - 1, 3]`` in N."""
        return ForceTask().targets(self.steps.state, self.steps.next_state)


def splits(folder: Path, split: Split) -> list[tuple[list[Flight], list[Flight]]]:
    """Which flights are learned from, and which are then predicted: always those of the baseline controller.

    Args:
        folder: the repository's.
        split: the authors' own, ``data/training`` against ``data/experiment``; or each wind of ``data/experiment``
            against all flights in other winds.

    Raises:
        UserError: if there are no such flights, or a file is not one.
    """
    flown = read_flights(folder, "experiment")
    tests = [flight for flight in flown if flight.controller == "baseline"]
    if not tests:
        raise UserError(
            f"{folder / 'data/experiment'} has no flight of the baseline controller, NAME_baseline_WIND.csv"
        )
    if split == "authors":
        return [(read_flights(folder, "training"), tests)]
    found = [([flight for flight in flown if flight.wind != test.wind], [test]) for test in tests]
    if min(len({flight.wind for flight in learned}) for learned, _ in found) < 2:
        raise UserError(f"{folder / 'data/experiment'} has flights in too few winds: a latent needs two to learn from")
    return found


def read_flights(folder: Path, part: str) -> list[Flight]:
    """The flights of one part of the data, from the weakest wind to the strongest.

    Raises:
        UserError: if there are none, or a file is not one.
    """
    place = folder / "data" / part
    files = without_clutter(place.glob("*.csv"), place)
    if not files:
        raise UserError(
            f"{place} has no flights: give the folder of a copy of github.com/aerorobotics/neural-fly, which has "
            "data/training/*.csv and data/experiment/*.csv (--split winds needs the latter alone)"
        )
    return sorted(map(read_flight, files), key=lambda flight: (_power(flight.wind), flight.wind, flight.name))


def read_flight(file: Path) -> Flight:
    """The flight in a file VEHICLE_TRAJECTORY_CONTROLLER_WIND.csv.

    Raises:
        UserError: naming the file and what is wrong with it.
    """
    from pyro_dynamics.datasets.table_data import read_csv  # here, as pandas takes long

    words = file.stem.split("_")
    if len(words) != 4:
        raise UserError(f"{file}: a flight's file is called VEHICLE_TRAJECTORY_CONTROLLER_WIND.csv")
    frame = read_csv(file)
    missing = [name for name in SIZES if name not in frame]
    if missing:
        raise UserError(f"{file} has no column {', '.join(missing)}: a flight has {', '.join(SIZES)}, a list in a cell")
    if len(frame) < FEWEST:
        raise UserError(f"{file} has {len(frame)} steps: a flight needs {FEWEST} or more")
    parts = {name: _vectors(str(file), name, frame[name].tolist()) for name in SIZES}
    before = np.concatenate([np.zeros((1, SIZES["fa"])), parts["fa"][:-1]])
    states = torch.from_numpy(np.concatenate([parts["v"], parts["q"], before], 1)).float()
    action = torch.from_numpy(parts["pwm"][:-1] / PWM).float()
    count = torch.arange(len(action))
    steps = Transitions(states[:-1], action, states[1:], torch.zeros(len(count)), torch.zeros_like(count), count)
    return Flight(file.stem, words[3], words[2], steps)


def _vectors(where: str, name: str, texts: Sequence[object]) -> np.ndarray:
    """A column whose cells are lists of numbers as text, ``[T, size]``."""
    cells = np.empty(len(texts), dtype=object)
    for row, text in enumerate(texts):
        try:
            cells[row] = json.loads(str(text))
        except ValueError:
            raise UserError(f"{where}: {name} is {str(text)[:40]!r} in row {row}, and no list of numbers") from None
    values = out_of_cells(where, name, cells)
    if values.shape[1:] != (SIZES[name],):
        raise UserError(f"{where}: {name} has the shape {list(values.shape[1:])} in each row, not [{SIZES[name]}]")
    refuse_not_finite(where, name, values)
    return values


def _power(wind: str) -> int:
    """Of the fans, in per cent, by the first number in a wind's name; 0 for none."""
    number = re.match(r"\d+", wind)
    return int(number[0]) if number else 0


def as_environments(flights: Sequence[Flight], hold_out: float) -> tuple[Transitions, Transitions]:
    """All steps of flights, an environment each: those to train on, and the last share of each, which is held out.

    An environment is a flight, and not a wind: what is met later is a new flight, whose force differs from those of
    another flight in the same wind too (battery, propellers, how the fans mix).
    """
    parts: tuple[list[Transitions], list[Transitions]] = ([], [])
    for k, flight in enumerate(flights):
        own = replace(flight.steps, environment=flight.steps.environment + k)
        held = own.step >= (1 - hold_out) * len(own)
        parts[0].append(own.select(~held))
        parts[1].append(own.select(held))
    return Transitions.concatenate(parts[0]), Transitions.concatenate(parts[1])


@torch.no_grad()
def replay(
    trained: Agent, flights: Sequence[Flight], adapts: bool, generator: torch.Generator, on_step: Callable[[], object]
) -> list[Tensor]:
    """Squared errors of the force in N^2, the mean of its axes, in each step of each flight.

    Strictly causal: a step is predicted from its inputs and the belief as earlier steps have left it, and only then is
    the belief updated by the force in that step. All flights are followed side by side, each by a belief of its own.

    Args:
        trained: model and guide; its beliefs about the flights begin at what it knows of new environments.
        flights: K of them.
        adapts: whether beliefs are updated at all.
        generator: source of the latents.
        on_step: called after each step.
    """
    agent = trained.for_environments(len(flights))
    lengths = torch.tensor([len(flight.steps) for flight in flights])
    errors = torch.zeros(len(flights), int(lengths.max()), dtype=torch.float64)
    for t in range(int(lengths.max())):
        environment = (lengths > t).nonzero()[:, 0]
        running = [flights[k].steps for k in environment.tolist()]
        state, action, after = (
            torch.stack([getattr(steps, name)[t] for steps in running]) for name in ("state", "action", "next_state")
        )
        predicted = expected_force(agent, state, action, environment, generator)
        errors[environment, t] = (predicted - agent.task.targets(state, after)).double().square().mean(1)
        if adapts:
            agent.observe(state, action, after, environment, generator)
        on_step()
    return [own[:length] for own, length in zip(errors, lengths, strict=True)]


def expected_force(
    agent: Agent, state: Tensor, action: Tensor, environment: Tensor, generator: torch.Generator
) -> Tensor:
    """The mean of the prediction under the belief as it is now, ``[B, 3]``: over latents, or layers, and members."""
    if isinstance(agent, LastLayerAgent):
        log_weight, location, _ = agent.belief.predictive(agent.task.inputs(state, action), environment)
        return (log_weight.exp()[..., None] * location).sum((1, 2))
    latents, log_weight = agent.latents_ahead(64, environment, generator)
    location, _ = agent.predict(state, action, latents)
    return (log_weight.exp()[..., None] * location).sum(0).mean(0)


def without_model(flight: Flight) -> dict[str, float]:
    """The errors of :data:`FORCES`."""
    errors = [flight.force, flight.force - flight.steps.state[:, STATE:]]
    return {name: float(error.double().square().mean()) for name, error in zip(FORCES, errors, strict=True)}


def digest(flights: Sequence[Flight]) -> dict[str, float]:
    """What distinguishes flights from others of the same names: their mean squared forces."""
    return {flight.name: without_model(flight)[FORCES[0]] for flight in flights}


def table(rows: Sequence[Row]) -> str:
    """A line for each test flight, as Markdown; the interval after +- is Student's 95 % over seeds.

    Args:
        rows: one for each flight, method and seed, with ``wind``, ``method`` and ``error``.
    """
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for wind in dict.fromkeys(row["wind"] for row in rows):
        cells = [[row["error"] for row in rows if (row["wind"], row["method"]) == (wind, name)] for name in methods]
        lines.append([wind, *map(_with_interval, cells), str(PUBLISHED.get(wind, "-"))])
    return markdown_table(["wind", *methods, "authors', fitted to the test flight"], lines, words=1)


def _with_interval(values: Sequence[float]) -> str:
    half = half_width(values)
    return f"{mean(values):.2f}" + ("" if half is None else f" +- {half:.2f}")
