"""pyro-dynamics share: a run as one zip for others, with a model card and without traces of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import ensure_parent, write_bytes
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.shared_zip import LEFT_OUT, shared_files, write_zip
from pyro_dynamics.reports.model_card import card_path, model_card
from pyro_dynamics.runners.common.configuration import from_json, to_json
from pyro_dynamics.runners.common.factory import family_of
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module


@dataclass(frozen=True)
class ShareFlags:
    """Make one zip of a run that others can load, with a model card in it, and nothing that names this machine.

    The card is README.md in DIR: what was trained and on what, how well, the verdict of `diagnose` if it was run, how
    it is loaded, and its limits. If a card is there already it is kept, with whatever you wrote into it. The zip has
    all results in DIR; absolute paths in them are shortened to their last part, and what trackers wrote stays here.
    `adapt`, `diagnose` and the other commands take the zip as their DIR.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a run."""
    out: Path | None = None
    """The zip; by default DIR.zip."""
    license: str | None = None
    """Licence of the model, such as MIT or CC-BY-4.0, for the card."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(ShareFlags, "share", arguments)
    out = share_run(flags.dir, flags.out, flags.license)
    print(f"shared: {out} ({out.stat().st_size / 2**20:.1f} MiB)")
    print(f"open it: pyro_dynamics.load({str(out)!r}), or as DIR of a command")


def share_run(path: Path, out: Path | None = None, licence: str | None = None) -> Path:
    """Write a run's model card, and the zip of the run.

    Args:
        path: the run's folder.
        out: the zip; by default the folder's name with ``.zip``, beside it.
        licence: for the card.

    Returns:
        The zip.

    Raises:
        UserError: if the folder holds no whole round, or a file in it names this machine or its user.
    """
    folder = RunFolder.open(path)
    whole = path if path.name not in ("", "..") else path.resolve()
    out = out or whole.with_name(f"{whole.name}.zip")
    if out.suffix != ".zip":
        raise UserError(f"--out names a zip, such as {out.name}.zip, not {out}")
    ensure_parent(out)
    family = family_of(folder, from_json(folder.config))
    folder.checkpoint()  # a run without one cannot be loaded, nor one whose parts are of several
    with lock_folder(path, instead="share a copy of the folder"):  # no training or adaptation writes in the meantime
        write_card(folder, family, licence)
        files, left = shared_files(path)
        write_zip(path, files, out)
    others = [file.relative_to(path) for file in left if not set(file.relative_to(path).parts) & set(LEFT_OUT)]
    if others:
        print(f"not shared: {', '.join(map(str, others))}")
    return out


def write_card(folder: RunFolder, family: Family, licence: str | None) -> None:
    """Write the model card, unless there is one.

    Raises:
        UserError: if there is one, and a licence to put into it.
    """
    card = card_path(folder)
    if card.exists():
        if licence is not None:
            raise UserError(f"{card} is there already: write the licence into it, or remove it for a new card")
        print(f"model card: {card}, as it is")
        return
    written = RunFolder(folder.path, to_json(from_json(folder.config)))  # with the names of this version
    text = model_card(written, family, sum(map(len, folder.transitions())), licence)
    write_bytes(card, text.encode())
    print(f"model card: {card}")


if __name__ == "__main__":
    run_as_module("share")
