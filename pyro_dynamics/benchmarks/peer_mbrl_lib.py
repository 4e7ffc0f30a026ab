"""The same plan and the same training epoch by the peer mbrl-lib 0.2.0, timed. Prints one JSON object.

It runs separately, in the peer's own environment, whose pinned versions are too old for ours:

    python3 -m venv peer
    peer/bin/pip install torch numpy gymnasium==0.26.3 mujoco imageio hydra-core==1.3.8 omegaconf==2.3.1 termcolor tqdm
    peer/bin/pip install --no-deps mbrl==0.2.0
    pyro-dynamics benchmark --peer peer/bin/python
"""

import argparse
import json
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

    import numpy as np
    import torch

    torch.set_num_threads(flags.threads)
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    network, model = build()
    state = 0.3 * random.normal(size=(TRANSITIONS, STATES))
    action = random.uniform(-1, 1, size=(TRANSITIONS, ACTIONS))
    result = {
        "train_epoch": median_cpu(trainer(model, state, action, random), flags.calls),
        "plan": median_cpu(planner(network, model, state[0]), flags.calls),
    }
    print(json.dumps(result))


def median_cpu(call: Callable[[], Any], calls: int) -> float:
    """Median CPU seconds of a call, without the first."""
    seconds = []
    for _ in range(calls + 1):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


def build() -> tuple[Any, Any]:
    """PETS's ensemble for HalfCheetah."""
    import mbrl.models
    import torch

    def features(state: Any) -> Any:
        library: Any = torch if isinstance(state, torch.Tensor) else __import__("numpy")
        join = torch.cat if isinstance(state, torch.Tensor) else library.concatenate
        pitch = state[..., 2:3]
        return join([state[..., 1:2], library.sin(pitch), library.cos(pitch), state[..., 3:]], -1)

    network = mbrl.models.GaussianMLP(
        in_size=STATES + ACTIONS,
        out_size=STATES,
        device="cpu",
        num_layers=LAYERS,
        ensemble_size=MEMBERS,
        hid_size=HIDDEN,
        propagation_method="fixed_model",
        activation_fn_cfg={"_target_": "torch.nn.SiLU"},
    )
    network.set_elite(range(MEMBERS))
    options = {"normalize": True, "learned_rewards": False, "obs_process_fn": features, "no_delta_list": [0]}
    return network, mbrl.models.OneDTransitionRewardModel(network, target_is_delta=True, **options)


def trainer(model: Any, state: Any, action: Any, random: Any) -> Callable[[], None]:
    """One epoch over the transitions."""
    import mbrl.models
    import mbrl.util.common
    import numpy as np
    from mbrl.util.replay_buffer import ReplayBuffer

    ended = np.zeros(TRANSITIONS, bool)
    buffer = ReplayBuffer(TRANSITIONS, (STATES,), (ACTIONS,), rng=random)
    buffer.add_batch(state, action, state + 0.05 * random.normal(size=state.shape), state[:, 0], ended, ended)
    model.update_normalizer(buffer.get_all())
    batches, _ = mbrl.util.common.get_basic_buffer_iterators(
        buffer, BATCH, 0, ensemble_size=MEMBERS, bootstrap_permutes=False
    )
    train = mbrl.models.ModelTrainer(model, optim_lr=1e-3, weight_decay=5e-5).train
    return lambda: train(batches, num_epochs=1, evaluate=False, silent=True)


def planner(network: Any, model: Any, state: Any) -> Callable[[], None]:
    """One planning call of the cross-entropy method."""
    import gymnasium
    import mbrl.models
    import mbrl.planning
    import numpy as np
    import omegaconf
    import torch
    from mbrl.env import reward_fns, termination_fns

    class Spaces:
        """All that the peer's planner reads of an environment."""

        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (STATES,), np.float64)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)

    environment = mbrl.models.ModelEnv(
        Spaces(), model, termination_fns.no_termination, reward_fns.halfcheetah, generator=torch.Generator()
    )
    search = {
        "_target_": "mbrl.planning.CEMOptimizer",
        "num_iterations": ITERATIONS,
        "elite_ratio": 0.1,
        "population_size": CANDIDATES,
        "alpha": 0.1,
        "return_mean_elites": True,
        "device": "cpu",
        "clipped_normal": False,
        "lower_bound": "???",
        "upper_bound": "???",
    }
    agent = {
        "_target_": "mbrl.planning.TrajectoryOptimizerAgent",
        "_recursive_": False,
        "planning_horizon": HORIZON,
        "replan_freq": 1,
        "verbose": False,
        "optimizer_cfg": search,
        "action_lb": "???",
        "action_ub": "???",
    }
    act = mbrl.planning.create_trajectory_optim_agent_for_model(
        environment, omegaconf.OmegaConf.create(agent), num_particles=PARTICLES
    ).act
    return lambda: act(state)


if __name__ == "__main__":
    main()
