"""A wrapper that checks an environment: its errors name the fault, the context and the step."""

import copy
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv

from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.environments.layers import layers
from pyro_dynamics.errors import EnvironmentFault, UserError

LARGEST = 1e15
"""A number beyond it is that of a simulation that has blown up: its square, summed over the data, leaves float32."""
WRAPPERS = ("gymnasium.wrappers", "pyro_dynamics.environments")
"""Modules whose own lines say nothing to somebody whose environment breaks."""
LARGEST_SEED = 2**32 - 1
"""What numpy's ``RandomState`` takes, as in environments of dm_control; ours have 63 bits."""
WANTED = {
    "step": "(observation, reward, terminated, truncated, info)",
    "reset": "(observation, info)",
}
"""What Gymnasium's API requires."""

DAY = 86400
"""Seconds, the longest limit of a step; the system's alarm has a maximum."""


class TookTooLong(BaseException):
    """A step exceeded its time limit; no ``except Exception`` in an environment may catch it."""


class CheckedEnv(gymnasium.Wrapper, RecordConstructorArgs):
    """Checks an environment: whether it raises, hangs, or returns non-finite numbers or another shape.

    What it gives and gets are copies: some environments write each observation over the last one, or into the action.

    A fault is raised as :class:`~pyro_dynamics.errors.EnvironmentFault`, with the environment's own exception as its
    cause. Where it is ``tolerant`` the fault is in ``info["fault"]`` instead, and the environment is not stepped,
    staying in its last valid state, until the next reset with a seed.

    Args:
        env: is a :class:`~pyro_dynamics.environments.HiddenParameter`, or has one inside.
        axis: name and unit of the hidden parameter.
    """

    def __init__(self, env: gymnasium.Env, axis: str) -> None:
        RecordConstructorArgs.__init__(self, axis=axis)
        gymnasium.Wrapper.__init__(self, env)
        self.axis = axis
        self.index: int | None = None
        """Its index in a vector environment: then its infos are dropped, which need not have the same shapes."""
        self.tolerant = False
        self.limit: float | None = None
        """Seconds that a step or reset may take; see :func:`limit_steps`."""
        self._shape = env.observation_space.shape
        self._dtype: Any = env.observation_space.dtype
        self._last = np.zeros(self._shape or (), self._dtype)
        self._step = 0
        self._broken = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._broken and seed is None:
            return self._last, {}
        self._broken, self._step = False, 0
        try:
            observation, info = self._in_time(self._reset, seed=seed, options=options)
        except UserError:
            raise
        except (Exception, TookTooLong) as fault:
            return self._last, self._fail(self._words("reset", fault), fault)
        wrong = self._wrong(observation) or _wrong_info(info)
        if wrong:
            return self._last, self._fail(wrong)
        self._last = np.array(observation)
        return self._last.copy(), info if self.index is None else {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._broken:
            return self._last, 0.0, False, False, {}
        try:
            observation, reward, terminated, truncated, info = self._in_time(self.env.step, copy.copy(action))
        except UserError:
            raise
        except (Exception, TookTooLong) as fault:
            return self._last, 0.0, False, False, self._fail(self._words("step", fault), fault)
        wrong = self._wrong(observation) or _wrong_reward(reward) or _wrong_info(info)
        wrong = wrong or _wrong_end("terminated", terminated) or _wrong_end("truncated", truncated)
        if wrong:
            return self._last, 0.0, False, False, self._fail(wrong)
        self._step += 1
        self._last = np.array(observation)
        return self._last.copy(), reward, bool(terminated), bool(truncated), info if self.index is None else {}

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        try:
            return self.env.reset(seed=seed, options=options)
        except ValueError:
            if seed is None or seed <= LARGEST_SEED:
                raise
        return self.env.reset(seed=seed % (LARGEST_SEED + 1), options=options)

    def _in_time(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self.limit is None:
            return call(*arguments, **named)
        signal.setitimer(signal.ITIMER_REAL, self.limit)
        try:
            return call(*arguments, **named)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _wrong(self, observation: Any) -> str:
        """What is wrong with an observation; empty if it is valid."""
        try:
            values = np.asarray(observation)
        except (ValueError, TypeError, RuntimeError):  # the last one of a tensor that requires a gradient
            return f"the observation is no array but {_short(observation)}"
        if np.ma.is_masked(observation):
            return "the observation is masked, and what is under the mask would be taken"
        if values.shape != self._shape:
            return f"the observation has the shape {list(values.shape)}, not {list(self._shape or ())}"
        if values.dtype != self._dtype and not np.can_cast(values.dtype, self._dtype, "same_kind"):
            return f"the observation is of the type {values.dtype}, not {self._dtype}"
        small = np.abs(values.astype(np.float64)) <= LARGEST  # NaN compares false, and float16 would round the limit
        if not small.all():
            entry = int(np.argmin(small.ravel()))
            return f"observation[{entry}] is {_number(values.ravel()[entry])}"
        return ""

    def _words(self, method: str, fault: BaseException) -> str:
        if isinstance(fault, TookTooLong):
            return f"{method}() took longer than {self.limit:g} s"
        if _unpacks_wrongly(fault):
            return f"{method}() must return {WANTED[method]}, as in Gymnasium's API, and returned something else"
        return f"{method}() raised {' '.join(f'{type(fault).__name__}: {fault}'.split()).removesuffix(': ')[:300]}"

    def _fail(self, what: str, cause: BaseException | None = None) -> dict[str, Any]:
        """The info of a faulty step; raises the fault unless it is tolerated."""
        where = "" if self.index is None else f" {self.index}"
        context = hidden_parameter(self.env).context
        fault = EnvironmentFault(f"environment{where} ({self.axis} = {context}), step {self._step}: {what}")
        of_a_wrapper = cause is not None and (_unpacks_wrongly(cause) or _module_of(cause).startswith(WRAPPERS))
        fault.__cause__ = None if of_a_wrapper else cause  # a wrapper's lines say nothing
        if not self.tolerant:
            raise fault
        self._broken = True
        return {"fault": fault}


@contextmanager
def making(what: str) -> Iterator[None]:
    """Report in one line what is raised while somebody's environment or task is made.

    What Gymnasium itself raises is meant for its users and stands alone; anything else keeps its traceback.

    Args:
        what: is made, for the line.

    Raises:
        UserError: in place of Gymnasium's own exceptions.
        EnvironmentFault: in place of others.
    """
    try:
        yield
    except (UserError, OSError, MemoryError):  # of the system's limits a command speaks itself
        raise
    except Exception as fault:
        words = f"making {what} raised {' '.join(f'{type(fault).__name__}: {fault}'.split())[:300]}"
        if _module_of(fault).startswith("gymnasium."):
            raise UserError(words) from fault
        raise EnvironmentFault(words) from fault


def checked_envs(envs: Any) -> Iterator[CheckedEnv]:
    """The checking wrapper of every environment of a vector, or of a list, that has one."""
    for env in envs if isinstance(envs, list) else getattr(envs, "envs", ()):
        guards = (layer for layer in layers(env) if isinstance(layer, CheckedEnv))
        yield from islice(guards, 1)


def limit_steps(envs: SyncVectorEnv | list[gymnasium.Env], seconds: float | None) -> None:
    """Limit every step and reset of an environment to so many seconds.

    An alarm of the operating system interrupts one that takes longer: in Python code, and in blocking calls; a loop
    inside a compiled library is only interrupted when it returns to Python.

    Raises:
        UserError: if the number is not positive, or the system has no such alarms.
    """
    if seconds is None:
        return
    require_step_limit(seconds)
    signal.signal(signal.SIGALRM, _alarm)
    for guard in checked_envs(envs):
        guard.limit = seconds


def require_step_limit(seconds: float | None) -> None:
    """Refuse a limit that :func:`limit_steps` would refuse, before environments are made.

    Raises:
        UserError: if it would.
    """
    if seconds is None:
        return
    if not 0 < seconds <= DAY:
        raise UserError(f"--step-limit must be a positive number of seconds, a day ({DAY}) at most, not {seconds}")
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        raise UserError("--step-limit needs the alarm of a Unix system, in the main thread: leave it out here")


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def _wrong_reward(reward: Any) -> str:
    if isinstance(reward, str | bytes):  # "1" would be taken for 1
        return f"the reward is no number but {_short(reward)}"
    try:
        value = float(reward)
    except (TypeError, ValueError):
        return f"the reward is no number but {_short(reward)}"
    return "" if abs(value) <= LARGEST else f"the reward is {_number(value)}"


def _wrong_end(name: str, value: Any) -> str:
    """An ending is True or False, or 1 or 0: None, text and NaN have a truth value that nobody meant."""
    array = np.asarray(value)
    if array.size == 1 and (array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.item() in (0, 1))):
        return ""
    return f"{name} must be True or False, and is {_short(value)}"


def _wrong_info(info: Any) -> str:
    return "" if isinstance(info, dict) else f"the info must be a dict, and is {_short(info)}"


def _unpacks_wrongly(fault: BaseException) -> bool:
    """Whether a wrapper of Gymnasium's or ours, and not the environment's own code, got too many values or too few."""
    if not isinstance(fault, ValueError) or "values to unpack" not in str(fault):
        return False
    return _module_of(fault).startswith(("gymnasium.wrappers", "gymnasium.core", "pyro_dynamics.environments"))


def _module_of(fault: BaseException) -> str:
    """The name of the module in which something was raised."""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))


def _number(value: Any) -> str:
    beyond = f", beyond {LARGEST:g}" if np.isfinite(value) else ""
    return f"{value:g}{beyond}"


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:40]}{'...' if len(text) > 40 else ''}"
