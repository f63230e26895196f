# Everything that a person runs. `make deploy` and `make test` install what they need; the sandbox needs root.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# The collection finds itself and its Python through these; nothing comes from the user's own configuration.
export PATH := $(CURDIR)/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PYTHONPATH := $(CURDIR)

.PHONY: help setup sandbox sandbox-clean deploy test lint unit integration lock test-all test-large test-browser

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## .venv with Ansible and what the tests need
	@tests/setup.sh

sandbox: setup ## two hosts on this machine, with everything that SGLang needs on a CPU
	@python3 -m tests.sandbox up --serving sgl1 sgl2

sandbox-clean: ## remove every trace of the sandbox
	@python3 -m tests.sandbox clean

deploy: sandbox ## the main job: two real SGLang servers on the sandbox hosts
	@ansible-playbook deploy.yml -i inventories/sandbox

lint: setup ## ruff, mypy, ansible-lint, ansible-test sanity, documentation and changelog
	@tests/lint.sh

unit: setup ## the logic, against real SGLang releases
	@pytest tests/unit

integration: sandbox ## the main job on the sandbox hosts: deploy, drift, wrong values, restore
	@pytest tests/integration/test_deploy.py

test: lint unit integration ## all of the above; under 25 minutes on two cores

test-all: sandbox ## every playbook, unit, readiness, toolkit and rollout test on hosts of their own; over an hour
	@pytest tests/integration

test-large: setup ## checks on gigabytes of real wheels (torch, kernels); fetched once into the cache
	@pytest tests/large

test-browser: setup ## the report's page in a real browser; needs Playwright (pip) and a Chromium, or is skipped
	@pytest tests/browser

lock: setup ## a lock for RELEASE=0.5.15 CUDA=cu130 (more indexes: INDEX="URL URL"); see locks/README.md
	@PYTHONPATH=collections python -m ansible_collections.inferops.sglang.plugins.plugin_utils.locking \
	  --release "$(RELEASE)" --cuda "$(CUDA)" $(foreach url,$(INDEX),--index "$(url)")
