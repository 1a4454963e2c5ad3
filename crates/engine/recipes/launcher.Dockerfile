# The containers `aifo`, `install` and `clone` of a pod: the launcher, the program that runs tools, certificates for
# models, and git.
ARG BASE=debian:trixie
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ca-certificates git \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY aifo-coder aifo-shim /usr/local/bin/
# A program that is linked against a newer C library than the base's fails here, not in the pod.
RUN aifo-coder --version && aifo-shim --version
RUN if ldd /usr/local/bin/aifo-shim 2>&1 | grep '=>'; then \
      echo 'error: aifo-shim is linked dynamically, so it does not start in every image' >&2; exit 1; fi
ENV LANG=C.UTF-8
