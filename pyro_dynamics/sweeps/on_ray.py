"""Jobs on Ray: each is one task, which is restarted if its worker dies."""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyro_dynamics.errors import UserError, first_line

OBJECT_STORE = 100_000_000
"""Bytes of shared memory: jobs exchange nothing, and Ray would take a third of the machine's."""


def import_ray() -> Any:
    """The package, with its usage statistics off.

    Raises:
        UserError: if it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError:
        raise UserError('Ray is not installed: pip install "pyro-dynamics[sweep]"') from None
    return ray


def refuse_silent(address: str, seconds: float = 5.0) -> None:
    """Try HOST:PORT first: Ray itself tries for minutes, with messages. Other addresses are left to Ray.

    Raises:
        UserError: if nothing listens there.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), seconds).close()
    except (OSError, OverflowError) as fault:
        raise UserError(f"no Ray cluster answers at {address}: {fault}") from None


@contextmanager
def connected(workers: int | None = None, address: str | None = None) -> Iterator[Any]:
    """Ray on cores of this machine, unreachable from elsewhere, or on a cluster; gives the package.

    Workers show no progress bars.

    Args:
        workers: how many cores; all of them by default.
        address: of a cluster, in place of this machine.

    Raises:
        UserError: if Ray is not installed, or does not start, or does not answer.
    """
    if address is None:
        # In spite of its name, on Linux it makes Ray listen on the loopback address only.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    else:
        refuse_silent(address)
    ray = import_ray()
    here = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    try:
        ray.init(
            address or "local",
            logging_level=logging.CRITICAL,
            log_to_driver=False,
            runtime_env={"env_vars": {"TQDM_DISABLE": "1"}},
            **(here if address is None else {}),
        )
    except Exception as fault:  # Ray raises many kinds, a bare Exception where the machine is too slow for it
        reason = first_line(fault)
        if address is None:
            raise UserError(f"Ray does not start on this machine: {reason}") from None
        raise UserError(f"{reason} (if {address} has token authentication, set RAY_AUTH_MODE=token)") from None
    try:
        yield ray
    finally:
        ray.shutdown()  # ends the workers too


def run_jobs(
    ray: Any, work: Callable[..., Any], jobs: Mapping[str, tuple[Any, ...]], retries: int, poll: float = 1.0
) -> Iterator[tuple[str, Any] | None]:
    """Call ``work(*jobs[name])`` for every name, each in a fresh process with one processor core.

    Args:
        ray: the package, connected.
        work: the function; its arguments and its result are sent between processes.
        jobs: the arguments of each.
        retries: how often a job is restarted after its worker died.
        poll: seconds.

    Yields:
        The name and the result of each job as it ends, the result being Ray's error where all tries have failed; and
        None whenever ``poll`` has passed.
    """
    # An exception would recur, so only a dead worker counts. A fresh process keeps no state of the previous job.
    task = ray.remote(num_cpus=1, max_retries=retries, max_calls=1)(work)
    names = {task.options(name=name).remote(*arguments): name for name, arguments in jobs.items()}
    while names:
        ended, _ = ray.wait(list(names), timeout=poll)
        yield None
        for reference in ended:
            try:
                result = ray.get(reference)
            except ray.exceptions.RayError as fault:
                result = fault
            yield names.pop(reference), result
