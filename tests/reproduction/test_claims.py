"""Claims: data in which each of them holds, in which none does, and in which it is inconclusive."""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from reproduction_rows import NEW, SCHEDULE, TRAINED, latent_rows, of_seeds, score_rows

from pyro_dynamics.reports.report import to_markdown
from pyro_dynamics.reports.reproduction_report import claims_table, final_table, findings
from pyro_dynamics.reproduction.claims import (
    FAILS,
    HOLDS,
    OPEN,
    Claim,
    area,
    claims,
    curve_gains,
    extremes,
    margin_outside,
    rank_correlation,
)
from pyro_dynamics.reproduction.latent_rows import LatentMap, LatentRows
from pyro_dynamics.reproduction.score_rows import Scores

FASTER = score_rows({"latent": 0.6, "generalist": 0.3, "specialist": 0.3})
SLOWER = score_rows({"latent": 0.25, "generalist": 0.6, "specialist": 0.6}, gain_at_extremes=100.0)
SAME = score_rows({"latent": 0.4, "generalist": 0.4, "specialist": 0.4}, noise=30.0)
FEW = (-6.0, 6.0, -15.0, 3.0, SCHEDULE)
ORDERED = latent_rows()
SHUFFLED_PLACES = dict(zip(TRAINED + NEW, (-1.2, -0.6, 0.0, 0.6, 1.2, 0.9, -0.2, 0.4, -0.5, 0.1, -0.8), strict=True))
SATURATED = {context: float(np.clip(context, -10, 10)) / 10 for context in TRAINED + NEW} | {-15.0: -0.9, 15.0: 0.9}


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def verdicts(scores: list, latents: list) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for claim in claims(Scores(scores, "tilt"), LatentRows(latents, "tilt")):
        found.setdefault(claim.text, set()).add(claim.verdict)
    return found


EVERY = {
    "learns faster than the generalist",
    "learns faster than the specialist",
    "at least the specialist early on",
    "beats the generalist in the changing environment",
    "superior to the generalist in new environments with few data",
    "superior to the specialist in new environments with few data",
    "no clear win over the generalist at the extremes",
    "latents are in the order of the hidden parameter",
    "latents of new environments are in that order",
    "latents of the steepest new environments lie outside those of the trained ones",
}


def test_every_claim_holds_where_it_is_so() -> None:
    assert verdicts(FASTER, ORDERED) == {text: {HOLDS} for text in EVERY}


def test_no_claim_holds_where_it_is_not_so() -> None:
    against = latent_rows(SHUFFLED_PLACES)
    assert verdicts(SLOWER, against) == {text: {FAILS} for text in EVERY}


def test_agents_that_do_the_same_are_inconclusive() -> None:
    found = verdicts(SAME, [])
    assert found["no clear win over the generalist at the extremes"] == {HOLDS}
    assert all(OPEN in found[text] for text in EVERY if "latents" not in text and "no clear win" not in text)


@pytest.mark.parametrize("seeds", [(), (0,), (0, 3)])
def test_fewer_than_three_seeds_are_inconclusive(seeds: tuple[int, ...]) -> None:
    scores, latents = of_seeds(FASTER, *seeds), [row for row in ORDERED if row["seed"] in seeds]
    assert set().union(*verdicts(scores, latents).values()) == {OPEN}


def test_a_missing_agent_leaves_its_claims_open() -> None:
    found = verdicts([row for row in FASTER if row["agent"] != "specialist"], ORDERED)
    assert {text for text, said in found.items() if said == {OPEN}} == {text for text in EVERY if "specialist" in text}


def test_rule_of_the_verdict() -> None:
    above, around, below = [1.0, 2.0, 3.0], [-2.0, 0.0, 2.0], [-1.0, -2.0, -3.0]
    assert [Claim("", "", seeds).verdict for seeds in (above, around, below)] == [HOLDS, OPEN, FAILS]
    assert [Claim("", "", seeds, no_win=True).verdict for seeds in (above, around, below)] == [FAILS, HOLDS, HOLDS]
    assert [Claim("", "", above, threshold=level).verdict for level in (0.5, 2.0, 4.0)] == [HOLDS, OPEN, FAILS]
    assert Claim("", "", [1.0, 2.0, math.nan]).verdict == OPEN


def test_three_seeds_of_one_sign_are_not_firm() -> None:
    """The bootstrap of three numbers never leaves their range; Student's t may."""
    loose, tight = Claim("", "", [0.1, 1.0, 3.0]), Claim("", "", [1.0, 1.1, 1.2])
    assert (loose.verdict, loose.firm) == (HOLDS, False)
    assert (tight.verdict, tight.firm) == (HOLDS, True)


def test_area_is_by_trapezoids_and_only_of_complete_seeds() -> None:
    scores = Scores([row for row in FASTER if (row["agent"], row["seed"], row["episode"]) != ("latent", 2, 8)], "tilt")
    curves = curve_gains(scores, "generalist")
    assert curves["seed"].values.tolist() == [0, 1, 3, 4]
    one = curves.values[0]
    assert area(curves, 8)[0] == pytest.approx((one[0] / 2 + one[1:8].sum() + one[8] / 2) / 8)
    assert area(curves, 2)[0] == pytest.approx((one[0] / 2 + one[1] + one[2] / 2) / 2)
    assert area(curves, 0) == []


def test_extremes_are_the_new_contexts_beyond_the_trained_ones() -> None:
    scores = Scores(FASTER, "tilt")
    assert extremes(scores) == ["-15", "15"]
    assert extremes(Scores([row for row in FASTER if row["context"] != -15.0], "tilt")) == ["15"]
    assert extremes(Scores([row for row in FASTER if row["context"] not in (-15.0, 15.0)], "tilt")) == []
    named = [{**row, "context": f"body {row['context']}"} for row in FASTER]
    assert extremes(Scores(named, "tilt")) == []


def a_map(place: dict[float, float], direction: tuple[float, float] = (0.6, -0.8)) -> LatentMap:
    contexts = sorted(place)
    return LatentMap(
        contexts,
        np.array([place[context] * np.array(direction) for context in contexts]),
        np.array([context in TRAINED for context in contexts]),
    )


def test_probe_is_fitted_on_trained_contexts_only() -> None:
    """New contexts in the opposite order: they do not turn the probe round."""
    mirrored = {context: context / 10 if context in TRAINED else -context / 10 for context in TRAINED + NEW}
    found = a_map(mirrored)
    assert rank_correlation(found, found.trained) == pytest.approx(1)
    assert rank_correlation(found, ~found.trained) == pytest.approx(-1)
    assert rank_correlation(a_map({context: context**3 for context in TRAINED + NEW})) == pytest.approx(1)


def test_margin_is_in_the_context_s_unit() -> None:
    line = {context: context / 10 for context in TRAINED + NEW}
    assert margin_outside(a_map(line)) == pytest.approx(3.0)
    assert margin_outside(a_map(line | {15.0: 1.1})) == pytest.approx(-1.0)
    assert margin_outside(a_map(line | {15.0: -1.5})) == pytest.approx(-27.0)  # outside, at the wrong end
    assert math.isnan(margin_outside(a_map({context: context for context in (*TRAINED, -3.0, 3.0)})))


def test_order_without_reach_is_distinguished() -> None:
    found = verdicts([], latent_rows(SATURATED))
    assert found["latents of new environments are in that order"] == {HOLDS}
    assert found["latents of the steepest new environments lie outside those of the trained ones"] == {FAILS}


def test_latents_of_named_contexts_have_no_order() -> None:
    named = [{**row, "context": f"body {row['context']}"} for row in ORDERED]
    assert all(said == {OPEN} for text, said in verdicts([], named).items() if "latents" in text)
    several = [{**row, "context": [row["context"], -row["context"]]} for row in ORDERED]
    found = verdicts([], several)
    assert found["latents are in the order of the hidden parameter"] == {HOLDS}
    assert found["latents of the steepest new environments lie outside those of the trained ones"] == {OPEN}


def test_tables_show_the_numbers() -> None:
    scores = Scores(FASTER, "tilt")
    table = final_table(scores, "test", 2)
    cells = {row[0]: row for row in table.rows}
    assert list(cells) == ["latent", "generalist", "specialist", "random"]
    assert all(len(row) == len(table.head) for row in table.rows)
    assert cells["latent"][1] == "5"
    assert float(cells["latent"][6].split()[0]) > 0.1 > abs(float(cells["specialist"][6].split()[0]))
    assert float(cells["latent"][5].split()[0]) > 0.7
    assert cells["random"][2] == "-60"
    table = claims_table(claims(scores, LatentRows(ORDERED, "tilt")))
    assert {row[4] for row in table.rows} == {HOLDS}


def test_page_holds_all_parts_and_leaves_out_those_without_rows() -> None:
    few = [row for row in FASTER if row["context"] in FEW and row["checkpoint"] in (None, 8)]
    found = findings(
        few, [row for row in ORDERED if row["seed"] == 0], "tilt", "tilt (degrees)", "tilt-6", {"tilt": 0.1}
    )
    headings = [section.heading for section in found.sections]
    assert headings[:2] == ["The paper's claims", "Training environments"]
    assert "Trained on two environments: after 8 rounds" in headings
    assert headings[-2:] == ["Latents", "Where the latent matters"]
    names = [figure.name for figure in found.figures]
    assert len(names) == len(set(names)) == 9
    assert all(figure.png.startswith(b"\x89PNG") for figure in found.figures)
    page = to_markdown(findings([], [], "tilt"), "figures")
    assert page.startswith("# Reproduction: tilt")
    assert "inconclusive" in page
    assert "## Training" not in page


def test_same_rows_give_the_same_page() -> None:
    rows = [row for row in FASTER if row["context"] in FEW and row["split"] == "test" and row["checkpoint"] == 8]
    first, second = (to_markdown(findings(some, [], "tilt"), "figures") for some in (rows, list(rows)))
    assert first == second
