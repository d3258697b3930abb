# SPDX-License-Identifier: Apache-2.0
# What one does with graphffi's source tree. Everything is installed into .venv, nothing outside.
#   make quickstart   install, build, run the first example
#   make test         install, build, run the tests, on both runtimes
#   make test-slow    the tests that take long and need not run on each runtime: C++ programs, packages, compilers
#   make test-full    the tests of random ops with all of them, in every mode: half an hour
#   make test-gpu     the tests that need a GPU, with the packages of $(PYTHON): installs nothing, needs no network
#   make sanitize     build the runtime, the call frame and a model's library with sanitizers, run their C++ tests, fuzz
#                     their readers
#   make includes     compile each C++ file alone
#   make matrix       test the plugins with older and newer frameworks (several GB)
#   make forky        build and test with Debian's next release, Python 3.14 and gcc 16 (needs root, debootstrap, several GB)
#   make wheels       build a wheel for each Python from 3.10 to 3.14 that is found, into dist/
#   make peers        other projects' own tests on the bundled runtime; needs googletest, and a network
#   make docs         a site of docs/, with the reference, in build/site; a broken link fails
#   make check        what CI runs: format, lint, types, a build without warnings, docs, tests, sanitizers
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
RUNTIMES ?= bundled apache
PYTEST_ARGS ?=
# The counts of `make test-gpu`, for a row of docs/versions.md: see tests/gpu_table.py.
GPU_RESULT ?= build/gpu.xml
# How many processes run tests.
TEST_JOBS ?= $(shell nproc)
RUN_TESTS = $(PY) -m pytest --numprocesses=$(TEST_JOBS) --dist=loadfile
CXX_FILES = $(shell git ls-files 'csrc/*' 'plugins/*' 'tests/*' 'examples/*' 'benchmarks/*' | grep -E '\.(h|cc|c)$$')

# What is built here has no warnings; what users build may have those of their compiler.
export GRAPHFFI_WERROR ?= 1

.PHONY: quickstart build test test-slow test-full test-gpu sanitize includes matrix forky wheels peers check format format-check lint types bench docs clean
.DEFAULT_GOAL := build

$(VENV)/quickstart.stamp: requirements/quickstart.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -r $<
	touch $@

$(VENV)/test.stamp $(VENV)/dev.stamp $(VENV)/docs.stamp: $(VENV)/%.stamp: requirements/%.txt $(VENV)/quickstart.stamp
	$(PIP) install --quiet -r $<
	touch $@

# The reference is formatted by ruff, which is not to be installed meanwhile.
$(VENV)/docs.stamp: | $(VENV)/dev.stamp

$(VENV)/nodeps.stamp: requirements/test-nodeps.txt $(VENV)/test.stamp
	$(PIP) install --quiet --no-deps -r $<
	touch $@

# Compiles kernels for CUDA on any machine; beside the packages, since torch would use it.
$(VENV)/triton.stamp: requirements/triton.txt $(VENV)/quickstart.stamp
	$(PIP) install --quiet --no-deps --upgrade --target $(VENV)/triton -r $<
	touch $@

# Once; afterwards the packages of this source tree are what is imported.
$(VENV)/editable.stamp: pyproject.toml setup.py $(VENV)/quickstart.stamp
	$(PIP) install --quiet --no-build-isolation --no-deps --editable .
	touch $@

build: $(VENV)/quickstart.stamp
	$(PY) setup.py --quiet build_native
	@$(MAKE) --no-print-directory $(VENV)/editable.stamp

quickstart: build
	$(PY) examples/quickstart/quickstart.py

# Tests of what no runtime changes (ONCE in tests/conftest.py) are divided among the runtimes.
test: build $(VENV)/nodeps.stamp
	@$(MAKE) --no-print-directory --keep-going $(RUNTIMES:%=test-on-%)

test-on-%:
	@echo "== tests on the $* runtime"
	@GRAPHFFI_RUNTIME=$* $(RUN_TESTS) -m "not slow" --runtimes="$(RUNTIMES)" $(PYTEST_ARGS)

# Chooses no runtime: programs in C++ are built once, and run on both.
test-slow: build $(VENV)/nodeps.stamp $(VENV)/dev.stamp $(VENV)/triton.stamp
	$(RUN_TESTS) -m slow $(PYTEST_ARGS)

test-full: build $(VENV)/test.stamp
	GRAPHFFI_FAMILY=200 $(RUN_TESTS) $(PYTEST_ARGS) tests/core/test_family.py tests/torch_plugin/test_family.py \
	  tests/jax_plugin/test_family.py

# On machines that have their own builds of the frameworks, and perhaps no network. Their compilers and headers are
# none that CI builds with: warnings do not stop the build.
test-gpu: GRAPHFFI_WERROR = 0
test-gpu:
	$(PYTHON) setup.py --quiet build_native
	PYTHONPATH=.:plugins/torch:plugins/jax $(PYTHON) -m pytest --junitxml=$(GPU_RESULT) $(PYTEST_ARGS) tests/gpu

# Units and precompiled headers hide what a file does not include.
includes: $(VENV)/quickstart.stamp
	@PATH=$(abspath $(VENV)/bin):$$PATH $(VENV)/bin/cmake -S . -B build/alone -G Ninja -DPython3_EXECUTABLE=$(abspath $(PY)) \
	  -DGRAPHFFI_BUILD_TORCH=ON -DGRAPHFFI_BUILD_JAX=ON \
	  -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
	$(PY) tests/compile_alone.py build/alone

# Headers are tested in one thread: the thread sanitizer has nothing to find there.
SANITIZED := tests/abi/test_runtime_cases.py tests/call tests/torch_plugin/test_library_sanitized.py
SANITIZED_address := $(SANITIZED) tests/abi/test_header_cases.py tests/fuzz

# Both at once: most of what is built is one file, which keeps one processor busy.
sanitize: build $(VENV)/test.stamp
	@$(MAKE) --no-print-directory --keep-going --jobs --output-sync sanitize-address sanitize-thread

sanitize-%: $(VENV)/test.stamp $(VENV)/triton.stamp
	@echo "== C++ tests with the $* sanitizer"
	@PATH=$(abspath $(VENV)/bin):$$PATH $(VENV)/bin/cmake -S . -B build/sanitize/$* -G Ninja -DGRAPHFFI_SANITIZE=$* >/dev/null
	@$(VENV)/bin/cmake --build build/sanitize/$*
	GRAPHFFI_SANITIZE=$* $(RUN_TESTS) $(PYTEST_ARGS) $(or $(SANITIZED_$*),$(SANITIZED))

check: format-check lint types build docs test test-slow sanitize

format: $(VENV)/dev.stamp
	$(PY) -m ruff format
	$(PY) -m ruff check --fix --exit-zero --quiet
	$(VENV)/bin/clang-format -i $(CXX_FILES)

format-check: $(VENV)/dev.stamp
	$(PY) -m ruff format --check
	$(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES)

lint: $(VENV)/dev.stamp
	$(PY) -m ruff check

types: $(VENV)/dev.stamp
	$(PY) -m mypy

matrix:
	$(PYTHON) tests/matrix.py --write docs/versions.md $(MATRIX_ARGS)

# In build/forky, or FORKY=DIR.
forky:
	$(PYTHON) tests/forky.py --write docs/versions.md $(FORKY_ARGS)

wheels:
	$(PYTHON) tests/wheels.py $(WHEELS_ARGS)

peers: build $(VENV)/nodeps.stamp
	$(PY) tests/peers.py --write docs/versions.md

# Reads sources only: needs no build.
docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict

bench: build $(VENV)/test.stamp
	$(PY) benchmarks/run.py $(BENCH_ARGS)

# Leaves .venv alone: `rm -r .venv` removes that too.
clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find graphffi plugins -name '*.so' -delete
