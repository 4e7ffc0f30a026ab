"""The ensemble of probabilistic networks p_theta(delta | s, a, e): the one likelihood that everything calls."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_dynamics.errors import UserError, require_not_negative, require_positive
from pyro_dynamics.models.fused import FusedEnsemble
from pyro_dynamics.models.planning_engine import OnnxEnsemble, agrees_with, planning_form


@dataclass(frozen=True)
class EnsembleConfig:
    """Shape and regularisation of an ensemble; the defaults are PETS's for HalfCheetah.

    Attributes:
        members: number M of networks.
        hidden: width of each hidden layer.
        weight_decay: factor on half the sum of squared weights, one for each layer, the last one included.
        bound_penalty: factor on (sum of upper - sum of lower) log-variance bounds.
    """

    members: int = 5
    hidden: tuple[int, ...] = (200, 200, 200, 200)
    weight_decay: tuple[float, ...] = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
    bound_penalty: float = 0.01

    def __post_init__(self) -> None:
        require_positive(self, "members")
        require_not_negative(self, "weight_decay", "bound_penalty")
        if not self.hidden and len(self.weight_decay) != 1:
            raise UserError("hidden needs the width of one layer at least, such as 64 64")
        if len(self.weight_decay) != len(self.hidden) + 1:
            raise UserError(
                f"{len(self.hidden)} hidden layers need {len(self.hidden) + 1} weight decays, one for each and one for "
                f"the last, not {len(self.weight_decay)}"
            )


ROWS_IN_CACHE = 500
"""Rows that go through all layers together where no gradient is needed: their activations fit a processor's cache."""

MAX_LOG_VARIANCE, MIN_LOG_VARIANCE = 0.5, -10.0
"""PETS's bounds, where a training begins."""


class Ensemble(nn.Module):
    """M networks with stacked weights ``[M, in, out]``, each giving a Gaussian over targets.

    Inputs are normalised with statistics that are part of the state; the latent is not. Log-variances lie between
    learned bounds, shared by the members (Chua et al. 2018): without them the variance explodes away from the data.

    Args:
        input_dim: size of features and action together.
        latent_dim: size d of the latent; 0 for none.
        output_dim: size T of the targets.
        config: members, widths and regularisation.

    Attributes:
        noise_factor: of the predicted standard deviations, ``[T]``: 1 while the networks are trained, and then their
            maximum likelihood on episodes that they were not trained on (see :meth:`.Agent.calibrate`).
        planning_dtype: in which :meth:`for_planning` runs the layers; what comes in and goes out is as it was.
        accelerator: where plans and updates are computed, by copies, if not on the processor.
    """

    input_mean: Tensor
    input_scale: Tensor
    noise_factor: Tensor

    def __init__(self, input_dim: int, latent_dim: int, output_dim: int, config: EnsembleConfig) -> None:
        super().__init__()
        self.config = config
        self.members = config.members
        self.planning_dtype = torch.float32
        self.accelerator: torch.device | None = None
        self._copied: FusedEnsemble | OnnxEnsemble | None = None
        sizes = [input_dim + latent_dim, *config.hidden, 2 * output_dim]
        self.weights = nn.ParameterList(
            nn.init.trunc_normal_(torch.empty(config.members, n_in, n_out), std=scale, a=-2 * scale, b=2 * scale)
            for n_in, n_out in pairwise(sizes)
            for scale in [1 / (2 * math.sqrt(n_in))]
        )
        self.biases = nn.ParameterList(torch.zeros(config.members, 1, n_out) for n_out in sizes[1:])
        self.max_log_variance = nn.Parameter(torch.full((output_dim,), MAX_LOG_VARIANCE))
        self.min_log_variance = nn.Parameter(torch.full((output_dim,), MIN_LOG_VARIANCE))
        self.register_buffer("input_mean", torch.zeros(input_dim))
        self.register_buffer("input_scale", torch.ones(input_dim))
        self.register_buffer("noise_factor", torch.ones(output_dim))

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the targets.

        Args:
            inputs: features and action, ``[..., M, B, F + A]``.
            latent: ``[..., M, B, d]``.

        Returns:
            Location and scale, each ``[..., M, B, T]``.
        """
        x = _rows(torch.cat([self._normalised(inputs), latent], dim=-1))
        on_processor = x.device.type == "cpu"
        in_cache = on_processor and not torch.is_grad_enabled() and x.shape[1] > ROWS_IN_CACHE
        x = self._layers_in_cache(x, x.dtype) if in_cache else self._layers(x)
        return self._location_and_scale(x, inputs.shape)

    def for_planning(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The networks as they are now, for the many rows of a plan.

        It takes and gives what :meth:`forward` does with ``[M, B, ...]``, in :attr:`planning_dtype` and without
        gradients: in the form that is fast on this processor (:mod:`pyro_dynamics.models.planning_engine`), else
        layer by layer. Networks of a subclass, which may be others, or in another precision are used as they are.
        """
        if type(self) is not Ensemble or self.input_mean.dtype != torch.float32:
            return self
        form = planning_form(self.planning_dtype) if self.input_mean.device.type == "cpu" else None
        copied = self._copied_weights(form) if form is not None else None
        return copied or (self.in_bfloat16 if self.planning_dtype == torch.bfloat16 else self)

    @torch.no_grad()
    def in_bfloat16(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Layer by layer, by torch's own operations; a few rows in float32."""
        if inputs.shape[1] <= ROWS_IN_CACHE:
            same: tuple[Tensor, Tensor] = self(inputs, latent)
            return same
        x = self._layers_in_cache(torch.cat([self._normalised(inputs), latent], dim=-1), torch.bfloat16)
        return self._location_and_scale(x, inputs.shape)

    def linearised(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What :meth:`forward` gives, and how both change with the latent, by forward mode.

        Values and slopes go through each layer as rows of one matrix product. At a few rows a product costs what it
        costs to read the weights, which a backward pass reads twice.

        Args:
            inputs: features and action, ``[..., M, B, F + A]``.
            latent: ``[..., M, B, d]``, with d > 0.

        Returns:
            Location and scale, each ``[..., M, B, T]``, and their slopes in the latent, each ``[..., M, B, d, T]``.
        """
        (first, *weights), d = self.weights, latent.shape[-1]
        x, e = _rows(self._normalised(inputs)), _rows(latent)
        # The inputs' share stays as it is while the latent moves: a compiled loop takes it out.
        value = torch.bmm(x, first[:, :-d]) + self.biases[0] + torch.bmm(e, first[:, -d:])
        slopes = first[:, -d:, None].expand(-1, -1, x.shape[1], -1)  # [M, d, R, out]
        for weight, bias in zip(weights, self.biases[1:], strict=True):
            gate = torch.sigmoid(value)
            slopes = (gate + gate * value * (1 - gate))[:, None] * slopes
            rows = torch.bmm(torch.cat([gate * value, slopes.flatten(1, 2)], dim=1), weight)
            value, slopes = rows[:, : x.shape[1]] + bias, rows[:, x.shape[1] :].unflatten(1, slopes.shape[1:3])
        location, log_variance = _unstacked(value, inputs.shape).chunk(2, dim=-1)
        of_location, of_log_variance = _unstacked(slopes.transpose(1, 2), inputs.shape).chunk(2, dim=-1)
        variance = self._variance(log_variance)
        scale = variance.sqrt()
        bend = torch.sigmoid(self.max_log_variance - log_variance)
        of_scale = self.noise_factor * (variance - self.min_log_variance.exp()) * bend / (2 * scale)
        return location, self.noise_factor * scale, of_location, of_scale[..., None, :] * of_log_variance

    def _location_and_scale(self, x: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Of outputs ``[M, R, 2 T]`` for inputs of this shape."""
        location, log_variance = _unstacked(x, shape).chunk(2, dim=-1)
        return location, self.noise_factor * self._variance(log_variance).sqrt()

    def _normalised(self, inputs: Tensor) -> Tensor:
        return (inputs - self.input_mean) * self.input_scale.reciprocal()

    def _variance(self, log_variance: Tensor) -> Tensor:
        """exp of PETS's bounds on the log-variance v: max - softplus(max - v), then min + softplus(v - min)."""
        variance = self.max_log_variance.exp() * torch.sigmoid(log_variance - self.max_log_variance)
        return variance + self.min_log_variance.exp()

    def _layers(self, x: Tensor) -> Tensor:
        """All networks on their rows, ``[M, R, in] -> [M, R, out]``."""
        return torch.bmm(self._hidden(x), self.weights[-1]).add_(self.biases[-1])

    def _hidden(self, x: Tensor) -> Tensor:
        """All layers but the last, ``[M, R, in] -> [M, R, width]``."""
        planning = not torch.is_grad_enabled()  # then no gradient needs the values before the activation
        # A slice of a ParameterList would make new parameters, which take time and hide the old ones from a tracer.
        *hidden, _ = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = functional.silu(torch.bmm(x, weight).add_(bias), inplace=planning)
        return x

    def _layers_in_cache(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The same where no gradient is needed: one network and some rows at a time, in memory that stays in cache."""
        widths = (max(self.config.hidden[::2]), max(self.config.hidden[1::2], default=0))
        memory = [x.new_empty(ROWS_IN_CACHE * width, dtype=dtype) for width in widths]
        out = x.new_empty(*x.shape[:2], self.biases[-1].shape[-1])
        for member in range(self.members):
            weights, biases = ([p[member].to(dtype) for p in layers] for layers in (self.weights, self.biases))
            for rows, result in zip(x[member].split(ROWS_IN_CACHE), out[member].split(ROWS_IN_CACHE), strict=True):
                h = rows.to(dtype)
                for layer, (weight, bias) in enumerate(zip(weights[:-1], biases[:-1], strict=True)):
                    shape = (len(rows), weight.shape[1])
                    buffer = memory[layer % 2][: shape[0] * shape[1]].view(shape)
                    h = functional.silu(torch.mm(h, weight, out=buffer).add_(bias), inplace=True)
                torch.add(torch.mm(h, weights[-1]), biases[-1], out=result)
        return out

    def _copied_weights(self, form: type[FusedEnsemble | OnnxEnsemble]) -> FusedEnsemble | OnnxEnsemble | None:
        """The weights in the form of a plan, copied anew when one has changed; None if its numbers are not torch's."""
        # They are compared because torch does not count all changes: not those of its fused Adam.
        weights, biases, dtype = list(self.weights), list(self.biases), self.planning_dtype
        # The log-variance goes up by as much as its bounds and its last bias do together.
        shift = 2 * self.noise_factor.log()
        biases[-1] = biases[-1] + torch.cat([torch.zeros_like(shift), shift])
        rest = (self.input_mean, self.input_scale, self.min_log_variance + shift, self.max_log_variance + shift)
        copied = self._copied
        if type(copied) is not form or not copied.is_of(dtype, [*weights, *biases, *rest]):
            copied = form(dtype, weights, biases, *rest)
            if isinstance(copied, OnnxEnsemble) and not agrees_with(self, copied):
                return None
            self._copied = copied
        return copied

    @torch.no_grad()
    def fit_normaliser(self, inputs: Tensor) -> None:
        """Take mean and standard deviation from all data ``[N, F + A]``; a constant dimension gets scale 1.

        With it a training begins, whose noise is the networks' own.
        """
        self.noise_factor.fill_(1.0)
        scale, mean = torch.std_mean(inputs, dim=0, correction=0)
        self.input_mean.copy_(mean)
        self.input_scale.copy_(torch.where(scale < 1e-12, torch.ones_like(scale), scale))

    @torch.no_grad()
    def scale_noise(self, targets: Tensor) -> None:
        """Let predicted noise, its bounds too, begin in units of each target's spread over all data ``[N, T]``.

        PETS's lower bound is a standard deviation of 0.0067 of whatever unit a target has. Where targets are small that
        is far above their errors: all then have the same noise, and what is well known counts as little as what is not.
        """
        spread = targets.std(0, correction=0)
        shift = 2 * torch.where(spread < 1e-12, torch.ones_like(spread), spread).log()
        for part in (self.min_log_variance, self.max_log_variance, self.biases[-1][..., len(shift) :]):
            part.add_(shift)

    @torch.no_grad()
    def rescale_targets(self, shift: Tensor, factor: Tensor) -> list[nn.Parameter]:
        """Follow targets into other units: where y was predicted, ``shift + factor * y`` is from now on.

        Into a smaller unit (a factor above 1) all errors of before would be as many times as large: there the mean is
        predicted to begin with. The noise of targets that change begins anew at one unit, without a slope: in the old
        unit it was learned from data that were far from what is there now.

        Args:
            shift: ``[T]``; 0 for targets that stay.
            factor: ``[T]``; 1 for targets that stay.

        Returns:
            The parameters that were changed, whose gradients will be of another size.
        """
        weight, bias, size = self.weights[-1], self.biases[-1], len(factor)
        moved, kept = (factor != 1) | (shift != 0), torch.where(factor > 1, 0.0, factor)
        weight[..., :size] *= kept
        bias[..., :size] = torch.where(factor > 1, 0.0, shift + kept * bias[..., :size])
        for part in (weight, bias):
            part[..., size:][..., moved] = 0.0
        self.max_log_variance[moved] = MAX_LOG_VARIANCE
        self.min_log_variance[moved] = MIN_LOG_VARIANCE
        return [weight, bias, self.max_log_variance, self.min_log_variance]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Networks from before there was a factor have none."""
        state_dict.setdefault(f"{prefix}noise_factor", torch.ones_like(self.noise_factor))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def weight_decays(self) -> dict[nn.Parameter, float]:
        """PETS's decay of each layer's weights, as Adam takes it: the gradient of factor / 2 times their square sum.

        PETS adds its regulariser to the sum over members of the mean over rows and T dimensions of twice the negative
        log-likelihood. Our objective is the mean over members of the sum over dimensions of the negative
        log-likelihood, which is T / (2 M) times theirs; so the regulariser is scaled alike.
        """
        return {
            weight: self._scale * decay for weight, decay in zip(self.weights, self.config.weight_decay, strict=True)
        }

    def penalty(self) -> Tensor:
        """The rest of PETS's regulariser, on the bounds of the log-variance: a scalar in nats for each transition."""
        return self._scale * self.config.bound_penalty * (self.max_log_variance.sum() - self.min_log_variance.sum())

    @property
    def _scale(self) -> float:
        """What PETS's regulariser is multiplied with."""
        return len(self.max_log_variance) / (2 * self.members)


def _rows(x: Tensor) -> Tensor:
    """``[..., M, B, n]`` as ``[M, R, n]``: samples in front of the members are rows like any other."""
    return x.reshape(-1, *x.shape[-3:]).transpose(0, 1).flatten(1, 2)


def _unstacked(x: Tensor, shape: torch.Size) -> Tensor:
    """Rows ``[M, R, ...]`` in the shape of the inputs ``[..., M, B, F + A]`` that they came from."""
    rows: Tensor = x.unflatten(1, (-1, shape[-2])).transpose(0, 1).reshape(*shape[:-1], *x.shape[2:])
    return rows
