"""The same plan and the same training epoch by rl-blox 0.5.7, PETS in JAX, timed. Prints one JSON object.

It runs separately, in an environment of its own:

    python3 -m venv peer
    peer/bin/pip install rl-blox==0.5.7
    pyro-dynamics benchmark --rl-blox peer/bin/python
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

MEMBERS, HIDDEN, LAYERS = 5, 200, 4
CANDIDATES, ITERATIONS, PARTICLES, HORIZON = 500, 5, 20, 30
STATES, ACTIONS, TRANSITIONS, BATCH = 18, 6, 10_000, 256


def main() -> None:
    """Time the work named by the flags."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=2)
    flags = parser.parse_args()
    if flags.threads == 1:  # read when JAX starts
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    print(json.dumps({name: median_cpu(call, flags.calls) for name, call in work().items()}))


def median_cpu(call: Callable[[], Any], calls: int) -> float:
    """Median CPU seconds of a call, without the first, which compiles."""
    seconds = []
    for _ in range(calls + 1):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


def work() -> dict[str, Callable[[], Any]]:
    """One epoch over the transitions, and one planning call of the cross-entropy method."""
    import gymnasium
    import jax
    import jax.numpy as jnp
    import numpy as np
    from rl_blox.algorithm import pets
    from rl_blox.blox.probabilistic_ensemble import train_epoch

    class Spaces(gymnasium.Env):
        """All that it reads of an environment."""

        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (STATES,), np.float32)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)

        def reset(self, **_: Any) -> Any:
            return np.zeros(STATES, np.float32), {}

    def reward(action: Any, state: Any) -> Any:
        """Of the cheetah: forward speed, and the cost of control."""
        return state[..., 0] - 0.1 * (action**2).sum(-1)

    trained = pets.create_pets_state(Spaces(), 0, MEMBERS, (HIDDEN,) * LAYERS, weight_decay=5e-5, batch_size=BATCH)
    search = {"plan_horizon": HORIZON, "n_particles": PARTICLES, "n_samples": CANDIDATES, "n_opt_iter": ITERATIONS}
    ready = pets.train_pets(Spaces(), reward, trained, **search, total_timesteps=0, buffer_size=1, progress_bar=False)
    random = np.random.default_rng(0)
    state = jnp.asarray(0.3 * random.normal(size=(TRANSITIONS, STATES)), jnp.float32)
    action = jnp.asarray(random.uniform(-1, 1, size=(TRANSITIONS, ACTIONS)), jnp.float32)
    change = jnp.asarray(0.05 * random.normal(size=state.shape), jnp.float32)
    inputs = jnp.concatenate([state, action], axis=-1)

    def epoch() -> None:
        batches = TRANSITIONS // BATCH  # it leaves out what fills no batch
        orders = np.stack([random.permutation(TRANSITIONS)[: batches * BATCH] for _ in range(MEMBERS)])
        indices = jnp.asarray(orders.reshape(MEMBERS, batches, BATCH).swapaxes(0, 1))
        jax.block_until_ready(train_epoch(trained.model, trained.optimizer, inputs, change, indices))

    def plan() -> None:
        jax.block_until_ready(pets.mpc_action(ready.mpc_config, ready.mpc_state, ready.mpc_optimize_fn, state[0]))

    return {"train_epoch": epoch, "plan": plan}


if __name__ == "__main__":
    main()
