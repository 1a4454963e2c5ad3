# Bookworm's Go is too old for the toolchain line of `go.mod`; the one of its backports supports it and
# downloads the version that a project requires. The backports come from the base's mirror.
ARG BASE=base
FROM ${BASE}
RUN apt-get update \
 && release=$(. /etc/os-release && echo "$VERSION_CODENAME") && set -- golang-go \
 && if [ "$release" = bookworm ]; then \
      mirror=$(apt-get indextargets --format '$(REPO_URI)' "Release: $release" | head -n 1) \
      && echo "deb $mirror $release-backports main" >/etc/apt/sources.list.d/backports.list \
      && apt-get update \
      && set -- --target-release "$release-backports" golang-go; \
    fi \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
RUN go version && command -v gofmt
