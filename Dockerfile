# syntax=docker/dockerfile:1
# One image for every role: docker-compose.yml and deploy/helm say which role a container runs.
#   docker build -t ragtide .
#   docker build -t ragtide --build-arg EXTRAS=models,apprise .
# The base is pinned by its version. `docker buildx imagetools inspect` prints its digest; Dependabot and Renovate update
# the version, and keep a digest behind it (`python:VERSION@sha256:...`) if there is one.
FROM python:3.13.5-slim-bookworm AS base

FROM base AS build
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
RUN python -m pip install --no-cache-dir uv==0.13.9 && uv venv /opt/ragtide
WORKDIR /src
# What ragtide needs changes less often than ragtide, so it is a layer of its own.
ARG EXTRAS=""
COPY pyproject.toml ./
RUN --mount=type=cache,target=/root/.cache/uv \
    set -- --extra service --extra web --extra otel --extra recorder --extra grpc \
    && IFS=, && for extra in $EXTRAS; do set -- "$@" --extra "$extra"; done \
    && uv pip install --python /opt/ragtide/bin/python --requirements pyproject.toml "$@"
COPY . .
RUN --mount=type=cache,target=/root/.cache/uv \
    uv pip install --python /opt/ragtide/bin/python --no-deps .

FROM base
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="ragtide" \
      org.opencontainers.image.description="Streaming evaluation of RAG: live scores, honest intervals, drift alerts" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# The kernel drops signals to the first process of a container that has no handler yet: an init passes them on, and reaps.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
# With group 0, so that a platform that gives containers a user of its own (OpenShift) can write there, too.
RUN install --directory --owner 10001 --group 0 --mode 0770 /var/lib/ragtide /recording
COPY --from=build /opt/ragtide /opt/ragtide
ENV PATH=/opt/ragtide/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/ragtide \
    RAGTIDE_DATA_DIR=/var/lib/ragtide \
    RAGTIDE_HTTP_PORT=9464
# A number, so that Kubernetes sees that it is not root.
USER 10001:0
WORKDIR /var/lib/ragtide
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
# It asks the address that the role listens at, and never a proxy. It is for the roles; in `docker run --rm ragtide estimates` it is never asked.
HEALTHCHECK --interval=15s --timeout=10s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os; from http.client import HTTPConnection; bound = os.environ.get('RAGTIDE_HTTP_HOST', ''); asked = HTTPConnection('localhost' if bound in ('', '::', '0.0.0.0') else bound, int(os.environ['RAGTIDE_HTTP_PORT']), timeout=5); asked.request('GET', '/readyz'); raise SystemExit(asked.getresponse().status != 200)"]
ENTRYPOINT ["tini", "--", "ragtide"]
CMD ["up"]
