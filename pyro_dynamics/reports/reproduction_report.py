"""The report of ``pyro-dynamics reproduce``: claims, tables and figures from the rows of scores and latents."""

from collections.abc import Callable, Mapping, Sequence

from pyro_dynamics.plots import reproduction_figures as plots
from pyro_dynamics.plots.reproduction_latents import latents_map, latents_training
from pyro_dynamics.plots.style import Png
from pyro_dynamics.reports.report import Figure, Report, Section, Table
from pyro_dynamics.reproduction import aggregate
from pyro_dynamics.reproduction.claims import MIN_SEEDS, Claim, claims, margin_outside, rank_correlation
from pyro_dynamics.reproduction.latent_rows import LatentRows
from pyro_dynamics.reproduction.results import TRUE_DYNAMICS
from pyro_dynamics.reproduction.score_rows import LAST, Row, Scores, by_seed, seed_gains, strata

RULE = (
    "In square brackets are 95 % intervals of the mean from 500 bootstraps over seeds, as in the paper. A claim holds "
    "where the interval lies above 0 (Spearman's correlation over all contexts: above 0.9), does not hold where it "
    "lies below, and is inconclusive where it contains that value or there are fewer than 3 seeds. That there "
    "is no clear win holds unless the interval lies above 0. The paper's interval is too narrow for few seeds: of 3, 5 "
    "and 10 Gaussian runs it covers 74, 84 and 89 %. The last column says whether Student's t interval, which covers "
    "95 %, gives the same verdict."
)
SCALE = (
    "Scores are (r - B) / (R - B) in each environment, with B the mean of the random policy and R the best mean over "
    "seeds of latent, generalist and specialist (in training over rounds, else over checkpoints). IQM is the mean of "
    "the middle half of all runs in all environments, with a bootstrap that resamples each environment separately; the "
    "same bootstrap gives the interval of the probability that a run is better than one of the generalist (Agarwal et "
    "al. 2021). Then comes the mean over seeds of the difference in score on the same seed. true-dynamics is the same "
    "planner with the simulator itself as its model, under the true context: the share of the ceiling is the score "
    "with its mean return in place of R. It can be above 1, as the ceiling is that of a short horizon."
)


def findings(
    scores: Sequence[Row],
    latents: Sequence[Row],
    family: str = "halfcheetah-tilt",
    axis: str = "tilt (degrees)",
    ablation: str = "halfcheetah-tilt-6",
    influence: Mapping[str, float] | None = None,
) -> Report:
    """The whole report with its figures; parts without rows are left out.

    Args:
        scores: the lines of ``scores.jsonl``.
        latents: the lines of ``latents.jsonl``.
        family: the paper's environments.
        axis: name and unit of its hidden parameter.
        ablation: the family trained on two contexts only.
        influence: how much the hidden parameter changes the one-step prediction, for each family.
    """
    of_family, of_latents = Scores(scores, family), LatentRows(latents, family)
    sections = [
        Section("The paper's claims", [RULE, SCALE], [claims_table(claims(of_family, of_latents))]),
        *_training(scores, of_family, axis),
        *_split(of_family, "test", "New environments", lambda: plots.final_scores(scores, family, axis)),
        *_split(of_family, "dynamic", "An environment that changes", lambda: plots.dynamic(scores, family)),
        *_split(
            Scores(scores, ablation, family),
            "ablation",
            "Trained on two environments",
            lambda: plots.ablation(scores, ablation, axis, family),
        ),
        *_latents(latents, of_latents, family, axis),
        *_where_it_matters(scores, influence or {}),
    ]
    return Report(f"Reproduction: {family}", sections)


def claims_table(found: Sequence[Claim]) -> Table:
    """The claims with our numbers and the verdicts."""
    return Table(
        ["claim", "measure", "ours", "seeds", "verdict", "same by Student's t"],
        [
            [
                claim.text,
                claim.measure,
                claim.estimate.text(claim.digits),
                str(claim.estimate.count),
                claim.verdict,
                ("yes" if claim.firm else "no") if claim.estimate.count >= MIN_SEEDS else "-",
            ]
            for claim in found
        ],
    )


def final_table(scores: Scores, split: str, checkpoint: int | None = None) -> Table:
    """Final results of each agent: return, score, IQM, the comparison with the generalist, and with the ceiling."""
    ceiling = TRUE_DYNAMICS in scores.agents(split)
    theirs = scores.scores("generalist", split, checkpoint)
    rows = []
    for agent in scores.agents(split):
        ours = scores.scores(agent, split, checkpoint)
        returns = by_seed(scores.final(agent, split, checkpoint))
        cells = ["-", "-"]
        if agent != "generalist":
            better = aggregate.improvement(strata(ours), strata(theirs))
            cells = [better.text(), aggregate.mean(seed_gains(scores, split, checkpoint, agent).values).text()]
        rows.append(
            [
                agent,
                str(returns.sizes["seed"]),
                aggregate.mean(returns.values).text(0),
                aggregate.mean(by_seed(ours).values).text(),
                aggregate.interquartile_mean(strata(ours)).text(),
                *cells,
                *[aggregate.mean(by_seed(scores.shares(agent, split, checkpoint)).values).text()] * ceiling,
            ]
        )
    base = [scores.random.get(context) for context in scores.contexts(split)]
    if base and None not in base:
        level = sum(map(float, filter(None, base))) / len(base)
        rows.append(["random", "-", f"{level:.0f}", "0", "-", "-", "-", *["0"] * ceiling])
    head = [
        "agent",
        "seeds",
        "return",
        "score",
        "IQM of scores",
        "P(better than generalist)",
        "score minus generalist's",
        *["share of the ceiling"] * ceiling,
    ]
    return Table(head, rows)


def _training(rows: Sequence[Row], scores: Scores, axis: str) -> list[Section]:
    if not scores.agents("train"):
        return []
    figures = [
        Figure(
            "learning-normalised",
            plots.learning_normalised(rows, scores.family),
            "Score of an episode, mean over the training environments (the paper's Fig. 2a)",
        ),
        Figure(
            "learning-by-environment-normalised",
            plots.learning_by_environment_normalised(rows, scores.family, axis),
            "Score in each training environment, 1 the mean of the specialist's last rounds (Fig. 2b)",
        ),
        Figure(
            "learning-by-environment",
            plots.learning_by_environment(rows, scores.family, axis),
            "Return in each training environment",
        ),
    ]
    words = [f"The mean of the last {LAST} rounds.", *_left_out(scores, "train")]
    return [Section("Training environments", words, [final_table(scores, "train")], figures)]


def _split(scores: Scores, split: str, heading: str, draw: Callable[[], Png]) -> list[Section]:
    """A section for each checkpoint, the first with a figure of all of them."""
    what = "The mean over the episodes." if split == "dynamic" else "The last episode in each environment."
    sections = [
        Section(f"{heading}: after {at} rounds", (), [final_table(scores, split, at)])
        for at in scores.checkpoints(split)
    ]
    if sections:
        words = [what, *_left_out(scores, split)]
        caption = f"{heading}, at each checkpoint"
        sections[0] = Section(sections[0].heading, words, sections[0].tables, [Figure(split, draw(), caption)])
    return sections


def _left_out(scores: Scores, split: str) -> list[str]:
    names = ", ".join(scores.unscaled(split))
    return [f"No agent is above the random policy, or it was not run, in {names}: left out of the scores."] * bool(
        names
    )


def _latents(rows: Sequence[Row], latents: LatentRows, family: str, axis: str) -> list[Section]:
    if not latents.seeds:
        return []
    maps = {seed: found for seed in latents.seeds if (found := latents.last(seed)) is not None}
    table = [
        [
            str(seed),
            *(
                f"{number:.2f}"
                for number in (
                    rank_correlation(found),
                    rank_correlation(found, ~found.trained),
                    margin_outside(found),
                )
            ),
        ]
        for seed, found in maps.items()
        if not any(isinstance(context, str) for context in found.contexts)
    ]
    head = ["seed", "Spearman, all contexts", "Spearman, new contexts", "steepest outside by"]
    figures = [Figure("latents-training", latents_training(rows, family, axis), "Latents over training, one seed")]
    if maps:
        figures.append(Figure("latents-map", latents_map(rows, family, axis), "Latents of trained and new contexts"))
    words = ["A linear probe is fitted on the trained contexts of each seed and evaluated in all of them."]
    return [Section("Latents", words, [Table(head, table)] if table else [], figures)]


def _where_it_matters(rows: Sequence[Row], influence: Mapping[str, float]) -> list[Section]:
    """The gain over the generalist in every family that has both agents."""
    table, drawn = [], {}
    for family in dict.fromkeys(row["family"] for row in rows):
        scores = Scores(rows, family)
        last = max(scores.checkpoints(scores.new), default=None)
        gains = seed_gains(scores, scores.new, last)
        if gains.size:
            found = aggregate.mean(gains.values)
            amount = f"{influence[family]:.3g}" if family in influence else "-"
            trained = aggregate.mean(seed_gains(scores, "train").values)
            table.append([family, amount, str(last), str(found.count), found.text(), trained.text()])
            if family in influence:
                drawn[family] = influence[family]
    if not table:
        return []
    gain = "score of latent minus generalist"
    head = [
        "family",
        "variance explained",
        "rounds",
        "seeds",
        f"{gain}, new contexts",
        f"{gain}, last {LAST} rounds of training",
    ]
    figures = []
    if drawn:
        caption = "Gain of the latent agent against the variance explained by the hidden parameter"
        figures = [Figure("gain-by-influence", plots.gain_by_influence(rows, drawn), caption)]
    words = (
        "Variance explained is the share of the next step's variance that the hidden parameter explains given state "
        "and action (Sobol's total effect, measured in the simulator along random actions): the part that a model "
        "without a latent cannot predict, however well it is trained."
    )
    return [Section("Where the latent matters", [words], [Table(head, table)], figures)]
