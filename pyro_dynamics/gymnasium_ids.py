"""A Gymnasium id for every family, registered by strings alone: nothing is imported before one is made."""

SUITE = "pyro_dynamics.environments.suite"

IDS: dict[str, tuple[str, int, str | None]] = {
    "pendulum-gravity": ("PendulumGravity-v0", 200, "pendulum_gravity:PendulumGravityEnv"),
    "halfcheetah-tilt": ("HalfCheetahTilt-v0", 1000, "halfcheetah_tilt:HalfCheetahTiltEnv"),
    "halfcheetah-tilt-6": ("HalfCheetahTilt6-v0", 1000, "halfcheetah_tilt:HalfCheetahTiltEnv"),
    "halfcheetah-tilt-12": ("HalfCheetahTilt12-v0", 1000, "halfcheetah_tilt:HalfCheetahTiltEnv"),
    "halfcheetah-crippled": ("HalfCheetahCrippled-v0", 1000, "halfcheetah_crippled:HalfCheetahCrippledEnv"),
    "halfcheetah-mass-damping": ("HalfCheetahMassDamping-v0", 1000, None),
    "halfcheetah-gain": ("HalfCheetahGain-v0", 1000, None),
    "hopper-mass": ("HopperMass-v0", 1000, None),
    "walker2d-friction": ("Walker2dFriction-v0", 1000, None),
    "ant-gain": ("AntGain-v0", 1000, None),
    "swimmer-current": ("SwimmerCurrent-v0", 1000, None),
    "reacher-damping": ("ReacherDamping-v0", 50, None),
    "pusher-gain": ("PusherGain-v0", 100, None),
    "inverted-pendulum-tilt": ("InvertedPendulumTilt-v0", 1000, None),
    "cartpole-force-length": ("CartPoleForceLength-v0", 500, "cartpole:ContinuousCartPoleEnv"),
    "cadm-cartpole": ("CaDMCartPole-v0", 200, "cadm:FullForceCartPoleEnv"),
    "cadm-pendulum": ("CaDMPendulum-v0", 200, "cadm:CaDMPendulumEnv"),
    "cadm-halfcheetah": ("CaDMHalfCheetah-v0", 1000, None),
    "cadm-halfcheetah-crippled": ("CaDMHalfCheetahCrippled-v0", 1000, None),
    "cadm-ant": ("CaDMAnt-v0", 1000, None),
    "cadm-slim-humanoid": ("CaDMSlimHumanoid-v0", 1000, None),
}
"""By family: the id within our namespace, the steps of an episode, and the class in :data:`SUITE`.

The steps are those of Gymnasium's own environment of that kind, but 200 for CaDM's CartPole, as in its benchmark. A
family without a class of its own changes the MuJoCo model of another environment: ``environments/family_env.py``.
"""


def gymnasium_id(family: str) -> str | None:
    """The Gymnasium id of a registered family; None for a family of the user's."""
    return f"pyro_dynamics/{IDS[family][0]}" if family in IDS else None


def register_all() -> None:
    """Register the environments of all families with Gymnasium, once."""
    from gymnasium.envs.registration import register, registry  # here: it takes long enough for a Ctrl-C

    for family, (name, steps, own) in IDS.items():
        if f"pyro_dynamics/{name}" not in registry:
            register(
                f"pyro_dynamics/{name}",
                entry_point=f"{SUITE}.{own}" if own else "pyro_dynamics.environments.family_env:make_family_env",
                max_episode_steps=steps,
                kwargs={} if own else {"family": family},
            )
