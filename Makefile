# One word a task; `make help` lists them. CMake does the building (CMakePresets.json), tests/run the testing.
PRESET ?= release
JOBS ?= $(shell nproc)
VENV ?= .venv
BUILD := build/$(PRESET)
REPORTS := build/reports$(if $(filter-out release,$(PRESET)),-$(PRESET))

# Debian's own tools before any wrapper of a version manager: packages.txt installs them, so they are there and fit together.
export PATH := /usr/bin:/bin:$(PATH)
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: help build everything configure packages venv demo test arm64 conformance docs fuzz bench bench-ops bench-jit zoo-pt modules-pt format format-check prices install clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

build: configure  ## build the library, the command and the Python package (PRESET=release, debug, asan or tsan)
	@echo "== building $(BUILD): the library, the command, the Python package"
	@cmake --build $(BUILD) -j $(JOBS) --target product

everything: configure  ## build examples, benchmarks and tests too
	@echo "== building $(BUILD): everything"
	@cmake --build $(BUILD) -j $(JOBS)

configure: packages $(if $(filter test conformance bench bench-ops bench-jit zoo-pt modules-pt,$(MAKECMDGOALS)),venv)
	@if [ ! -f $(BUILD)/build.ninja ] || [ CMakePresets.json -nt $(BUILD)/build.ninja ] || \
	    [ $(VENV)/.requirements -nt $(BUILD)/build.ninja ]; then \
	  echo "== configuring $(BUILD)"; \
	  cmake --preset $(PRESET) --log-level=WARNING \
	    $(if $(filter-out .venv,$(VENV)),-DTERN_PYTHON_EXECUTABLE=$(abspath $(VENV))/bin/python); \
	fi

PACKAGES = packages.txt $(if $(filter fuzz,$(MAKECMDGOALS)),packages-fuzz.txt) $(if $(filter arm64,$(MAKECMDGOALS)),packages-arm64.txt)
packages:  ## install the Debian packages of packages.txt that are missing
	@command -v dpkg-query > /dev/null || { echo "not a Debian system: please install what packages.txt lists" >&2; exit 0; }; \
	missing=""; \
	for p in $$(sed 's/#.*//' $(PACKAGES)); do \
	  [ "$$(dpkg-query -W -f '$${db:Status-Status}' $$p 2> /dev/null || true)" = installed ] || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
	  sudo=""; [ "$$(id -u)" = 0 ] || sudo="sudo"; \
	  echo "== installing$$missing"; \
	  $$sudo apt-get update -qq; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	fi

venv: packages  ## .venv with the pinned oracles of requirements-test.txt
	@[ -x $(VENV)/bin/python ] || { echo "== making $(VENV)"; python3 -m venv $(VENV); }
	@want=$$(sha256sum < requirements-test.txt); \
	if [ "$$(cat $(VENV)/.requirements 2> /dev/null || true)" != "$$want" ]; then \
	  echo "== installing the oracles of requirements-test.txt into $(VENV)"; \
	  $(VENV)/bin/python -m pip install --disable-pip-version-check -q -r requirements-test.txt; \
	  echo "$$want" > $(VENV)/.requirements; \
	fi

demo: configure  ## build what examples/demo needs, and run it
	@echo "== building $(BUILD): the library, the command and the examples"
	@cmake --build $(BUILD) -j $(JOBS) --target example_demo tern_command
	@echo "== $(BUILD)/examples/demo build/demo"
	@mkdir -p build/demo
	@$(BUILD)/examples/demo build/demo
	@echo "demo: done"

test: venv everything  ## every test; ONLY="base io" for some rooms; reports under build/reports/
	@$(VENV)/bin/python tests/run --build $(BUILD) --reports $(REPORTS) --python $(VENV)/bin/python $(ONLY)

TARGET ?= zip
RUNS ?= 1000000
FUZZ = build/fuzz/work/$(TARGET)
FUZZER = build/fuzz/fuzz_$(TARGET) -timeout=60 -rss_limit_mb=4096 -malloc_limit_mb=1024 -artifact_prefix=$(FUZZ)-
fuzz: packages  ## fuzz one reader: TARGET=zip RUNS=1000000 (docs/fuzzing.md); findings go to build/fuzz/work/
	@[ -d fuzz/corpus/$(TARGET) ] || { echo "there is no target $(TARGET); there are:" $$(ls fuzz/corpus) >&2; exit 1; }
	@cmake --preset fuzz --log-level=WARNING
	@cmake --build build/fuzz -j $(JOBS) --target fuzz_$(TARGET)
	@mkdir -p $(FUZZ)
	@dictionary=fuzz/dictionary/$(TARGET).txt; \
	$(FUZZER) -runs=$(RUNS) -max_len=2048 -print_final_stats=1 $$([ ! -f $$dictionary ] || echo -dict=$$dictionary) \
	  $(FUZZ) fuzz/corpus/$(TARGET)
	@echo "== once more what was kept, looking for uses of a stack frame after its return"
	@ASAN_OPTIONS=detect_stack_use_after_return=1 $(FUZZER) -runs=0 $(FUZZ) fuzz/corpus/$(TARGET)

ARM64_ROOT ?= build/arm64-root
arm64: venv  ## build everything for ARM64 with a cross compiler, run the C++ tests under qemu; ONLY="base io" for some rooms
	@[ -e $(ARM64_ROOT)/.complete ] || { echo "== unpacking ARM64 libraries into $(ARM64_ROOT)"; tools/arm64-root $(ARM64_ROOT) $(VENV)/bin/python; }
	@[ -f build/arm64/build.ninja ] || cmake --preset arm64 --log-level=WARNING -DTERN_ARM64_ROOT=$(abspath $(ARM64_ROOT))
	@echo "== building build/arm64: everything"
	@cmake --build build/arm64 -j $(JOBS)
	@TERN_ONNXRUNTIME=$$(ls $(abspath $(ARM64_ROOT))/wheels/onnxruntime/capi/libonnxruntime.so.*) \
	  $(VENV)/bin/python tests/run --build build/arm64 --reports build/reports-arm64 --python $(VENV)/bin/python $(ONLY)

conformance: venv build  ## every operator against PyTorch's own samples, along every route; decompositions; writes docs/conformance.md
	@TERN_BUILD_DIR=$(abspath $(BUILD)) $(VENV)/bin/python tests/conformance/run.py --jobs $(JOBS)
	@TERN_BUILD_DIR=$(abspath $(BUILD)) $(VENV)/bin/python tests/conformance/decompositions.py --jobs $(JOBS)

docs: build  ## write docs/operators.md from the registry
	@$(BUILD)/tern ops --markdown > build/operators.md && mv build/operators.md docs/operators.md
	@echo "docs: done"

bench: venv everything  ## benchmarks beside PyTorch and ONNX Runtime, header prices; CLEAN_BUILD=1: also a clean build's time
	@[ -f bench/run.py ] || { echo "there is no bench/run.py yet" >&2; exit 1; }
	@$(VENV)/bin/python bench/run.py $(BUILD)
	@echo; echo "What tern.h and each header it includes cost to compile alone:"; python3 tools/prices --build $(BUILD)
	@if [ "$(CLEAN_BUILD)" = 1 ]; then \
	  rm -rf build/clean; cmake --preset release -B build/clean --log-level=WARNING; export CCACHE_DISABLE=1; \
	  for what in product all; do start=$$(date +%s); cmake --build build/clean -j $(JOBS) --target $$what > /dev/null; \
	    echo "A clean build without a compiler cache, $$what: $$(( $$(date +%s) - start )) s on $(JOBS) cores$$([ $$what = product ] || echo ' more (examples, benchmarks, tests)')"; \
	  done; rm -rf build/clean; \
	else echo "A clean build: CLEAN_BUILD=1 make bench measures it (some ten minutes)"; fi

bench-jit: venv everything  ## TorchScript beside PyTorch: trace, load, first and later calls
	@$(VENV)/bin/python bench/jit.py $(BUILD)

ZOO ?= ../shared/zoo/make.py
ZOO_VENV ?= build/zoo-venv
zoo-pt: venv build  ## TorchScript files of real architectures through Tern and back; ONLY="bert,t5"; table in docs/zoo.md
	@if [ ! -x $(ZOO_VENV)/bin/python ]; then \
	  echo "== making $(ZOO_VENV) with requirements-zoo.txt"; \
	  python3 -m venv $(ZOO_VENV); $(ZOO_VENV)/bin/python -m pip install --disable-pip-version-check -q -r requirements-zoo.txt; \
	fi
	@mkdir -p build/zoo
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tests/zoo/run.py build/zoo --tern $(BUILD)/tern --make $(ZOO) --make-with $(ZOO_VENV)/bin/python \
	  $(if $(ONLY),--only $(ONLY),--table docs/zoo.md)

modules-pt: venv build  ## TorchScript files of everything in PyTorch's own test databases, through Tern and back; ONLY="nn.LSTM"
	@TERN_BUILD_DIR=$(abspath $(BUILD)) $(VENV)/bin/python tests/modules/run.py --table build/modules-pt.tsv $(if $(ONLY),--only '$(ONLY)')

bench-ops: venv build  ## every family of operators beside PyTorch eager, three sizes, one and two threads
	@$(VENV)/bin/python bench/ops.py --build $(BUILD)

SOURCES = find $(wildcard tern tools python examples bench fuzz tests) -name '*.h' -o -name '*.cpp' | sort
format: packages  ## clang-format all C++ files in place
	@$(SOURCES) | xargs -r -P $(JOBS) -n 16 clang-format -i
	@echo "format: done"

format-check: packages  ## say which C++ files clang-format would change
	@$(SOURCES) | xargs -r -P $(JOBS) -n 16 clang-format --dry-run -Werror \
	  && echo "format: clean" || { echo "format: run \`make format\`" >&2; exit 1; }

prices: build  ## seconds tern.h and each header it includes cost to compile alone
	@python3 tools/prices --build $(BUILD)

PREFIX ?= /usr/local
install: build  ## install into PREFIX
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:  ## remove build/
	rm -rf build
