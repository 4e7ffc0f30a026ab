"""A model card: what a run that is shared has learned, from what, how well, and how it is loaded."""

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import read_json
from pyro_dynamics.environments import Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.drawn_family import DrawnFamily
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.tables import decimal, markdown_table
from pyro_dynamics.version import __version__

CARD = "README.md"
"""The card's name in the run's folder; sites that hold models show a file of that name."""
PACKAGES = ("torch", "pyro-ppl", "numpy", "gymnasium", "mujoco")
FILL_IN = "unknown"
"""In place of a licence."""
PARTS = ("guide", "planner", "belief", "update")
AGENTS = {
    "latent": "One dynamics model `p(s' | s, a, e)` over {count} environments, with a latent variable `e` for what "
    "differs between them; a belief about `e` follows every transition of a new environment.",
    "generalist": "One dynamics model `p(s' | s, a)` over {count} environments, without a difference between them.",
    "specialist": "A dynamics model `p(s' | s, a)` for each of {count} environments.",
    "last-layer": "One dynamics model `p(s' | s, a)` over {count} environments, whose last layer is inferred in each "
    "by Bayesian linear regression, after every transition of a new environment.",
    "oracle": "One dynamics model `p(s' | s, a, c)` over {count} environments, which is given the true context `c`.",
}
PAPER = (
    "Perez, Such and Karaletsos, *Efficient transfer learning and online adaptation with latent variable models for "
    "continuous control* (2018)"
)


def model_card(folder: RunFolder, family: Family, transitions: int, licence: str | None) -> str:
    """The card in Markdown, with the fields on top that sites for models read.

    Args:
        folder: of the run, with one whole round at least.
        family: its environments.
        transitions: how many the run holds.
        licence: under which it is shared; None leaves that to be filled in.
    """
    config, rows = folder.config, folder.metrics()
    fitted = rows[-1]["policy"] == "logged"
    name = folder.path.resolve().name
    sections = [
        _fields(licence),
        f"# {name}: a dynamics model over environments that differ in {family.axis}",
        AGENTS[config["agent"]].format(count=len(family.train))
        + f" Trained by pyro-dynamics with the method of {PAPER}.",
        "## What was trained\n\n" + markdown_table(("", ""), _facts(config, family, transitions, fitted)),
        "## How well\n\n" + (_fit_table(rows, family) if fitted else _returns_table(rows, family)),
        "## Can its posteriors be believed?\n\n" + _verdict(folder, family),
        "## How it is loaded\n\n" + _loading(name, config, family, fitted),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in _limits(config, family, fitted)),
        "## Licence\n\n" + (licence or "To be filled in, here and in the first lines of this file."),
        "## Settings\n\n```json\n" + json.dumps(config, indent=2) + "\n```",
        f"Made with pyro-dynamics {__version__}, Python {platform.python_version()}, {_versions()}.",
    ]
    return "\n\n".join(sections) + "\n"


def _fields(licence: str | None) -> str:
    tags = ("reinforcement-learning", "robotics", "system-identification", "variational-inference", "pyro")
    listed = "\n".join(f"- {tag}" for tag in tags)
    return f"---\nlicense: {licence or FILL_IN}\nlibrary_name: pyro-dynamics\ntags:\n{listed}\n---"


def _facts(config: Mapping[str, Any], family: Family, transitions: int, fitted: bool) -> list[tuple[str, str]]:
    online = config["online"]
    rounds = f"{config['rounds']} after a random one; episodes of {config['steps']} steps: {config['episodes']}"
    work = f"{transitions} transitions; rounds: {rounds} in each environment and round"
    if fitted:
        work = f"{transitions} logged transitions, part of them held out"
    latent = f", {config['latent_dim']} dimensions" if config["agent"] == "latent" else ""
    return [
        ("family", f"`{family.name}`" + (f": {family.description}" if family.description else "")),
        ("hidden parameter", family.axis),
        ("trained on", _trained_on(family)),
        ("agent", config["agent"]),
        ("guide, the family of q(e)", f"{config['guide']}{latent}"),
        ("belief and update online", f"{online['belief']}, {online['update']}, temperature {online['temperature']:g}"),
        ("network", f"{config['ensemble']['members']} members, hidden layers {config['ensemble']['hidden']}"),
        ("planner", config["planner"]),
        ("data", work),
        ("preset and seed", f"{config['preset']}, {config['seed']}"),
    ]


def _trained_on(family: Family) -> str:
    """The training contexts, or from what they were drawn where each episode has had its own."""
    if isinstance(family, DrawnFamily):
        return f"{len(family.train)} episodes, each in a context of its own, such as {label(family.train[0])}"
    return ", ".join(map(label, family.train))


def _returns_table(rows: Sequence[Mapping[str, Any]], family: Family) -> str:
    """The return of each environment at random, in the last round, and at best; by round where they were drawn."""
    last = rows[-1]["round"]
    if isinstance(family, DrawnFamily):
        each = [[row["return"] for row in rows if row["round"] == m] for m in range(last + 1)]
        lines = [[str(m), decimal(sum(found) / len(found)), str(len(found))] for m, found in enumerate(each)]
        return "Mean return of an episode.\n\n" + markdown_table(("round", "mean return", "episodes"), lines, 1)
    lines = []
    for k, context in enumerate(family.train):
        returns = [row["return"] for row in rows if row["environment"] == k]
        lines.append([label(context), *map(decimal, (returns[0], returns[-1], max(returns)))])
    table = markdown_table((family.axis, "random", f"round {last}", "best round"), lines, 1)
    return f"Return of an episode in each training environment.\n\n{table}"


def _fit_table(rows: Sequence[Mapping[str, Any]], family: Family) -> str:
    """How well the held-out part is predicted."""
    lines = []
    for row in rows:
        wrong = row["log_likelihood_wrong_latent"]
        numbers = [str(row["trained_steps"]), str(row["steps"]), f"{row['log_likelihood']:.2f}"]
        lines.append([label(row["context"]), *numbers, "-" if wrong is None else f"{wrong:.2f}"])
    head = (family.axis, "trained on", "held out", "log p(s)", "wrong latent")
    words = "Nats per held-out transition, under the environment's own latent and under the others'."
    return f"{words}\n\n{markdown_table(head, lines, 1)}"


def _verdict(folder: RunFolder, family: Family) -> str:
    """What ``diagnose`` found of the newest round, if it was run; with its own settings rather than with others."""
    for file in sorted(folder.path.glob("diagnose*/diagnostics.json")):
        try:
            found = read_json(file)
            if found["round"] != folder.last_round:
                continue
            rows = [
                [str(one["environment"]), str(one["word"]), "; ".join(map(str, one["reasons"]))]
                for one in found["verdicts"]
            ]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        where = f"By `pyro-dynamics diagnose`; its report is in `{file.parent.name}/report.html`."
        return f"{where}\n\n" + markdown_table((family.axis, "verdict", "why"), rows)
    return "Not judged yet: `pyro-dynamics diagnose` on the unpacked folder does."


def _loading(name: str, config: Mapping[str, Any], family: Family, fitted: bool) -> str:
    context = label(family.test_contexts[-1])
    python = [
        "import pyro_dynamics as pd",
        "",
        f'agent = pd.load("{name}.zip")  # unpacks it beside the zip',
        "action = agent.act(observation)",
        "agent.update(observation, action, next_observation)",
        "print(agent.belief.decode())",
    ]
    act = f"--replay DATA.csv --group {family.parameters[0]}" if fitted else f"--context {context}"
    commands = [f"pyro-dynamics adapt {name}.zip {act}", f"pyro-dynamics diagnose {name}.zip"]
    own = _own_parts(config)
    needed = f"\n\nIt needs code that is not in this file: {', '.join(f'`{one}`' for one in own)}." if own else ""
    return "```python\n" + "\n".join(python) + "\n```\n\n```sh\n" + "\n".join(commands) + "\n```" + needed


def _own_parts(config: Mapping[str, Any]) -> list[str]:
    """Parts of the author's own, which whoever loads the run must install."""
    words = [config["family"], *(config.get(part, config["online"].get(part)) for part in PARTS)]
    return [word for word in words if isinstance(word, str) and ":" in word]


def _limits(config: Mapping[str, Any], family: Family, fitted: bool) -> list[str]:
    trained = _trained_on(family)
    limits = [
        f"It has seen {family.axis} of {trained}, and nothing vouches for it elsewhere; a belief far from the trained "
        "ones is reported as out of the trained range.",
        "The network's own uncertainty is that of its ensemble: the posterior is over the latent, given the network.",
        "The latent's axes have no meaning of their own; the linear probe that decodes them is fitted to the trained "
        "environments.",
        "It was made in simulation: on a robot, have limits of your own around its actions.",
    ]
    if fitted:
        limits[-1] = "It was fitted to logged data: what the log never did, it cannot predict."
    if config["agent"] != "latent":
        limits[2] = f"This agent ({config['agent']}) infers no latent online."
    return limits


def _versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def card_path(folder: RunFolder) -> Path:
    """Where the card of a run is."""
    return folder.path / CARD
