"""The list of faults fits the code: what they change is there, once, and the tests that should notice are there."""

from collections import Counter

import pytest
from mutations import FAULTS, ROOT, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_made(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text().count(fault.before) == 1
    assert fault.before != fault.after
    assert all((ROOT / test).exists() for test in fault.tests)


def test_faults_have_names_of_their_own() -> None:
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
