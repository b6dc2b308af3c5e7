#!/bin/sh
# Builds the image and writes .env, the secrets of docker-compose.yml. They belong to its volumes, so that an existing .env
# stays: keep it as long as them.
set -eu
cd "$(dirname "$0")/../.."
if [ -e .env ]; then
  echo '.env exists already. For new secrets remove it with all data: docker compose down --volumes && rm .env' >&2
  exit 1
fi
docker build --tag weft .
umask 077
draft=".env.$$"
trap 'rm -f "$draft"' EXIT
docker run --rm weft nats init --pool default --pool research.research > "$draft"
for name in WEFT_CONTROL_KEY WEFT_ENCRYPTION_KEY MONGO_KEY MONGO_PASSWORD; do
  value=$(openssl rand -hex 32)
  echo "$name=$value" >> "$draft"
done
mv "$draft" .env
