# `toolchain/` is empty or holds the host's toolchain (`--rust-from-host`), whose programs find their
# libraries beside them. Debian's `rustc` is years old; `rustc-web`, which Debian keeps current to build
# browsers, is preferred where it exists.
ARG BASE=base
FROM ${BASE}
COPY toolchain/ /usr/local/
RUN [ -x /usr/local/bin/rustc ] || { \
      apt-get update \
      && if apt-cache show rustc-web >/dev/null 2>&1; \
         then set -- rustc-web cargo-web rustfmt-web rust-web-clippy; \
         else set -- rustc cargo rustfmt rust-clippy; fi \
      && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" \
      && apt-get clean && rm -rf /var/lib/apt/lists/*; }
RUN cargo --version && rustc --version && cargo fmt --version && cargo clippy --version
