# `make` lists what there is. Every target sets itself up: a virtual environment in .venv, then the package from this
# checkout. Messages go to stderr; stdout of `make -s translate` and `make -s align` holds the result alone.

PYTHON ?= python3
VENV := .venv
NMT := $(VENV)/bin/nmt
INSTALL := $(VENV)/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt

# Only what stands on make's command line counts: some systems export NAME or PORT for their own purposes.
$(foreach variable,MODEL DATA TOKENIZER NAME RUN PORT ARGS MODELS SEEDS LONG,\
  $(if $(filter environment,$(origin $(variable))),$(eval $(variable) :=)))
OVERRIDES := $(if $(MODEL),model=$(MODEL)) $(if $(DATA),data=$(DATA)) $(if $(TOKENIZER),tokenizer=$(TOKENIZER)) \
             $(if $(NAME),name=$(NAME))
RUN := $(or $(RUN),latest)
PORT := $(or $(PORT),6006)

# What `make compare` trains: the rows of table 4 of Luong et al. (2015), and what stands around them. SEEDS sweeps with
# choice(), so that a single seed is in the name too and a second one later finds the first. LONG: the sentences of the
# phrasebook and of most test sets are short, so what a model does with long inputs shows where 2 to LONG of them are
# joined into one; 1 leaves that out.
MODELS := $(or $(MODELS),luong_global_location luong_global_dot luong_global luong_local_m_dot luong_local_m \
          luong_local_p_dot luong_local_p bahdanau seq2seq transformer)
LONG := $(or $(LONG),4)
CORPUS := $(or $(DATA),phrasebook)
COMMA := ,
EMPTY :=
commas = $(subst $(EMPTY) $(EMPTY),$(COMMA),$(strip $1))
SWEEP := model='choice($(call commas,$(MODELS)))' data=$(CORPUS) $(if $(TOKENIZER),tokenizer=$(TOKENIZER)) \
         $(if $(SEEDS),seed='choice($(call commas,$(SEEDS)))') $(if $(filter multi30k,$(CORPUS)),train.max_minutes=15)
COMPARED := $(foreach model,$(MODELS),$(foreach seed,$(or $(SEEDS),none),$(CORPUS)-$(model)$(if $(SEEDS),-seed$(seed))))

# A sentence goes through the environment, letter by letter as it was written: quotes, dollars and all.
override TEXT := $(value TEXT)
export TEXT

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install download tokenize train evaluate translate align compare speedrun notebook tensorboard bench \
        bench-peers bench-gpu scale docs docs-site phrasebook test test-slow lint check clean

help: ## print this list
	@echo 'Usage: make TARGET [MODEL=…] [DATA=…] [TOKENIZER=…] [NAME=…] [RUN=…] [TEXT=…] [MODELS=…] [SEEDS=…] [LONG=…] [PORT=…] [ARGS=…]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  MODEL, DATA, TOKENIZER  a file in conf/model, conf/data, conf/tokenizer'
	@echo '  MODELS, SEEDS           for compare: several, separated by spaces (default: ten models, seed 1)'
	@echo '  LONG                    for compare: also score inputs of 2 to LONG joined sentences (default: 4; 1: none)'
	@echo '  NAME, RUN               name of a new run; run to use (default: the latest)'
	@echo '  ARGS                    anything else for the command, e.g. ARGS="train.max_steps=500 seed=2"'

install: $(VENV)/.installed ## make .venv and install the package (the other targets do this if needed)
	@echo 'Ready. For the nmt command itself: source $(VENV)/bin/activate' >&2

download: $(VENV)/.installed ## download the corpus DATA and drop bad pairs
	@$(NMT) download $(OVERRIDES) $(ARGS)

tokenize: $(VENV)/.installed ## learn the tokenizer TOKENIZER
	@$(NMT) tokenize $(OVERRIDES) $(ARGS)

train: $(VENV)/.installed ## train MODEL on DATA; the same command continues after an interruption
	@$(NMT) train $(OVERRIDES) $(ARGS)

evaluate: $(VENV)/.installed ## score RUN with BLEU and chrF on the test sets
	@$(NMT) evaluate $(ARGS) -- '$(RUN)'

translate: $(VENV)/.installed ## translate TEXT with RUN; without TEXT, translate stdin
	@$(NMT) translate $(ARGS) -- '$(RUN)' $${TEXT:+"$$TEXT"}

align: $(VENV)/.installed ## print the attention weights for TEXT
	@$(NMT) align $(ARGS) -- '$(RUN)' $${TEXT:+"$$TEXT"}

compare: $(VENV)/.installed ## train MODELS on DATA with SEEDS and compare them in one table; the same command continues
	@$(NMT) train $(SWEEP) $(ARGS) -m >&2 || { code=$$?; \
	echo 'Not every run is there; `nmt compare RUN RUN …` compares those that are.' >&2; exit $$code; }
	@$(NMT) compare $(COMPARED) --output 'runs/compare-$(CORPUS)'$(if $(filter-out 1,$(LONG)), --long '$(LONG)')

speedrun: $(VENV)/.installed ## train MODEL (transformer_rotary) on Multi30k for fifteen minutes with SEEDS 1 2 3 (docs/design/benchmarks.md)
	@$(NMT) train data=$(or $(DATA),multi30k) model=$(or $(MODEL),transformer_rotary) train.max_minutes=15 \
	seed='choice($(call commas,$(or $(SEEDS),1 2 3)))' $(ARGS) -m

notebook: $(VENV)/.notebook ## open a lesson on attention in the browser: an hour on two cores, ten minutes with FAST=1
	@$(VENV)/bin/jupyter lab docs/tutorials/attention.ipynb $(ARGS)

tensorboard: $(VENV)/.installed ## show curves, translations and heatmaps of all runs in the browser
	@echo 'Open http://localhost:$(PORT) in a browser; Ctrl-C here ends it.' >&2
	@$(VENV)/bin/tensorboard --logdir runs --port '$(PORT)' $(ARGS)

bench: $(VENV)/.installed ## measure speed and memory of training, translating and starting; ARGS="--models … --rounds …"
	@$(VENV)/bin/python scripts/bench.py $(ARGS)

bench-peers: $(VENV)/.installed ## compare the speed with other toolkits, each in its own environment
	@$(VENV)/bin/python scripts/bench_peers.py $(ARGS)

bench-gpu: $(VENV)/.installed ## measure matrix products, training and translating on a CUDA device
	@$(VENV)/bin/python scripts/bench_gpu.py $(ARGS)

test: $(VENV)/.dev ## run the fast tests
	@# compiled modules are kept, for the workers, for processes that tests start, and for the next time
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/pytest -n auto --dist worksteal -m 'not slow and not gpu' $(ARGS)

test-slow: $(VENV)/.dev ## run the tests that train for minutes
	@# 5 = no test is marked slow
	@$(VENV)/bin/pytest -n auto --dist worksteal -m 'slow and not gpu' $(ARGS) || [ $$? -eq 5 ]

docs: $(VENV)/.installed ## write docs/reference/configuration.md from the schema
	@$(VENV)/bin/python scripts/config_reference.py

docs-site: $(VENV)/.dev ## build docs/ as a site in site/ and check its links
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build
	@echo 'Open site/index.html.' >&2

phrasebook: $(VENV)/.dev ## test the generator of data/phrasebook and write the pairs again
	@cd data/phrasebook && '$(abspath $(VENV))/bin/python' -m pytest -q generator && '$(abspath $(VENV))/bin/python' -m generator

lint: $(VENV)/.dev ## check format, lint and types
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy nmt $(wildcard scripts)

check: lint test ## run lint and the fast tests, which every change must pass

scale: $(VENV)/.installed ## measure how cost grows; writes tables, and pictures in docs/pictures (Linux; 2 GB in data/scale)
	@$(VENV)/bin/python scripts/scale.py all --folder data/scale --pictures docs/pictures $(ARGS)

clean: ## remove build output and caches, but not runs/, data/ and .venv
	@rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -path ./.venv -prune -o -path ./data -prune -o -path ./runs -prune -o \
		-type d -name __pycache__ -exec rm -rf {} +

$(VENV)/bin/pip:
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	{ echo "nmt needs Python 3.10 or newer, and '$(PYTHON)' is not; name one with PYTHON=/path/to/python3." >&2; exit 2; }
	@'$(PYTHON)' -m venv $(VENV) >&2

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo 'Installing into $(VENV); the first time takes some minutes …' >&2
	@$(INSTALL) -e . >&2
	@touch $@

$(VENV)/.notebook: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo 'Installing into $(VENV); the first time takes some minutes …' >&2
	@$(INSTALL) -e '.[notebook]' >&2
	@touch $(VENV)/.installed $@

# Everything at once: what the package itself needs is among it.
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo 'Installing into $(VENV); the first time takes some minutes …' >&2
	@$(INSTALL) -e '.[dev,ctranslate2]' >&2
	@touch $(VENV)/.installed $@
