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

help: ## this list
	@echo 'Usage: make TARGET [MODEL=…] [DATA=…] [TOKENIZER=…] [NAME=…] [RUN=…] [TEXT=…] [MODELS=…] [SEEDS=…] [LONG=…] [PORT=…] [ARGS=…]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  MODEL, DATA, TOKENIZER  a file in conf/model, conf/data, conf/tokenizer'
	@echo '  MODELS, SEEDS           several, with spaces between, for compare (default: ten models, seed 1)'
	@echo '  LONG                    for compare: also BLEU of 2 to LONG sentences joined into one input (default: 4; 1: none)'
	@echo '  NAME, RUN               name of a new run; the run to use (default: the latest)'
	@echo '  ARGS                    anything else for the command, e.g. ARGS="train.max_steps=500 seed=2"'

install: $(VENV)/.installed ## make .venv and install the package (the other targets do it themselves)
	@echo 'Ready. For the nmt command itself: source $(VENV)/bin/activate' >&2

download: $(VENV)/.installed ## fetch the corpus DATA and drop the pairs that cannot be right
	@$(NMT) download $(OVERRIDES) $(ARGS)

tokenize: $(VENV)/.installed ## learn the subword pieces TOKENIZER
	@$(NMT) tokenize $(OVERRIDES) $(ARGS)

train: $(VENV)/.installed ## train MODEL on DATA; the same command again continues
	@$(NMT) train $(OVERRIDES) $(ARGS)

evaluate: $(VENV)/.installed ## BLEU and chrF of RUN on the test set
	@$(NMT) evaluate $(ARGS) -- '$(RUN)'

translate: $(VENV)/.installed ## translate TEXT with RUN; without TEXT, the lines of stdin
	@$(NMT) translate $(ARGS) -- '$(RUN)' $${TEXT:+"$$TEXT"}

align: $(VENV)/.installed ## print the attention weights while TEXT is translated
	@$(NMT) align $(ARGS) -- '$(RUN)' $${TEXT:+"$$TEXT"}

compare: $(VENV)/.installed ## train MODELS on DATA with SEEDS, then one table over all of them; again continues
	@$(NMT) train $(SWEEP) $(ARGS) -m >&2 || { code=$$?; \
	echo 'Not every run is there; `nmt compare RUN RUN …` compares those that are.' >&2; exit $$code; }
	@$(NMT) compare $(COMPARED) --output 'runs/compare-$(CORPUS)'$(if $(filter-out 1,$(LONG)), --long '$(LONG)')

speedrun: $(VENV)/.installed ## fifteen minutes of MODEL (transformer_rotary) on Multi30k, SEEDS 1 2 3: docs/design/benchmarks.md
	@$(NMT) train data=$(or $(DATA),multi30k) model=$(or $(MODEL),transformer_rotary) train.max_minutes=15 \
	seed='choice($(call commas,$(or $(SEEDS),1 2 3)))' $(ARGS) -m

notebook: $(VENV)/.notebook ## a lesson on attention in the browser: an evening on two cores, ten minutes with FAST=1
	@$(VENV)/bin/jupyter lab docs/tutorials/attention.ipynb $(ARGS)

tensorboard: $(VENV)/.installed ## curves, translations and heatmaps of all runs in the browser
	@echo 'Open http://localhost:$(PORT) in a browser; Ctrl-C here ends it.' >&2
	@$(VENV)/bin/tensorboard --logdir runs --port '$(PORT)' $(ARGS)

bench: $(VENV)/.installed ## speed and memory of the models: training, translating, starting; ARGS="--models … --rounds …"
	@$(VENV)/bin/python scripts/bench.py $(ARGS)

bench-peers: $(VENV)/.installed ## other toolkits, each in an environment of its own, in turn with nmt on the same data
	@$(VENV)/bin/python scripts/bench_peers.py $(ARGS)

bench-gpu: $(VENV)/.installed ## training, translating and attention on a CUDA device, and its speed of matrix products
	@$(VENV)/bin/python scripts/bench_gpu.py $(ARGS)

test: $(VENV)/.dev ## the fast tests
	@# compiled modules are kept, for the workers, for processes that tests start, and for the next time
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/pytest -n auto --dist worksteal -m 'not slow and not gpu' $(ARGS)

test-slow: $(VENV)/.dev ## the tests that train for minutes
	@# 5 = no test is marked slow
	@$(VENV)/bin/pytest -n auto --dist worksteal -m 'slow and not gpu' $(ARGS) || [ $$? -eq 5 ]

docs: $(VENV)/.installed ## write docs/reference/configuration.md anew from the schema
	@$(VENV)/bin/python scripts/config_reference.py

docs-site: $(VENV)/.dev ## build the pages of docs/ as a site in site/, links checked
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet
	@echo 'Open site/index.html.' >&2

phrasebook: $(VENV)/.dev ## test the generator of data/phrasebook, then write the pairs anew: the same bytes
	@cd data/phrasebook && '$(abspath $(VENV))/bin/python' -m pytest -q generator && '$(abspath $(VENV))/bin/python' -m generator

lint: $(VENV)/.dev ## format, lint, types
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy nmt $(wildcard scripts)

check: lint test ## what a change must pass: lint, then the fast tests

scale: $(VENV)/.installed ## how cost grows: tables, and pictures in docs/pictures (Linux; 2 GB below data/scale)
	@$(VENV)/bin/python scripts/scale.py all --folder data/scale --pictures docs/pictures $(ARGS)

clean: ## remove build output and caches; runs/, data/ and .venv stay
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
