# Day-to-day commands. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup run test test-all test-processors lint format manifests images cluster-test reference docs bench bench-full bench-gpu-model chaos audit ui clean

UV_PINNED := .ci/uv.txt
UV := .uv/bin/uv
# The newest interpreter on the path that is really a Python 3.11 to 3.13. Without one, uv brings a Python 3.13.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& $$p -c 'import sys; print(sys.executable)' && break; done)
MANAGED := .uv/python3.13
BASE = $(or $(PYTHON),$(MANAGED))
# It only sets up uv, so it may be a newer one.
HOST_PYTHON = $(or $(PYTHON),$(shell command -v python3 || command -v python))
READY := .venv/.ready
# Some tests wait for servers and timers: one process more than there are cores keeps those busy.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
export UV_LINK_MODE ?= copy
# Where Horovod's build finds its cmake.
export PATH := $(CURDIR)/images/horovod:$(PATH)

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

setup: $(READY) ## install everything into .venv (the first time compiles Horovod)

$(UV):
	@test -n "$(HOST_PYTHON)" || { echo "error: no Python found; install Python 3.11 or newer, or say make PYTHON=/path/to/python" >&2; exit 2; }
	@echo "setting up uv in .uv"
	@if $(HOST_PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	  $(HOST_PYTHON) -m venv .uv && .uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(UV_PINNED); \
	elif $(HOST_PYTHON) -m pip --version >/dev/null 2>&1; then \
	  $(HOST_PYTHON) -m pip install --quiet --disable-pip-version-check --prefix .uv --ignore-installed --require-hashes -r $(UV_PINNED) && \
	  test -x $(UV) || mv .uv/local/bin .uv/bin; \
	else echo "error: $(HOST_PYTHON) has neither venv nor pip; on Debian: apt-get install python3-venv" >&2; exit 2; fi

$(MANAGED): | $(UV)
	@echo "no Python 3.11 to 3.13 found: uv brings a Python 3.13 into .uv (UV_PYTHON_INSTALL_MIRROR names another source)"
	@told=$$(UV_PYTHON_DOWNLOADS=manual $(UV) python install --no-bin --install-dir .uv/python 3.13 2>&1) || { echo "$$told" >&2; exit 2; }
	@ln -sfn "$$(UV_PYTHON_INSTALL_DIR=.uv/python $(UV) python find --managed-python 3.13)" $@

$(READY): pyproject.toml uv.lock | $(UV) $(if $(PYTHON),,$(MANAGED))
	@command -v c++ >/dev/null || command -v g++ >/dev/null || { echo "error: no C++ compiler found; Horovod needs one (on Debian: apt-get install g++)" >&2; exit 2; }
	@$(BASE) -c 'import os, sys, sysconfig; \
	  sys.exit(sys.version_info >= (3, 12) and not os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")))' || \
	  { echo "error: $(BASE) has no headers (Python.h); NVTabular needs them from Python 3.12 on (on Debian: apt-get install python3-dev)" >&2; exit 2; }
	@test -d .venv/lib || echo "installing about 240 packages into .venv and compiling Horovod from source: usually 4 to 8 minutes the first time; the build is cached, so later it takes seconds"
	@$(UV) sync --locked --all-extras --no-extra gpu --python $(BASE)
	@echo "compiling the kernels of records for this processor: half a minute, once"
	@.venv/bin/python -m pipelines.kernels
	@touch $@

run: $(READY) ## run the whole workflow on the built-in data set
	@.venv/bin/kfrec run --set train_seed=1

PYTEST = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(READY) ## run the tests that take seconds, a whole run with two ranks among them
	@$(PYTEST) -m "not slow"

test-all: $(READY) ## run all tests
	@$(PYTEST)

test-processors: $(READY) ## run the numeric tests as other processors compute: make test-processors [ONLY="AVX2 SSE41"]
	@.venv/bin/python -m tests.processors $(ONLY)

lint: $(READY) ## check style, types, Dockerfiles and the lock file
	@.venv/bin/hadolint images/*/Dockerfile
	@.venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && $(UV) lock --check --python $(BASE)

format: $(READY) ## format the code
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

manifests: $(READY) ## write every pipeline, for KFP and for kubectl, to manifests/pipelines: make manifests REGISTRY=... [SIZE=small]
	@.venv/bin/kfrec compile --output manifests/pipelines $(if $(REGISTRY),--registry "$(REGISTRY)") $(if $(SIZE),--size $(SIZE))

reference: $(READY) ## write the reference pages of docs/ from the code
	@.venv/bin/python -m components.steps.reference > docs/parameters.md
	@.venv/bin/python -m pipelines.reference.commands > docs/commands.md

audit: $(READY) ## look for published vulnerabilities of the lock file: make audit [ADVISORIES=folder or archive of OSV records]
	@$(if $(ADVISORIES),.venv/bin/python -m images.audit "$(ADVISORIES)",$(UV) audit --locked)

docs: $(READY) ## build the pages of docs/ as a site in build/docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

images: $(READY) ## build the images: make images REGISTRY=... [IMAGES="cpu train"] [REVISION=...] [PUSH=1] [DRY_RUN=1]
	@.venv/bin/python -m images.build --registry "$(REGISTRY)" --revision "$(REVISION)" $(if $(PUSH),--push) $(if $(DRY_RUN),--dry-run) $(IMAGES)

cluster-test: $(READY) ## run the images and manifests on real servers: make cluster-test [ONLY=tests/cluster/suite/test_rights.py]
	@.venv/bin/python -m tests.cluster $(ONLY)

bench: $(READY) ## measure every stage against its reference (about 15 minutes)
	@.venv/bin/python -m benchmarks

bench-full: $(READY) ## the same with more runs and larger sizes (half an hour)
	@.venv/bin/python -m benchmarks --full

bench-gpu-model: $(READY) ## count what a training step costs on a GPU, without one (half a minute)
	@.venv/bin/python -m benchmarks.gpu_model

chaos: $(READY) ## kill every step, rank and worker at random moments: make chaos [MINUTES=10] [KILLS=20] [SEED=...]
	@.venv/bin/python -m tests.harm.chaos --minutes $(or $(MINUTES),10) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

ui: $(READY) ## look at the runs in MLflow
	@.venv/bin/kfrec ui

clean: ## remove the environment and everything built, but no runs
	@rm -rf .venv .uv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
