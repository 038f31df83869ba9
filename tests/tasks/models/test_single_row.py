"""Single rows times matrices: the same products as the library's, whatever the shape."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vitalfew.tasks.models.causal.engines.transformers import SingleRow, quicker_rows

WIDTH = st.integers(1, 96)


@settings(deadline=None)
@given(WIDTH, WIDTH, st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(0, 1000))
def test_it_multiplies_as_the_library_does(width: int, height: int, rows: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(width, height, bias=False, dtype=torch.bfloat16)
    inputs = torch.randn(*rows, width, dtype=torch.bfloat16)
    expected = layer(inputs)
    found = quicker_rows(nn.Sequential(layer))(inputs)
    assert type(layer) is SingleRow
    assert found.shape == expected.shape
    # Sums in another order; those near zero differ by what their terms were rounded to.
    torch.testing.assert_close(found, expected, atol=1e-2, rtol=1.6e-2)
