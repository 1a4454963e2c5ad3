# Base of Python agents: Debian's interpreter, for their virtual environments.
ARG BASE=agent-base
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3 \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
