# A server in a container. How to use it: docs/operations.md, "Install".
FROM python:3.13-slim AS build
WORKDIR /source
COPY README.md LICENSE ./
COPY frontend frontend
COPY backend backend
RUN python -m venv /opt/recollect \
    && /opt/recollect/bin/pip install --no-cache-dir --no-compile --constraint backend/constraints.txt "./backend[postgres,s3]"

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin recollect \
    && install --directory --owner recollect --group recollect --mode 700 /data
COPY --from=build /opt/recollect /opt/recollect
# It listens on every address of the container, and for that refuses to start before there is a key.
ENV PATH=/opt/recollect/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    RECOLLECT_HOME=/data \
    RECOLLECT_HOST=0.0.0.0 \
    RECOLLECT_PORT=8600
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8600
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8600/health', timeout=4)"]
ENTRYPOINT ["recollect"]
CMD ["serve"]
