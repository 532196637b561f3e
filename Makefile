# aisb: `make run` sets up what is needed and shows the main job; `make test`
# sets up what is needed and passes every test. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
BUILD    = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.release=$(VERSION)'
FUZZTIME ?= 10s

.NOTPARALLEL: # one target installs what the next needs
.PHONY: help setup build run test tested unit lint fuzz spike e2e e2e-inner harnesses vm evidence bench docs man packages release reproduce soak lab clean

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

setup: ## install what the tests need, where that is possible
	tests/setup

build: ## the binary: ./aisb
	$(BUILD) -o aisb ./cmd/aisb

run: build ## the main job: image, a sandbox that reaches one host and is refused another
	tests/main-job

test: setup ## every test that this machine can run; ends with their number and what it leaves out
	tests/counts/with $(MAKE) --no-print-directory tested

tested: lint unit packages e2e e2e-inner
	tests/main-job --test

unit: build ## tests without containers, with the race detector
	tests/unit

packages: ## the packages for amd64 or arm64, as this machine is, made and looked at
	tests/release/check

lint: ## gofmt, vet, staticcheck, shellcheck
	tests/lint

fuzz: ## every fuzz target for FUZZTIME (10s)
	tests/fuzz $(FUZZTIME)

e2e: ## real podman, pasta and nftables, on this host or in the lab
	tests/e2e/run

e2e-inner: ## the same with the network backend that is the default
	AISB_E2E_BACKEND=inner tests/e2e/run

harnesses: ## all five harnesses against stand-ins for their models: minutes to build
	AISB_E2E_HARNESSES="pi claude codex gemini opencode" tests/e2e/run -v -run 'TestHarnessIsTold|TestHarnessScreen'

vm: ## a Debian 13 that boots: package, doctor, sandboxes, attacks, limits, logins
	tests/vm/run

spike: ## the experiments that the design rests on, printed
	tests/spike/run

evidence: ## the tests of docs/threat-model.md, into docs/evidence.md
	tests/evidence/run

bench: ## ratios against other proxies, into docs/bench; FULL=1 takes longer
	tests/bench/run

docs: ## write docs/cli.md and the recording of the first five minutes anew
	AISB_WRITE_DOCS=1 $(GO) test -count=1 -run '^TestReference$$' ./cmd/aisb
	AISB_E2E_BACKEND=inner AISB_E2E_CAST=docs/first-five-minutes.cast tests/e2e/run -run '^TestFirstFiveMinutes$$'

man: ## manual pages, into dist/man
	mkdir -p dist/man
	AISB_MAN_DIR=$(CURDIR)/dist/man $(GO) test -count=1 -run '^TestManPages$$' ./cmd/aisb

release: ## archives, .deb, .rpm, lists of modules and SHA256SUMS, into dist
	tests/release/run

reproduce: ## two releases of one commit, in two places, compared
	tests/release/reproduce

soak: ## a gate under load for SOAK (30m): memory, goroutines and sockets return
	tests/soak/run

lab: ## make the lab: a disposable Debian 13 with rootless podman
	tests/lab/lab make

clean: ## remove what was built here; the cache of lab and VM stays
	rm -rf aisb dist
