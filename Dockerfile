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
# A status of 503 is an error, and ends it with 1. It is for the roles; in `docker run --rm ragtide estimates` it is never asked.
HEALTHCHECK --interval=15s --timeout=10s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os; from urllib.request import urlopen; urlopen(f\"http://127.0.0.1:{os.environ['RAGTIDE_HTTP_PORT']}/readyz\", timeout=5)"]
ENTRYPOINT ["ragtide"]
CMD ["up"]
