# An image for every role. The default command serves one machine; docker-compose.yml and deploy/kubernetes run the roles
# apart. Build: docker build -t weft .
# An application is mounted, or copied on top:
#   FROM weft
#   COPY --chown=weft . /app
#   RUN npm --prefix /app ci --omit=dev

# The images that this one is made of; docs/operations.md says how to renew them.
ARG NODE_IMAGE=node:22.23.3-bookworm-slim@sha256:43ac6c60b8f89723f746e8a92ce91abd5017e627ce1ddfe4238355d3a30b772c
ARG NATS_IMAGE=nats:2.12.15-alpine@sha256:b270f5e2428354c0335612694d7dd2fb588148e567a5757fdff325ef9c9332e6

FROM ${NODE_IMAGE} AS build
WORKDIR /source
COPY package.json package-lock.json ./
# Not npm ci: it refuses a lock file without the packages of another platform.
RUN npm install --no-audit --no-fund
COPY . .
# The files of the npm package, with the lock file.
RUN npm run build \
  && npm pack --pack-destination /tmp \
  && mkdir /opt/weft \
  && tar --extract --file="$(ls /tmp/weft-*.tgz)" --strip-components=1 --directory=/opt/weft \
  && cp package-lock.json /opt/weft

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

FROM ${NATS_IMAGE} AS nats

FROM ${NODE_IMAGE}
# For graphs in Python and deployments. Security updates of Debian decide the versions.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates git python3 python3-venv tini \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --uid 10001 --create-home --shell /usr/sbin/nologin weft \
  && install --directory --owner=weft --group=weft --mode=0700 /data \
  && install --directory --owner=weft --group=weft /app \
  && ln -s /opt/weft/dist/cli/weft.js /usr/local/bin/weft
COPY --from=nats /usr/local/bin/nats-server /usr/local/bin/nats-server
COPY --from=install /opt/weft /opt/weft
# A container is reached from other machines, so that callers need a key: weft keys create NAME --scope run
ENV NODE_ENV=production \
  WEFT_APP=/app/langgraph.json \
  WEFT_DATA=/data \
  WEFT_HOST=0.0.0.0 \
  WEFT_REQUIRE_KEYS=1 \
  MALLOC_MMAP_THRESHOLD_=1048576
# weft
USER 10001:10001
WORKDIR /app
VOLUME /data
EXPOSE 2024
# Of a container that serves HTTP; switch it off for the other roles.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 2024}/ok`).then(a => process.exit(a.ok ? 0 : 1), () => process.exit(1))"]
# Ends what user code leaves behind, and passes signals on.
ENTRYPOINT ["tini", "--", "weft"]
CMD ["start"]
