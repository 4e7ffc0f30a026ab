import torch

from pyro_dynamics.seeding import derive_generator, derive_seed, drawing_from


def test_streams_differ_by_seed_and_key_and_repeat() -> None:
    keys = [(seed, *key) for seed in (0, 1) for key in (("round", 1), ("round", 2), ("reset", 1))]
    seeds = [derive_seed(*key) for key in keys]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [derive_seed(*key) for key in keys]


def test_drawing_from_uses_and_advances_the_stream_and_leaves_the_global_one_alone() -> None:
    before = torch.get_rng_state()
    stream = derive_generator(0, "a")
    with drawing_from(stream):
        first, second = torch.randn(3), torch.randn(3)
    assert torch.equal(torch.get_rng_state(), before)
    again = derive_generator(0, "a")
    with drawing_from(again):
        assert torch.equal(torch.randn(3), first)
    with drawing_from(again):
        assert torch.equal(torch.randn(3), second)
