"""The rows of a log as transitions in temporal order, and which of them are one episode."""

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.datasets.log import Log
from pyro_dynamics.transitions import Transitions


def transitions_of(log: Log, environment: np.ndarray, rewarded: bool) -> tuple[Transitions, Tensor]:
    """The rows of a log, each episode in the order of its steps; and a number of the episode of each, ``[n]``."""
    order = np.arange(len(log))
    step, episode = log.step, None
    if log.episode is not None:
        counted = np.unique(log.episode, return_inverse=True)[1]  # each environment may count its own
        order = np.lexsort((order if step is None else step, environment, counted))
        episode = np.cumsum(_begins(counted[order], environment[order])) - 1
        step = _counted(episode)[np.argsort(order)] if step is None else step
    if step is None:
        step = _counted(_pieces(log, environment))
    rewards = log.reward if rewarded and log.reward is not None else np.zeros(len(log))
    state, action, next_state, reward = (
        torch.from_numpy(part.astype(np.float32)) for part in (log.state, log.action, log.next_state, rewards)
    )
    rows = Transitions(
        state, action, next_state, reward, torch.from_numpy(environment), torch.from_numpy(step.astype(np.int64))
    ).select(torch.from_numpy(order))
    return rows, _followed(rows, log.step is not None) if episode is None else torch.from_numpy(episode)


def _followed(rows: Transitions, counted: bool) -> Tensor:
    """A number of the episode of each row ``[n]``, where the log names none: of rows that continue one another.

    Measured next states are often not the next row's state to the last digit; then an episode continues as long as
    the steps of an environment count by one, if they are known.
    """
    episode = torch.empty(len(rows), dtype=torch.long)
    found = rows.episodes()
    for number, one in enumerate(found):
        episode[one] = number
    if counted and len(found) == len(rows):
        order = rows.environment.argsort(stable=True)
        own, step = rows.environment[order], rows.step[order]
        begins = torch.cat([torch.tensor([True]), (own[1:] != own[:-1]) | (step[1:] != step[:-1] + 1)])
        episode[order] = begins.cumsum(0) - 1
    return episode


def _pieces(log: Log, environment: np.ndarray) -> np.ndarray:
    """A number for each row ``[n]``, which increases where a row does not continue the previous one."""
    follows = (log.state[1:].astype(np.float32) == log.next_state[:-1].astype(np.float32)).all(1)
    return np.cumsum(np.concatenate([[True], ~(follows & (environment[1:] == environment[:-1]))]))


def _counted(pieces: np.ndarray) -> np.ndarray:
    """0, 1, 2 ... within each run of equal values, ``[n]``."""
    starts = np.flatnonzero(_begins(pieces))
    return np.arange(len(pieces)) - np.repeat(starts, np.diff([*starts, len(pieces)]))


def _begins(*columns: np.ndarray) -> np.ndarray:
    """Whether a row differs in one of the columns from the row before it, ``[n]``; the first does."""
    return np.concatenate([[True], np.any([column[1:] != column[:-1] for column in columns], axis=0)])
