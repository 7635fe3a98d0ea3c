# One command per intent; each is a few lines, the work is in scripts/ and in the packages.
PYTHON := .venv/bin/python
HELP_WIDTH := 20
# Python keeps compiled modules also where the environment forbids it: tests start hundreds of processes. Empty means off.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup environment wheel images sbom check checks class-archive test test-clusters test-deep test-unit test-e2e test-java demo cluster-up cluster-down cluster-env \
        clean test-spark-versions test-kubernetes-versions docs crds lock bench-join bench-load bench-merge bench-planner bench-control-plane bench-clone bench-agent \
        simulate mutants mutants-java chaos release release-check changelog krew quickstart

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-$(HELP_WIDTH)s %s\n", $$1, $$2}'

setup: environment  ## the virtual environment from locks/, the coloc:// file system's jar, and nginx for agents on this machine
	@scripts/nginx

environment:
	@scripts/setup >&2  # `make -s cluster-env` prints commands for a shell

images sbom release test-clusters test-e2e demo chaos bench-join: environment

wheel:  ## build/dist/colocation-*.whl, the jar inside; and build/s3-jars, for the Spark image
	@scripts/build-wheel
	@scripts/s3-jars

images: wheel  ## the operator's and Spark's images, for the dev cluster
	@$(PYTHON) -m demo images

sbom: wheel  ## build/sbom/<image>.cdx.json: what is in each of these images (CycloneDX)
	@$(PYTHON) -m demo sbom

release: wheel sbom  ## build/release: wheel, chart, SBOMs, checksums, notes (how to publish: CONTRIBUTING.md)
	@$(PYTHON) -m release

quickstart:  ## a first join on the cluster of kubectl's context: kind, k3d, or any with REGISTRY=… (examples/quickstart)
	@scripts/quickstart

krew: wheel  ## build/krew: `kubectl colocation` as a Krew plugin (URL=https://…: the folder where its archive will lie)
	@scripts/krew

changelog: setup  ## writes the fragments of changelog.d into CHANGELOG.md, under the version and today's date
	@$(PYTHON) -m release changelog

release-check: setup  ## whether wheel, chart, jar and CRDs agree on the version (TAG=v1.2.3: and with the tag and the changelog)
	@$(PYTHON) -m release check $(TAG)

check: setup  ## linters, types, layers
	@scripts/check

test: checks test-unit test-clusters  ## everything that CI runs; half an hour

checks: setup  # check, docs, test-java and what the next stage starts with: each keeps one processor busy
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target check docs test-java class-archive

test-clusters: wheel  # what waits for a cluster, and what computes in the gaps
	@$(MAKE) --no-print-directory --jobs 2 test-spark-versions test-e2e

class-archive: setup
	@$(PYTHON) -m tests.spark.class_archive > /dev/null

test-deep:  ## all tests there are: also those marked deep, and all of Spark's on every Spark version; two hours
	@$(MAKE) test DEEP=1
	@$(MAKE) test-kubernetes-versions

test-unit: setup  ## all tests but the end-to-end ones; some need Kubernetes' programs, built once
	@scripts/test-unit

simulate: setup  ## new seeds of the control plane's simulation (SEEDS=100), or one again (SEED=17)
	@PYTHONPATH=operator:. $(PYTHON) -m tests.simulation

mutants: setup  ## changes of functions that no test notices (FILES=operator/colocation/storage/*.py TESTS=tests/unit/storage SAMPLE=50)
	@PYTHONPATH=operator:. $(PYTHON) -m tests.mutation $(FILES) --tests $(TESTS) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

mutants-java: wheel  ## changes of the jar that neither JUnit nor Spark's tests notice (PACKAGES="write catalog" SAMPLE=50); half an hour more at first
	@PYTHONPATH=operator:. $(PYTHON) -m tests.mutation.java $(PACKAGES) --tests $(or $(TESTS),tests/spark) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

chaos: wheel  ## the whole system under faults, on the dev cluster (SEED=n MINUTES=5 FAULTS=a,b), or fewer faults (SHRINK=n)
	@PYTHONPATH=operator:. $(PYTHON) -m tests.chaos

test-java: setup
	@scripts/test-java

test-spark-versions: setup  ## the Spark library on the other supported Spark versions
	@scripts/test-spark-versions

test-kubernetes-versions: wheel  ## integration tests and the end-to-end story on other minors of Kubernetes (MINORS="1.30 1.37")
	@scripts/test-kubernetes-versions

test-e2e: wheel
	@scripts/test-e2e

demo: wheel  ## colocated joins on TPC-H survive the loss of a node (SF=0.1 for a quick one, KEEP=1 keeps the cluster)
	@$(PYTHON) -m demo run

cluster-up: setup  ## a three-node Kubernetes on this machine, without Docker (REPLACE=1 ends one that another checkout keeps)
	@$(PYTHON) -m devcluster up --nodes 3

cluster-down: setup
	@$(PYTHON) -m devcluster down

cluster-env: setup  ## exports for a shell: eval "$$(make -s cluster-env)"
	@$(PYTHON) -m devcluster env && echo 'export PATH="$(CURDIR)/.venv/bin":"$$PATH"'

docs: setup  ## build/site: the documentation; a broken link is an error
	@scripts/docs

crds: setup  ## regenerate crds/ from the models, the chart's copy, and the pages made from models, help and values
	@$(PYTHON) -m colocation.schema.crds && scripts/sync-chart-crds
	@$(PYTHON) -m colocation.schema.reference && $(PYTHON) -m colocation.admin_api.openapi && $(PYTHON) scripts/generate-reference

lock:  ## resolve pyproject.toml into locks/
	@scripts/lock

bench-join: wheel  ## build/bench/join.json, join.png: joins compared with their peers, on the dev cluster; 25 minutes (ONLY=tpch, layouts, …)
	@$(PYTHON) -m benchmarks.join $(if $(ONLY),--only $(ONLY))

bench-load: setup  ## build/bench/load.json: loads compared with Spark's own bucketed tables, on loopback; 15 minutes
	@$(PYTHON) -m benchmarks.load

bench-merge: setup  ## build/bench/merge.json: changes of rows compared with Iceberg and Delta, on loopback; 20 minutes
	@$(PYTHON) -m benchmarks.merge

bench-planner: setup  ## build/bench/planner.json
	@$(PYTHON) benchmarks/planner.py

bench-control-plane: setup  ## build/bench/control_plane.json: 20 nodes, 400 tables, and 1,000 nodes, 20,000 tables; 20 minutes
	@$(PYTHON) -m benchmarks.control_plane

bench-clone: setup  ## build/bench/clone.json: repair compared with a raw copy, between two network namespaces; root; 10 minutes
	@$(PYTHON) -m benchmarks.clone

bench-agent: setup  ## build/bench/agent.json: an agent's readers compared with nginx's; installs nginx and wrk; 2 minutes
	@$(PYTHON) -m benchmarks.agent

clean:  ## what was built in this checkout (caches and a running cluster stay)
	rm -rf build .venv operator/colocation/spark/jars spark_images/coloc-fs/target operator/*.egg-info
