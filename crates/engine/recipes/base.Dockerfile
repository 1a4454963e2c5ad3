# Programs that every toolchain needs: to download (curl, git, ssh), to build native extensions (the
# compilers, make, pkg-config), and ps. All kinds share this layer, so it is stored once.
ARG BASE=debian:bookworm
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ca-certificates curl g++ git make openssh-client pkg-config procps xz-utils \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
ENV LANG=C.UTF-8
