"""What the export's 8 bits do to a model, in PyTorch: values are rounded, gradients pass as if they were not."""

import torch
from export import GELU_MINIMUM, SAFE_RANGE, WHOLE_RANGE
from torch import Tensor, nn
from torch.nn import functional


def around_0(tokens: Tensor) -> Tensor:
    """What flows into a matrix, with a scale for each token."""
    return _rounded(tokens, _largest(tokens) / 127)


def from_minimum(inner: Tensor) -> Tensor:
    """The same behind GELU, which has a smallest value."""
    shifted = inner + GELU_MINIMUM
    return _rounded(shifted, shifted.detach().amax(-1, keepdim=True).clamp(min=1e-9) / 255) - GELU_MINIMUM


def words(rows: Tensor) -> Tensor:
    return _rounded(rows, _largest(rows) / WHOLE_RANGE)


def dense(layer: nn.Linear, small: Tensor) -> Tensor:
    is_wide = layer.in_features > layer.out_features
    steps = _largest(layer.weight) / (WHOLE_RANGE if is_wide else SAFE_RANGE)
    return functional.linear(small, _rounded(layer.weight, steps), layer.bias)


def _largest(values: Tensor) -> Tensor:
    return values.detach().abs().amax(-1, keepdim=True).clamp(min=1e-9)


def _rounded(values: Tensor, steps: Tensor) -> Tensor:
    with torch.no_grad():
        error = torch.round(values / steps) * steps - values
    return values + error
