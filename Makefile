# Two commands: `make demo` and `make test`. Paths are relative, so a directory with spaces is fine.
PYTHON ?= python3
RUN := .venv/bin/python -m
# Also applies to the isolated build of the package itself.
export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint slow package bench clean

demo: .venv/.installed
	$(RUN) scoreprior demo

test: lint
	$(RUN) pytest -n 2

slow: .venv/.installed-test
	$(RUN) pytest -n 2 -m slow

# Builds the package, installs it into new environments and runs the demo there: three minutes, and pip's index is needed.
package: .venv/.installed-test
	$(RUN) pytest -m slow tests/test_package.py

lint: .venv/.installed-test
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy

bench: .venv/.installed
	.venv/bin/python benchmarks/score_training.py
	.venv/bin/python benchmarks/inference.py
	.venv/bin/python benchmarks/denoiser.py
	.venv/bin/python benchmarks/interpolation.py
	.venv/bin/python benchmarks/compilation.py
	.venv/bin/python benchmarks/freed_memory.py
	.venv/bin/python benchmarks/factors.py

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(RUN) pip install -q -e ".[all]"
	touch $@

.venv/.installed-test: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(RUN) pip install -q -e ".[test]"
	touch .venv/.installed $@

clean:
	rm -rf .venv
