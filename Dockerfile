# An MCP server over /workspace:  docker run -i --rm --network none -v "$PWD:/workspace" IMAGE
# Nothing is downloaded when it runs. The index is written to /workspace/.cortex where that can be written, else it lives and dies
# with the container; mount a volume at /var/lib/cortex to keep it.
FROM python:3.12-slim AS build
# What else is installed, "core" for a team's server on PostgreSQL.
ARG EXTRAS=""
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/cortex \
 && /opt/cortex/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.12-slim
COPY --from=build /opt/cortex /opt/cortex
# Any user may be named with --user, the owner of the mounted folder for example, so the home is open to all of this container's.
RUN useradd --create-home --uid 1000 cortex \
 && install -d -m 0777 /var/lib/cortex /workspace \
 && python -m compileall -q /opt/cortex/lib
ENV PATH=/opt/cortex/bin:$PATH \
    CORTEX_HOME=/var/lib/cortex \
    CORTEX_WORKSPACE_PATHS=/workspace \
    CORTEX_NO_SIDECAR=1 \
    PYTHONDONTWRITEBYTECODE=1
USER cortex
WORKDIR /workspace
ENTRYPOINT ["cortex", "mcp"]
