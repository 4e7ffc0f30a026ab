"""Videos of episodes: the robot, and the belief about its hidden parameter beside it."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import imageio
import numpy as np
from gymnasium.vector import SyncVectorEnv

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Context, Family, Schedule
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.files import unfinished
from pyro_dynamics.rollouts.adaptation import AdaptationStep

LOWEST = 360
"""Pixels; a smaller frame is enlarged by a whole number, so that the panel beside it can be read."""


def make_environments(family: Family, contexts: Sequence[Context | Schedule], steps: int, film: bool) -> SyncVectorEnv:
    """Environments in lockstep that can be filmed, or that need not be able to draw."""
    if not film:
        return family.make_vector(contexts, steps)
    # MuJoCo's own first choice needs a screen; it looks this up when it draws for the first time.
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        return family.make_vector(contexts, steps, render_mode="rgb_array")
    except UserError as fault:
        if "render_mode" not in str(fault):
            raise
        raise UserError(
            f"the environment of family {family.name} takes no render_mode: let its constructor take it, keep it as "
            "self.render_mode, and let render() return an RGB array [height, width, 3]; or leave out --video"
        ) from fault


class Film:
    """One environment's episode as a video: mp4 where ``imageio-ffmpeg`` is installed, else an animated GIF.

    The first frame is drawn at once, so that a machine which cannot draw reports it before an episode is run.

    Args:
        path: of the video, without its ending.
        envs: from :func:`make_environments`.
        k: which of them is filmed.
        steps: of the episode, at most.
        trained: the trained agents, whose posteriors are drawn.
        family: their environments.

    Raises:
        UserError: if nothing can be drawn here.
    """

    def __init__(
        self, path: Path, envs: SyncVectorEnv, k: int, steps: int, trained: AgentGroup, family: Family
    ) -> None:
        from pyro_dynamics.plots.belief_panel import BeliefPanel  # here, as matplotlib takes long

        self.env, self.k, self.axis = envs.envs[k], k, family.axis
        mp4 = find_spec("imageio_ffmpeg") is not None
        self.path = path.with_name(path.name + (".mp4" if mp4 else ".gif"))
        self.part = path.with_name(unfinished(path).name + self.path.suffix)
        height = len(self._first_frame())
        self.zoom = -(-LOWEST // height)
        height *= self.zoom
        fps = self.env.metadata.get("render_fps", 30)
        means, scales = (part.numpy() for part in trained.beliefs())
        probe = ContextProbe(means, family.train) if family.decodable and means.shape[1] else None
        names = [label(context) for context in family.train]
        width = _even(1.04 * height)
        self.panel = BeliefPanel(width, height, steps, family.axes, names, means, scales, probe, family.train)
        how: dict[str, Any] = (
            {"fps": fps, "macro_block_size": 2, "ffmpeg_log_level": "quiet"}
            if mp4
            else {"duration": 1000 / fps, "loop": 0}
        )
        try:
            self.writer = imageio.get_writer(self.part, **how)
        except OSError as fault:
            raise UserError(f"cannot write {self.part}: {fault}") from None
        self.total, self.frames = 0.0, 0

    def _first_frame(self) -> np.ndarray:
        """Raises :class:`UserError` where it cannot be drawn."""
        self.env.reset()
        follow(self.env)
        frame = try_to_draw(self.env)
        if isinstance(frame, str):
            raise UserError(
                f"this machine cannot draw the robot ({frame}): MuJoCo needs EGL or OSMesa (on Debian, apt install "
                "libegl1 libgl1-mesa-dri, or libosmesa6 and MUJOCO_GL=osmesa), Gymnasium's classic ones pip install "
                "pygame-ce; or leave out --video"
            )
        if not isinstance(frame, np.ndarray) or frame.ndim != 3:
            raise UserError(
                "this environment draws no images: let render() return an RGB array [height, width, 3] where "
                "render_mode is rgb_array, or leave out --video"
            )
        return frame

    def add(self, step: AdaptationStep) -> None:
        """Film the state that the step led to; steps after the episode's end are left out."""
        if not step.alive[self.k]:
            return
        self.total += float(step.reward[self.k])
        truth = step.context[self.k]
        words = f"step {step.index}   return {self.total:.1f}\ntrue {self.axis}: {label(truth)}"
        frame: Any = self.env.render()
        frame = frame.repeat(self.zoom, 0).repeat(self.zoom, 1)
        frame = frame[: 2 * (len(frame) // 2), : 2 * (frame.shape[1] // 2)]  # codecs want even sizes
        panel = self.panel.draw(words, step.draws[:, self.k].numpy(), truth)
        try:
            self.writer.append_data(np.hstack([frame[..., :3], panel[: len(frame)]]))
        except OSError:  # ffmpeg has gone
            raise UserError(f"cannot write {self.path} to its end: is there room on the disk?") from None
        self.frames += 1

    def __enter__(self) -> "Film":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Move the whole video into place; of an episode that failed, leave nothing.

        Raises:
            UserError: if it is not whole: ffmpeg does not report that it could not write.
        """
        with suppress(OSError):
            self.writer.close()
            if kind is None and self._is_whole():
                self.part.replace(self.path)
                return
        self.part.unlink(missing_ok=True)
        if kind is None:
            raise UserError(f"cannot write {self.path} to its end: is there room on the disk?")

    def _is_whole(self) -> bool:
        if self.path.suffix != ".mp4":
            return True  # a GIF that cannot be written raises
        from imageio_ffmpeg import count_frames_and_secs

        try:
            return count_frames_and_secs(self.part)[0] == self.frames
        except RuntimeError:  # it has no end
            return False


def try_to_draw(env: Any) -> Any:
    """What the environment draws (None where it has no way to), or why it could not."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None  # Gymnasium's viewer, half made, complains once more when it goes
    try:
        return env.render()
    except NotImplementedError:
        return None
    except Exception as fault:  # each way to draw fails in its own way, down to a missing attribute
        reason = first_line(fault)
        del fault
        return reason
    finally:
        sys.unraisablehook = hook


def follow(env: Any) -> None:
    """Let MuJoCo's camera ``track``, where the model has one, go along with the robot: Gymnasium's stands still."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is not None:
        import mujoco  # here, as the classic environments can be filmed without it

        camera = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
        renderer.camera_id = renderer.camera_id if camera == -1 else camera


def _even(size: float) -> int:
    return 2 * round(size / 2)
