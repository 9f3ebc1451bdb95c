# One image for every role; docker-compose.yml says which one a container runs.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels '.[service,otel,recorder,grpc]'

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --find-links /wheels 'ragtide[service,otel,recorder,grpc]' \
    && useradd --system --create-home ragtide \
    && install --directory --owner ragtide /recording
USER ragtide
ENV PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
ENTRYPOINT ["ragtide"]
CMD ["up"]
