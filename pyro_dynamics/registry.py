"""Parts by name: registered where they are defined, or a class of the user's own as ``package.module:Class``."""

import importlib
import inspect
import json
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyro_dynamics.errors import UserError, faults_of, first_line

EXTRA = {"transition_dim": "reads_transitions"}
"""Further arguments of a constructor, by the attribute of a class that asks for them."""
Part = TypeVar("Part")
C = TypeVar("C", bound=type)


class Registry(Mapping[str, type[Part]], Generic[Part]):
    """The parts of one kind, by the name that a user types.

    Args:
        kind: what they are called on the command line: guide, belief, update or planner.
        contract: the class that a part of the user's own extends; a protocol is one that it satisfies.
        writes: methods that a part must write itself, of each group at least one.
        takes: the positional arguments of its constructor.
    """

    def __init__(
        self, kind: str, contract: type[Part], writes: Sequence[Sequence[str]], takes: Sequence[str] = ()
    ) -> None:
        self.kind, self.contract, self.writes, self.takes = kind, contract, writes, takes
        self._parts: dict[str, type[Part]] = {}

    def register(self, name: str) -> Callable[[C], C]:
        """A class decorator: the class is found under ``name`` from then on.

        Raises:
            UserError: if the name belongs to another class.
        """

        def add(part: C) -> C:
            there: Any = self._parts.get(name, part)
            if (there.__module__, there.__qualname__) != (part.__module__, part.__qualname__):
                raise UserError(
                    f"the {self.kind} {name!r} is {there.__module__}.{there.__qualname__} already: name your own"
                )
            self._parts[name] = part
            return part

        return add

    def __getitem__(self, name: str) -> type[Part]:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def choices(self) -> str:
        """What may stand after the flag, for ``--help``."""
        return f"{{{','.join(self)},MODULE:CLASS}}"

    def find(self, word: str) -> Any:
        """The class that is registered as ``word``, or that ``package.module:Class`` gives; it has a ``Config``.

        Raises:
            UserError: if there is none, or if it does not satisfy the contract.
        """
        if isinstance(word, str) and ":" in word:
            part = import_object(word, f"{self.kind} of your own", "Class")
            self._require_contract(part, word)
            require_settings(part, word)
            return part
        if not isinstance(word, str) or word not in self:
            raise UserError(
                f"unknown {self.kind} {str(word)[:100]!r}: choose one of {', '.join(self)}, or give your own as "
                "package.module:Class"
            )
        return self[word]

    def word_for(self, part: Any) -> str:
        """What stands in ``config.json`` for a word, or for a class of the user's own.

        One that is registered is its name, and a class of a module is ``module:Class``. One of a script or a notebook,
        or from inside of a function, which no other process can import, is registered here under its own name.

        Raises:
            UserError: if it does not satisfy the contract, or its name is taken.
        """
        if isinstance(part, str):
            return part
        for word, known in self._parts.items():
            if known is part:
                return word
        if getattr(part, "__module__", "__main__") != "__main__" and getattr(part, "__qualname__", "").isidentifier():
            return f"{part.__module__}:{part.__qualname__}"
        word = getattr(part, "__name__", str(part))
        self._require_contract(part, word)
        require_settings(part, word)
        self.register(word)(part)
        return word

    def _require_contract(self, part: Any, word: str) -> None:
        contract: Any = self.contract
        named = f"{contract.__module__.removesuffix('.contract')}.{contract.__name__}"
        if not isinstance(part, type) or not issubclass(part, contract):
            found = "a class, but" if isinstance(part, type) else f"an object of type {type(part).__name__},"
            raise UserError(f"{word} is {found} no {self.kind}: it must be a class with the contract of {named}")
        if part is contract:
            raise UserError(f"{word} is the contract of every {self.kind}: name a class that satisfies it")
        for names in self.writes:
            if all(getattr(part, name) is getattr(contract, name) for name in names):
                raise UserError(f"{word} must write {' or '.join(f'{name}()' for name in names)}: see {named}")
        try:
            extra = {name: None for name, asked in EXTRA.items() if getattr(part, asked, False)}
            inspect.signature(part).bind(*self.takes, **extra)
        except (TypeError, ValueError):
            raise UserError(f"{word} must be made by ({', '.join(self.takes)}): see {named}") from None


def is_own(part: type) -> bool:
    """Whether a class is the user's own, and none of this project or of Python."""
    return part.__module__.partition(".")[0] not in (__name__.partition(".")[0], "builtins")


def make_part(part: Callable[..., Part], *arguments: Any, **named: Any) -> Part:
    """An object of a class; what the constructor of one of the user's own raises names it.

    Raises:
        PartFault: in the place of that.
    """
    if not (isinstance(part, type) and is_own(part)):
        return part(*arguments, **named)
    with faults_of(f"making {part.__name__}"):
        return part(*arguments, **named)


def require_settings(part: Any, word: str) -> None:
    """Refuse a class of the user's own whose settings cannot be flags, or cannot be stored in ``config.json``.

    Raises:
        UserError: if its ``Config`` is no frozen dataclass of plain values, each with a default.
    """
    config: Any = getattr(part, "Config", None)
    if config is None:
        raise UserError(
            f"{word} has no Config: give the class a frozen dataclass of its settings (an empty one if it has none), "
            f"{part.__name__}.Config"
        )
    if not (isinstance(config, type) and is_dataclass(config)):
        raise UserError(f"{word}: Config must be a dataclass, @dataclass(frozen=True)")
    if not config.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise UserError(f"{word}: Config must be frozen, @dataclass(frozen=True)")
    try:
        default = config()
    except Exception as fault:
        raise UserError(f"{word}: Config() must work, with a default for every field ({first_line(fault)})") from None
    try:
        hash(default)
        json.dumps(asdict(default), allow_nan=False)
    except (TypeError, ValueError):
        raise UserError(
            f"{word}: the fields of Config must be finite numbers, texts, booleans or tuples of them"
        ) from None


def import_object(text: str, what: str, kind: str = "callable") -> Any:
    """What ``package.module:name`` names, looked for in the current folder too.

    An error inside that module is not caught: it belongs to whoever wrote it, and needs its traceback.

    Args:
        text: the word.
        what: it should name, for the message.
        kind: of object that stands behind the colon, for the message.

    Raises:
        UserError: if there is no such module or name.
    """
    module_name, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise UserError(f"a {what} is written package.module:{kind}, without slashes or .py, not {text!r}")
    if module_name.endswith(".py"):
        raise UserError(f"leave out the .py: {module_name.removesuffix('.py')}:{name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as fault:
        # Only where the module itself, or a package around it, is missing; not where IT misses another one.
        if fault.name is None or not f"{module_name}.".startswith(f"{fault.name}."):
            raise
        raise UserError(
            f"there is no module {fault.name!r}, neither installed nor in {here}: {text!r}; run the command in the "
            "folder that holds it, or name that folder in PYTHONPATH"
        ) from None
    if not hasattr(module, name):
        raise UserError(f"the module {module_name!r} has no {name!r}: {text!r}")
    return getattr(module, name)


def import_all(package: str, folders: Iterable[str]) -> None:
    """Import every module of a package, so that what is defined there is registered."""
    for name in sorted(module.name for module in pkgutil.iter_modules(folders)):
        importlib.import_module(f"{package}.{name}")
