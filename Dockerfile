# Yizhan in a container: one image, every process of it by command (serve, worker, migrate, up).
# The stage "build" makes the wheel and the locked environment, the last one only runs them.
FROM python:3.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /opt/yizhan \
    && /opt/yizhan/bin/python -m pip install --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY agent agent
COPY memory memory
COPY skills skills
COPY tools tools
COPY config config
COPY scripts scripts
RUN /opt/yizhan/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/yizhan/bin/python -m pip install --no-deps --no-index /wheels/*.whl

FROM python:3.12-slim-bookworm
LABEL org.opencontainers.image.title="Yizhan" \
      org.opencontainers.image.description="A gateway between WeChat's enterprise platforms and an assistant that remembers, acts and asks first" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 yizhan \
    && useradd --uid 10001 --gid 10001 --no-log-init --create-home --home-dir /home/yizhan yizhan \
    && install --directory --owner=yizhan --group=yizhan --mode=0700 /data
COPY --from=build /opt/yizhan /opt/yizhan
ENV PATH=/opt/yizhan/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    YIZHAN_DATA_DIR=/data \
    YIZHAN_HTTP__HOST=0.0.0.0
USER 10001:10001
WORKDIR /home/yizhan
VOLUME ["/data"]
EXPOSE 8080 8081
# The process answers; whether its dependencies do is /readyz on the admin address, which "docker ps" should not restart for.
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["yizhan"]
CMD ["serve"]
