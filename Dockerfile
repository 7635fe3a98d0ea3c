# The image of the operator, the node agent and the clone Jobs. Build the wheel first: `make wheel`.
#
# BASE may be a Python image or a bare Debian: what is missing is installed.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null \
    || { apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv \
         && rm -rf /var/lib/apt/lists/*; }
RUN python3 -m venv /opt/colocation
# Dependencies first: they change rarely, so their layer is kept when the wheel changes.
COPY locks/operator.txt /tmp/operator.txt
RUN /opt/colocation/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: \
    --requirement /tmp/operator.txt
COPY build/dist/*.whl /tmp/dist/
RUN /opt/colocation/bin/pip install --no-cache-dir --no-compile --no-index --no-deps /tmp/dist/*.whl \
    && /opt/colocation/bin/pip uninstall --yes pip setuptools >/dev/null \
    && python3 -m compileall -q /opt/colocation/lib

FROM ${BASE}
# nginx serves files in front of the agent, as its child process.
# The policy keeps the package from starting a server in the build.
RUN printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d \
    && apt-get update \
    && apt-get install --yes --no-install-recommends nginx-light $(command -v python3 >/dev/null || echo python3) \
    && rm -rf /var/lib/apt/lists/*
# The chart runs agents and clones under the same id, which owns the data on the nodes.
RUN groupadd --gid 10440 colocation && useradd --uid 10440 --gid 10440 --no-create-home --shell /usr/sbin/nologin colocation
COPY --from=build /opt/colocation /opt/colocation
ENV PATH=/opt/colocation/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10440:10440
CMD ["colocation", "--help"]
