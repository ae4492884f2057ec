# Every target works in a fresh clone: it makes .venv and gets the Pulumi CLI first, and is quick when both are there.
# STACK names Pulumi.$(STACK).yaml. LOCALCLOUD_KUBECONFIG=<file> puts a real API server under up, preview and down.
STACK ?= dev
PYTHON ?= python3
PY := .venv/bin/python
# Without bytecode each run would compile the SDKs again.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH

.PHONY: help venv up preview down jobs report slurm-lab slurm-lab-down test lint plan format lock clean
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' Makefile | expand -t 24

venv: ## .venv with what requirements-dev.txt pins
	@$(PYTHON) -m tools.venv

up: venv ## bring the whole cluster up on the local cloud
	@$(PY) -m tools.stack up $(STACK)

preview: venv ## show what up would change
	@$(PY) -m tools.stack preview $(STACK)

down: venv ## destroy the cluster, stop the local cloud, say what is left
	@$(PY) -m tools.stack down $(STACK)

plan: venv ## print every decision that follows from the settings, and the resource tree; needs no Pulumi CLI
	@$(PY) -m plan $(STACK)
	@$(PY) -m tools.show_tree $(STACK)

jobs: venv ## write the job scripts of the stack as files, to sbatch by hand
	@$(PY) -m jobs $(STACK)

report: venv ## FILE=<results.json of /shared/validation>: one HTML page with verdicts and bandwidth curves beside it
	@$(PY) -m jobs.report $(FILE)

slurm-lab: venv ## a real Slurm on this machine with the stack's own lines (Debian's packages, as root)
	@$(PY) -m tools.slurm_lab up $(STACK)

slurm-lab-down: venv ## stop it
	@$(PY) -m tools.slurm_lab down

test: venv ## all tests; those of the engine are skipped, with the reason, where no Pulumi CLI can be had
	-@$(PYTHON) -m tools.pulumi_cli
	@$(PY) -m pytest

lint: venv ## ruff, pyright, shellcheck, hadolint
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/basedpyright
	.venv/bin/shellcheck .ci/run $$(git ls-files --cached --others --exclude-standard '*.sh')
	if [ -e images/slurmd/Dockerfile ]; then .venv/bin/hadolint images/slurmd/Dockerfile; fi

format: venv ## let ruff write what lint would complain about
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

lock: ## pin what requirements*.in ask for, with hashes
	$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet uv==0.13.9
	for file in requirements requirements-dev; do \
	  .cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --no-emit-find-links $$file.in --output-file $$file.txt; \
	done

clean: down ## down, then remove all that was made here
	rm -rf .venv .cache .localcloud
