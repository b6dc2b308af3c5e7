#!/bin/sh
# Installs a package of Weft into an empty folder, serves an application from it, and executes a run:
#   deploy/check-package.sh weft-server-0.2.0.tgz
set -eu
package="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
folder="$(mktemp -d)"
cd "$folder"
npm install --no-audit --no-fund "$package"
npx weft new app
npx weft start --app app --port 0 --json >out 2>err &
server=$!
# With `set -e`, the status of the ended server would be that of this script.
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; cat err >&2; rm -rf "$folder"' EXIT
until grep -q '"url"' out; do
  kill -0 $server
  sleep 1
done
node -e '
  const { url } = JSON.parse(require("fs").readFileSync("out", "utf8").split("\n")[0])
  const body = JSON.stringify({ assistant_id: "agent", input: { messages: [{ role: "user", content: "hello" }] } })
  fetch(`${url}/runs/wait`, { method: "POST", headers: { "content-type": "application/json" }, body })
    .then(async answer => {
      const text = await answer.text()
      console.log(process.version, answer.status, text.slice(0, 200))
      if (!answer.ok || !text.includes("messages")) process.exitCode = 1
    })'
