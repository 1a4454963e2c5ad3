# Programs that agents use beside their runtime. No compilers and no make: those run in sidecars, and a
# tool that is not installed here cannot bypass one.
ARG BASE=debian:trixie
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      bash ca-certificates curl file gh git jq less openssh-client procps ripgrep sqlite3 tmux tree unzip \
      wget \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
# A home for any user, for use without the launcher, which mounts a fresh one over it.
RUN install --directory --mode 1777 /home/coder
COPY zz-aifo.sh /etc/profile.d/zz-aifo.sh
ENV LANG=C.UTF-8 HOME=/home/coder
