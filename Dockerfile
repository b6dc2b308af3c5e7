# Two images. `docker build -t weft .` makes the one for one machine: `weft start` with the embedded store and a NATS server.
# `--target roles` makes the one for clusters (docker-compose.yml, deploy/kubernetes), whose NATS servers are elsewhere; the
# first one works there, too. An application is mounted at /app, or copied on top by `weft build`.

# The images that these are made of; docs/operations.md says how to renew them.
ARG NODE_IMAGE=node:22.23.3-bookworm-slim@sha256:43ac6c60b8f89723f746e8a92ce91abd5017e627ce1ddfe4238355d3a30b772c
ARG NATS_IMAGE=nats:2.12.15-alpine@sha256:b270f5e2428354c0335612694d7dd2fb588148e567a5757fdff325ef9c9332e6

FROM ${NODE_IMAGE} AS build
WORKDIR /source
COPY package.json package-lock.json ./
# Not npm ci: it refuses a lock file without the packages of another platform.
RUN npm install --no-audit --no-fund
COPY . .
# The files of the npm package, with the lock file. Graphs run on Node.js 24 (workers/pinned-packages.json).
RUN npm run build \
  && npm pack --pack-destination /tmp \
  && mkdir /opt/weft \
  && tar --extract --file="$(ls /tmp/weft-server-*.tgz)" --strip-components=1 --directory=/opt/weft \
  && cp package-lock.json /opt/weft \
  && bash -c 'source scripts/prepare.sh && get_node 24 /opt/download' \
  && install -D "$(readlink --canonicalize /opt/download/bin/node)" /opt/node-24/bin/node

FROM ${NODE_IMAGE} AS install
WORKDIR /opt/weft
COPY --from=build /opt/weft .
# With the clients of the drivers for images, and with what an installation from npm downloads when it is needed. The HTTP
# library brings a native part for each platform and version of Node.js: one is enough.
RUN npm install --omit=dev --no-audit --no-fund \
  && npm install --no-save --omit=dev --no-audit --no-fund \
    $(node -p "const { http, typescript } = require('./workers/pinned-packages.json'); \
      const { peerDependencies } = require('./package.json'); \
      [\`uWebSockets.js@npm:\${http.name}@\${http.version}\`, \`typescript@\${typescript.version}\`, \
        ...Object.entries(peerDependencies).map(one => one.join('@'))].join(' ')") \
  && chmod +x dist/cli/weft.js \
  && find node_modules -name 'uws_*.node' \
    ! -name "uws_linux_$(node -p 'process.arch')_$(node -p 'process.versions.modules').node" -delete

FROM ${NODE_IMAGE} AS uv
WORKDIR /tmp
# As workers/child/uv.ts has it. Security updates of Debian decide the versions.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates python3-pip \
  && rm -rf /var/lib/apt/lists/* \
  && echo "uv==0.13.9 \
    --hash=sha256:2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25 \
    --hash=sha256:5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe" >requirements.txt \
  && python3 -m pip download --no-cache-dir --no-deps --require-hashes --only-binary=:all: \
    --platform "musllinux_1_1_$(uname -m)" --requirement requirements.txt \
  && python3 -m zipfile --extract uv-*.whl wheel \
  && install -D wheel/uv-*.data/scripts/uv /opt/uv/uv

FROM ${NATS_IMAGE} AS nats

FROM ${NODE_IMAGE} AS roles
# For graphs in Python and deployments. Security updates of Debian decide the versions.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates git python3 python3-venv tini \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --uid 10001 --create-home --shell /usr/sbin/nologin weft \
  && install --directory --owner=weft --group=weft --mode=0700 /data \
  && install --directory --owner=weft --group=weft /app /opt/python \
  && ln -s /opt/weft/dist/cli/weft.js /usr/local/bin/weft
COPY --from=build /opt/node-24 /opt/node-24
COPY --from=uv /opt/uv/uv /usr/local/bin/uv
COPY --from=install /opt/weft /opt/weft
# A container is reached from other machines, so that callers need a key: weft keys create NAME --scope run. Environments of
# Python are kept with the data: the rest may be read-only, but for /tmp.
ENV NODE_ENV=production \
  PATH=/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  UV_PYTHON_INSTALL_DIR=/opt/python \
  UV_PYTHON_BIN_DIR=/opt/python/bin \
  WEFT_APP=/app/langgraph.json \
  WEFT_DATA=/data \
  WEFT_HOST=0.0.0.0 \
  WEFT_NEWEST_NODE=/opt/node-24/bin/node \
  WEFT_REQUIRE_KEYS=1 \
  XDG_CACHE_HOME=/data/cache \
  MALLOC_MMAP_THRESHOLD_=1048576
# weft
USER 10001:10001
WORKDIR /app
VOLUME /data
EXPOSE 2024
# Of an edge and of `weft start`; the other roles answer with WEFT_HEALTH_PORT.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.WEFT_HEALTH_PORT || process.env.PORT || 2024}/ok`).then(a => process.exit(a.ok ? 0 : 1), () => process.exit(1))"]
# Ends what user code leaves behind, and passes signals on.
ENTRYPOINT ["tini", "--", "weft"]
CMD ["help"]

FROM roles AS one
COPY --from=nats /usr/local/bin/nats-server /usr/local/bin/nats-server
CMD ["start"]
