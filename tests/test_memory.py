"""Memory that was freed is taken again without asking the system for it page by page."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scoreprior import _memory

FAULTS = """
import resource
import runpy
import numpy as np
if {keep}:
    assert runpy.run_path({path!r})["keep_freed_memory"]()
def take_and_free():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(2**23)  # 64 MB: more than glibc ever keeps of its own accord
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
take_and_free()
print(sum(take_and_free() for _ in range(5)))
"""


def faults(keep: bool) -> int:
    code = FAULTS.format(keep=keep, path=_memory.__file__)  # by its path: importing all of the package takes seconds
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_memory_is_taken_again_without_page_faults():
    if not _memory.keep_freed_memory():
        pytest.skip("the C library of this system is not glibc")
    assert faults(keep=True) < 0.1 * faults(keep=False)


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(_memory.ctypes, "CDLL", lambda name: object())  # without mallopt
    assert not _memory.keep_freed_memory()
