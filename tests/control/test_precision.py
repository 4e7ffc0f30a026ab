import pytest
import torch

from pyro_dynamics.control import describe_precision, planning_dtype, precision


def rates(float32: float, bfloat16: float) -> dict[torch.dtype, float]:
    return {torch.float32: float32, torch.bfloat16: bfloat16}


@pytest.mark.parametrize(
    ("measured", "chosen"),
    [(rates(100, 400), torch.bfloat16), (rates(100, 60), torch.float32), (rates(100, 200), torch.float32)],
    ids=["much faster", "slower", "a little faster"],
)
def test_auto_takes_bfloat16_where_it_is_much_faster(
    measured: dict[torch.dtype, float], chosen: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_rates", lambda: measured)
    precision._fastest.cache_clear()
    assert planning_dtype("auto") == chosen
    assert str(chosen).removeprefix("torch.") in describe_precision("auto")
    precision._fastest.cache_clear()


def test_the_probe_measures_this_processor() -> None:
    assert precision.matrix_product_rate(torch.float32) > 0.5
    assert planning_dtype("bfloat16") == torch.bfloat16
    assert describe_precision("float32") == "planning in float32, as asked"
