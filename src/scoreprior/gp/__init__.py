"""Gaussian processes: kernels, the process, and one process learned from all tasks together."""
