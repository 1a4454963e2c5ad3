# Base of Python agents: Debian's interpreter, for their virtual environments. It is where no virtual
# environment of a project leads: in a session the usual paths are shims.
ARG BASE=agent-base
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3 \
 && apt-get clean && rm -rf /var/lib/apt/lists/* \
 && python=$(basename "$(readlink -f /usr/bin/python3)") && mkdir -p /opt/agent/bin /opt/agent/lib \
 && mv "/usr/bin/$python" /opt/agent/bin/ && rm /usr/bin/python3 \
 && ln -s "$python" /opt/agent/bin/python3 && ln -s "/usr/lib/$python" /opt/agent/lib/ \
 && /opt/agent/bin/python3 -c 'import ctypes, ssl, sys, venv; assert sys.prefix == "/opt/agent"'
