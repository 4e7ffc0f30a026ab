"""Tables as text."""

from pyro_dynamics.io.tables import decimal, markdown_head, markdown_table, text_table


def test_small_numbers_have_digits_too() -> None:
    assert list(map(decimal, (-1234.56, 0.06, 0.0, -0.0))) == ["-1234.6", "0.1", "0.0", "0.0"]
    assert list(map(decimal, (0.0123, -4e-7))) == ["0.012", "-4e-07"]
    assert [decimal(value, 2) for value in (1.234, 0.0123, 0.00123)] == ["1.23", "0.01", "0.0012"]


def test_markdown_escapes_what_would_end_a_cell_and_aligns_numbers() -> None:
    lines = markdown_table(["name", "ms"], [["a|b", "1.0"], ["", "12.5"]], words=1).splitlines()
    assert lines == ["| name | ms |", "|---|--:|", "| a\\|b | 1.0 |", "|  | 12.5 |"]
    assert markdown_head(["name", "why"]).splitlines()[1] == "|---|---|"


def test_columns_are_as_wide_as_their_cells_and_the_last_one_as_it_is() -> None:
    table = text_table(["agent", "n", "folder"], [["latent", "1", "a long place"], ["none", "100", "b"]])
    assert table.splitlines() == ["agent     n  folder", "latent    1  a long place", "none    100  b"]
