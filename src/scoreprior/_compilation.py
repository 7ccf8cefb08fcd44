"""How thoroughly XLA compiles: what it does by default only pays for programs that run for long."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

LEVEL_1: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 1}}
"""For `eqx.filter_jit`. JAX's default of 3 compiles inference 1.4 times as long, and it runs an eighth faster at best:
`benchmarks/compilation.py`."""

# An option that XLA does not know is an error, and a later release may well drop its older emitters.
_OLDER = {"xla_cpu_use_fusion_emitters": False} if version("jaxlib").startswith("0.10.") else {}
LEVEL_1_NO_FUSION: dict[str, Any] = {"compiler_options": LEVEL_1["compiler_options"] | _OLDER}
"""For programs that run a few times, or spend their time in products of matrices: quicker to compile.

Not for inference, whose loops run longer so.
"""
