"""The names of a MuJoCo model's parts, and its nominal values."""

from collections.abc import Iterable, Sequence
from typing import Any

import mujoco
import numpy as np

from pyro_dynamics.environments.delayed_actions import DelayedActions
from pyro_dynamics.errors import UserError

KINDS = {"body": "nbody", "joint": "njnt", "geom": "ngeom", "actuator": "nu", "tendon": "ntendon"}


def names_of(model: Any, kind: str) -> list[str]:
    """The name of each body, joint, geom, tendon or actuator; a nameless actuator has that of the joint it drives."""
    count = getattr(model, KINDS[kind])
    names = [getattr(model, kind)(index).name for index in range(count)]
    if kind == "actuator":
        driven = model.actuator_trnid[:, 0]
        joints = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
        names = [name or (model.joint(driven[index]).name if joints[index] else "") for index, name in enumerate(names)]
    return names


def indices(model: Any, kind: str, wanted: Sequence[str | int]) -> list[int]:
    """The indices of parts of a kind in the model; of all of them (but for the world's body) where none are named.

    Raises:
        UserError: if the model has no such part, naming those that it has.
    """
    names = names_of(model, kind)
    if not wanted:
        return list(range(kind == "body", len(names)))
    found = []
    for part in wanted:
        if isinstance(part, int) and 0 <= part < len(names):
            found.append(part)
        elif isinstance(part, str) and part in names and part:
            found.append(names.index(part))
        else:
            there = ", ".join(name or str(index) for index, name in enumerate(names))
            raise UserError(f"the simulator has no {kind} {part!r}; it has {there}")
    return found


def degrees_of_freedom(model: Any, joints: Iterable[int]) -> list[int]:
    """The rows of ``dof_...`` arrays that belong to the joints: 6 for a free one, 3 for a ball, else 1."""
    sizes = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}
    return [model.jnt_dofadr[j] + k for j in joints for k in range(sizes.get(model.jnt_type[j], 1))]


class Simulator:
    """A MuJoCo model and its data, with the nominal values of what may be changed.

    Args:
        model: an ``mjModel``.
        data: its ``mjData``.
        nominal: the values at compilation, if the model has been changed since.
        delayed: the wrapper that delays its actions, if any.
    """

    FIELDS = (
        *("body_mass", "body_inertia", "body_ipos", "body_sameframe"),
        *("dof_damping", "dof_armature", "dof_frictionloss", "tendon_stiffness", "geom_friction", "pair_friction"),
        *("actuator_gear", "actuator_gainprm", "actuator_biasprm"),
    )

    def __init__(
        self,
        model: Any,
        data: Any,
        nominal: dict[str, np.ndarray] | None = None,
        delayed: DelayedActions | None = None,
    ) -> None:
        self.model, self.data, self.delayed = model, data, delayed
        if nominal is None:
            nominal = {field: getattr(model, field).copy() for field in self.FIELDS}
            nominal |= {field: np.array(getattr(model.opt, field)) for field in ("gravity", "wind", "density")}
        self.nominal = nominal
        self._places: dict[tuple[str, str, tuple[str | int, ...]], list[int]] = {}  # looked up at every step

    def rows(self, field: str, kind: str, parts: tuple[str | int, ...]) -> list[int]:
        """The rows of an array of mjModel that belong to parts of a kind, all of them where none are named.

        Raises:
            UserError: if the model has no such part.
        """
        if (field, kind, parts) not in self._places:
            found = indices(self.model, kind, parts)
            if field.startswith("dof"):
                found = degrees_of_freedom(self.model, found)
            elif field.startswith("pair"):  # explicit pairs of geoms have no names of geoms
                found = [] if parts else list(range(self.model.npair))
            self._places[field, kind, parts] = found
        return self._places[field, kind, parts]

    def restore(self) -> None:
        """Restore the nominal values: every change starts from them, so that changes never accumulate."""
        for field in self.FIELDS:
            getattr(self.model, field)[:] = self.nominal[field]
        option = self.model.opt
        option.gravity[:], option.wind[:] = self.nominal["gravity"], self.nominal["wind"]
        option.density = float(self.nominal["density"])

    @property
    def has_medium(self) -> bool:
        """Whether the nominal model has a medium for wind to act through."""
        return bool(self.nominal["density"] > 0 or self.model.opt.viscosity > 0)

    def update_constants(self) -> None:
        """Let MuJoCo compute what it derives from masses and inertias (``mj_setConst``).

        That overwrites the data passed to it: it gets a copy, so that the state of the simulation is kept.
        """
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
