# Every target installs and builds what it needs, when it is missing or older than its sources.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# The parts of `make lint`, the longest first.
lint := rules types typed-rules formatting imports words descriptions shell-programs
.PHONY: help run test test-simulation mutants archive-mutants test-mutants test-ui test-agent test-acp test-forge test-services test-networks e2e simulate fuzz lint quick-tests $(lint) build crds images kubectl-plugin manifests conformance bench cluster-up cluster-down clean

# npm's `node` package brings the Node that this project wants, whatever the system has.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

installed := node_modules/.package-lock.json
built := dist/main.js

help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(built) ## Start everything on this machine: control plane, operator, gateway, agents (AGENT=openhands, AGENTS=codex,claude, PORT, DATA_DIR)
	@# A small young generation: 60 MiB less memory, and no slower at this size.
	@exec node --max-semi-space-size=4 dist/main.js up

test: $(built) ## Lint, types and every test that needs neither cluster nor browser, with the first seeds of the simulation
	@# Many tests wait for processes, so the linter runs beside them.
	@$(MAKE) --no-print-directory -j 2 quick-tests $(lint)

test-simulation: $(installed) ## The simulation with hundreds of seeds (FIRST_SEED; 1 by default; PART=K/3 for a third of them)
	@export FIRST_SEED=$${FIRST_SEED:-1}; \
	echo "Seeds from $$FIRST_SEED on; FIRST_SEED=$$FIRST_SEED repeats this run"; \
	npm test --silent -- test/simulation --testPathIgnorePatterns first-seeds --testTimeout 3600000 --maxWorkers 100%

mutants: $(installed) ## The mistakes that the simulation has to notice, each within 80 seeds (FIRST_SEED; random by default; KNOWN_SEEDS=read: first the seeds that killed them before, =write: and store them; PART=K/3 for a third of them)
	@node test/simulation/mutants/main.ts

archive-mutants: $(installed) ## The mistakes that the model of the archive has to notice (FIRST_SEED, KNOWN_SEEDS, PART: as for mutants)
	@node test/simulation/archive/mutants/main.ts

test-mutants: $(installed) ## The mistakes that other tests have to notice, each with the product that has it (PART: as for mutants)
	@node test/mutants/main.ts

test-ui: $(built) ## The official web UI and our own pages in a real browser; pictures in artifacts/ui (CHROMIUM; see test/browser/run)
	@test/browser/run

test-agent: $(built) ## The real OpenHands agent-server with a mock model (needs Python 3.12 or 3.13; UV_PYTHON; see test/agent/run)
	@test/agent/run

test-acp: $(built) ## The agents of the Agent Client Protocol with a mock of their models and without a network (PART=K/3 for a third of the agents; see test/acp/run)
	@test/acp/run

test-forge: $(built) ## Pushes and pull requests of agents with a real git forge, Gitea (needs Go and a C compiler to build it once; see test/forge/run)
	@test/forge/run

test-services: $(built) ## The archive with a real S3 server, whose process and whose clients are killed (needs Go to build it once; see test/services/run)
	@test/services/run

test-networks: $(built) ## The chart with IPv6, with the DNS and the users of OpenShift, behind a proxy and with Cilium's view of ranges, and its NetworkPolicies in force (needs root; PART=K/3 for one of the three; see test/networks/run)
	@test/networks/run

e2e: $(built) ## Install the chart on a real cluster and use it, break it, upgrade it (KUBECONFIG, else that of cluster-up, else its own; see test/e2e/run)
	@test/e2e/run

simulate: $(installed) ## Run SEEDS simulations from FIRST_SEED on, over every core (MESSAGES=1: with messages sent meanwhile; RETENTION=1: with deletions by age; POOLS=1: with spare sandboxes; TENANT=1: with a hostile tenant; SHARDS=3; BUSY=1: with a busy namespace in one of them)
	@node test/simulation/main.ts --seeds $(or $(SEEDS),2000) --first-seed $(or $(FIRST_SEED),1) $(if $(MESSAGES),--messages) $(if $(RETENTION),--retention) $(if $(POOLS),--pools) $(if $(TENANT),--tenant) $(if $(SHARDS),--shards $(SHARDS)) $(if $(BUSY),--busy)

fuzz: $(installed) ## REQUESTS=20000 requests made from /openapi.json, valid and hostile, each answer judged by it (SEED)
	@node test/fuzz/main.ts

lint: $(installed) ## Formatting, lint rules, types, circular imports, words out of use, descriptions of fields and shell programs
	@$(MAKE) --no-print-directory -j 2 $(lint)

quick-tests: $(built)
	npm test --silent -- --testPathIgnorePatterns 'test/simulation/(?!first-seeds)'

# Prettier and tsc check a file again only when that file, or a file that its types come from, has
# changed.
formatting: $(installed)
	prettier --check --log-level warn --cache --cache-location .cache/prettier .

rules: $(installed)
	eslint --max-warnings 0 .

typed-rules: $(installed)
	oxlint --type-aware --deny-warnings

# ESLint needs the interface of TypeScript 6; this compiler takes less than half of its time.
tsc := node node_modules/typescript-7/bin/tsc

types: $(installed)
	$(tsc) --incremental --tsBuildInfoFile .cache/types.tsbuildinfo
	@# The pages have the types of browsers.
	$(tsc) -p src/web --incremental --tsBuildInfoFile .cache/web-types.tsbuildinfo

imports: $(installed)
	depcruise src packages test helm

words: $(installed)
	node test/lint/words.ts

descriptions: $(installed)
	node test/lint/descriptions.ts

shell-programs: $(installed)
	.ci/shellcheck

build: $(built) ## Bundle into dist/

crds: $(installed) ## Generate the CRDs from the schemas in src/resources
	npm run --silent crds

images: $(built) ## Build images with docker, podman or buildah (IMAGES, REGISTRY, TAG, OFFLINE=1, ARCHIVES; see images/build)
	@images/build

kubectl-plugin: $(built) ## Write the plugin of kubectl as an executable, as an archive and, with RELEASE_URL (the folder of the release's files), as a manifest of krew
	node build/kubectl-plugin.ts

manifests: crds ## Generate the CRDs, and what follows from the chart: manifests/, docs/values.md
	@node helm/tools/generate.ts

conformance: $(installed) ## The conformance cases on a real API server (of KUBECONFIG, else built and started here)
	@test/cluster/with-control-plane conformance packages/local-cluster/test/conformance/run

bench: $(built) ## What things cost, beside what they may cost (ONLY; KUBECONFIG, else built, else embedded)
	@test/cluster/with-control-plane bench node test/bench/main.ts

cluster-up: ## Start a real Kubernetes on this machine, which e2e then uses; print its kubeconfig (needs Go, root; CLUSTER_STATE)
	@test/cluster/up

cluster-down: ## Stop it and remove what it left
	@test/cluster/down

clean: ## Remove what was built and installed; .data stays
	rm -rf dist node_modules .cache coverage artifacts

$(installed): package.json package-lock.json .npmrc $(wildcard packages/*/package.json)
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(built): $(installed) tsconfig.json build.ts $(shell find build src packages/*/src -name '*.ts' -o -name '*.tsx' -o -name '*.css' -o -name '*.sh')
	npm run --silent build
	@touch $@
