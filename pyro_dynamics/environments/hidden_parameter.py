"""An environment whose physics hold named hidden parameters."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from pyro_dynamics.environments.contexts import Context, as_context, numbers, same_context, split_context
from pyro_dynamics.environments.layers import layers
from pyro_dynamics.errors import UserError


class HiddenParameter:
    """Mixin for a Gymnasium environment or wrapper: read and change its hidden parameter, also in mid-episode.

    :attr:`context` is always read back from the simulator, never from a stored value. Where ``parameter``
    names several, a context is a tuple of numbers in that order.
    """

    parameter: str | tuple[str, ...]
    context_sizes: tuple[float, ...] = ()
    """Of each parameter in the contexts of a family, which sets them: two contexts are the same up to a millionth of
    these; by default of 1."""

    @classmethod
    @abstractmethod
    def parse_context(cls, value: Any) -> Context:
        """The context that ``value`` (a number or its text) stands for.

        Raises:
            UserError: if the simulator does not accept it.
        """

    @abstractmethod
    def _write_context(self, context: Any) -> None:
        """Give the context to the simulator."""

    @property
    @abstractmethod
    def context(self) -> Context:
        """What the simulator uses now."""

    def set_context(self, value: Any) -> None:
        """Change the hidden parameter from the next step on, and check that the simulator applied it.

        Raises:
            UserError: if the simulator does not accept the value, or holds another one afterwards.
        """
        wanted = self.parse_context(value)
        self._write_context(wanted)
        if not same_context(self.context, wanted, self.context_sizes):
            raise did_not_take(self.parameter, wanted, self.context)


def choose_context(context: Any, named: Mapping[str, Any], nominal: Mapping[str, Any]) -> Any:
    """The context that a constructor was given: whole, or by the names of parameters (None where not); else nominal.

    Args:
        context: all hidden parameters at once, or None.
        named: the value that each keyword was given, or None.
        nominal: the value of each parameter where nothing is given, in the order of a context.

    Raises:
        UserError: if it was given both.
    """
    given = {name: value for name, value in named.items() if value is not None}
    if context is not None and given:
        raise UserError(f"give either context or {', '.join(given)}, not both")
    values = tuple({**nominal, **given}.values())
    return context if context is not None else values[0] if len(values) == 1 else values


def did_not_take(parameter: str | tuple[str, ...], wanted: Context, held: Any) -> UserError:
    """The error of a simulator that holds another context than the one that it was given."""
    name = parameter if isinstance(parameter, str) else ",".join(parameter)
    return UserError(f"the simulator did not take the context {name} = {wanted!r}: it holds {held!r}")


class HiddenParameterWrapper(HiddenParameter, gymnasium.Wrapper, RecordConstructorArgs):
    """Hidden parameters of the environment inside; copies keep the context.

    Many environments are copied and pickled by running their constructor again (EzPickle), which loses what was
    changed since.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_context_of_the_copy": self.context}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        context = state.pop("_context_of_the_copy")
        self.__dict__.update(state)
        self.set_context(context)


class AttributeContext(HiddenParameterWrapper):
    """Hidden parameters that are plain attributes of the environment inside, or of a wrapper around it.

    Args:
        env: any environment that was made with the context.
        parameter: the names of the constructor's arguments, and of the attributes that hold them.
        context: what it was made with.
        sizes: of each parameter, see :attr:`HiddenParameter.context_sizes`.

    Raises:
        UserError: if none of them has such an attribute, or if the attribute holds another value.
    """

    def __init__(
        self, env: gymnasium.Env, parameter: str | tuple[str, ...], context: Context, sizes: tuple[float, ...] = ()
    ) -> None:
        RecordConstructorArgs.__init__(self, parameter=parameter, context=context, sizes=sizes)
        gymnasium.Wrapper.__init__(self, env)
        self.parameter, self.context_sizes = parameter, sizes
        self._names = (parameter,) if isinstance(parameter, str) else parameter
        for name in self._names:
            if _holder(env, name) is None:
                raise UserError(
                    f"{type(env.unwrapped).__name__} has no attribute {name!r}, nor has a wrapper around it, so that "
                    f"it cannot be seen whether the context took: keep it as self.{name}, and let the physics use that"
                )
        if not same_context(self.context, context, sizes):
            raise did_not_take(parameter, context, self.context)

    def parse_context(self, value: Any) -> Context:  # type: ignore[override]
        if isinstance(value, str) and len(self._names) == 1:
            return value  # a name, with whatever is in it
        values = split_context(value, self._names)
        return values[0] if isinstance(values[0], str) else as_context(values)

    def _write_context(self, context: Context) -> None:
        values: tuple[Any, ...] = (context,) if isinstance(context, str) else numbers(context)
        for name, value in zip(self._names, values, strict=True):
            holder = _holder(self.env, name)
            try:
                setattr(holder, name, value)
            except AttributeError:
                raise UserError(f"{type(holder).__name__}.{name} cannot be changed in mid-episode") from None

    @property
    def context(self) -> Context:
        values = [getattr(_holder(self.env, name), name) for name in self._names]
        if isinstance(values[0], str):
            return values[0]
        try:
            return as_context(values)
        except (TypeError, ValueError):
            return repr(values)  # no context at all: it differs from every requested one


def _holder(env: gymnasium.Env, name: str) -> Any:
    """The environment if it has the attribute, or else the outermost wrapper that has it; None if there is none."""
    inside_first = (env.unwrapped, *layers(env))  # a wrapper may hold a copy of the number
    return next((layer for layer in inside_first if hasattr(layer, name)), None)


def hidden_parameter(env: gymnasium.Env) -> Any:
    """The outermost :class:`HiddenParameter` among an environment and its wrappers; None if there is none."""
    return next((layer for layer in layers(env) if isinstance(layer, HiddenParameter)), None)
