# Programs that configure, cache and debug builds; the base has the compilers and make.
ARG BASE=base
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ccache cmake gdb ninja-build \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
RUN cmake --version && ninja --version && ccache --version && gdb --version && g++ --version
