"""Contexts that a family was not trained on, within the trained range and outside of it."""

import numpy as np

from pyro_dynamics.environments import Context, Family, numbers
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.contexts import as_context
from pyro_dynamics.errors import UserError

APART = 0.02
"""An unseen context differs from every trained one by this share of the trained range, in one parameter at least."""


def unseen_inside(family: Family, count: int) -> list[Context]:
    """Contexts evenly over the trained range, none of them trained on.

    Of one parameter they are equally far apart, of several they are a Halton sequence; those within 2 % of the range of
    a trained one are left out, and denser ones are tried until enough are left.

    Raises:
        UserError: if the trained contexts leave no room.
    """
    from scipy.stats import qmc  # here, as it takes long

    trained = columns(family.train)
    low, size = trained.min(0), np.ptp(trained, axis=0)
    unit = (trained - low) / np.where(size > 0, size, 1.0)
    for tried in range(count, 50 * count):
        if trained.shape[1] == 1:
            points = (np.arange(tried)[:, None] + 0.5) / tried
        else:
            points = qmc.Halton(trained.shape[1], scramble=False).random(tried + 1)[1:]
        points = np.where(size > 0, points, 0.0)
        new = (np.abs(points[:, None] - unit).max(-1) >= APART).all(1)
        if new.sum() >= count:
            chosen = points[new][np.linspace(0, new.sum() - 1, count).round().astype(int)]
            return [as_context(row) for row in (low + chosen * size).round(6).tolist()]
    raise UserError(f"the trained contexts of {family.name} leave no room for {count} unseen ones between them")


def unseen_outside(family: Family, most: int) -> list[Context]:
    """Test contexts of which a parameter lies outside the trained range, evenly chosen where there are many."""
    trained = columns(family.train)
    different = [one for one in dict.fromkeys(family.test_contexts) if one not in family.train]
    outside = [
        one
        for one in sorted(different, key=numbers)
        if ((columns([one])[0] < trained.min(0)) | (columns([one])[0] > trained.max(0))).any()
    ]
    if len(outside) <= most:
        return outside
    return [outside[i] for i in np.linspace(0, len(outside) - 1, most).round().astype(int)]
