# Two commands for a newcomer: `make demo` and `make test`. The build itself is CMake's; this only names its steps.
# Phases are announced with the seconds they took. Never calls sudo: what is missing is printed as one line to run.
BUILD ?= build
JOBS ?= $(shell nproc)
PHASE := @scripts/phase
# A first configure picks Ninja and leaves tests out; later ones keep what the folder was made with.
NINJA := $(if $(shell command -v ninja),-G Ninja,)
FRESH = $(if $(wildcard $(BUILD)/CMakeCache.txt),,$(NINJA) -DZOETROPE_TESTS=OFF)
CONFIGURE = cmake -S . -B $(BUILD) $(FRESH) --log-level=WARNING

.PHONY: all demo test deps program format check-format clean help
.NOTPARALLEL:

all: deps program

help:
	@echo 'make               the program, $(BUILD)/bin/zoetrope'
	@echo 'make demo          packages, the program, then demo.mp4 from a prompt'
	@echo 'make test          packages, everything, then ctest on the labels unit and quick'
	@echo 'make format        clang-format over the tree; make check-format only looks'
	@echo 'make clean         removes $(BUILD)'

deps:
	$(PHASE) packages scripts/install_deps.sh

# A shell of its own for each line: $(FRESH) must be looked at when packages are there, not when make starts.
program:
	$(PHASE) configure $(MAKE) -s --no-print-directory configure
	$(PHASE) build cmake --build $(BUILD) -j $(JOBS) --target zoetrope zoetrope-mp4

.PHONY: configure configure-tests
configure:
	@$(CONFIGURE)
configure-tests:
	@$(CONFIGURE) -DZOETROPE_TESTS=ON

demo: deps program
	$(PHASE) generate scripts/demo.sh $(BUILD)

# ctest comes last and alone, so that its summary is the end of the output.
test:
	$(PHASE) packages scripts/install_deps.sh --tests
	$(PHASE) configure $(MAKE) -s --no-print-directory configure-tests
	$(PHASE) 'build with tests' cmake --build $(BUILD) -j $(JOBS)
	@echo '== tests' >&2; cd $(BUILD) && ctest -L 'unit|quick' -j $(JOBS) --output-on-failure --no-tests=error

format:
	@scripts/format.sh
check-format:
	@scripts/format.sh --check

clean:
	rm -rf $(BUILD)
