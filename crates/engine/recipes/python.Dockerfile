# Debian's Python with the headers for source builds, and uv from PyPI. The index's address and the
# certificates stay in the download stage.
# pypi: uv
ARG BASE=base
FROM ${BASE} AS fetch
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-pip
ARG PIP_INDEX_URL
COPY ca.crt requirements.txt /tmp/
RUN if [ -s /tmp/ca.crt ]; then export PIP_CERT=/tmp/ca.crt; fi \
 && pip install --no-cache-dir --no-deps --require-hashes --target /tmp/wheel -r /tmp/requirements.txt

FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      python-is-python3 python3 python3-dev python3-pip python3-venv \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
# Debian's text names apt and pipx.
RUN printf '%s\n' '[externally-managed]' \
      'Error=This Python belongs to the image: packages in it would be gone with the session.' \
      ' hint: create an environment in the project, which python and pip then use here:' \
      '     python3 -m venv .venv' \
      > "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/EXTERNALLY-MANAGED"
COPY --from=fetch /tmp/wheel/bin/uv /tmp/wheel/bin/uvx /usr/local/bin/
RUN python --version && pip --version && uv --version && uvx --version
