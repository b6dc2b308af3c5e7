# Sourced by start and test: a Node that fits, installed packages, a fresh build. Sets $root and $node.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weft"

say() { printf 'weft: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Node 20.19 up to 22: newer ones have no prebuilt HTTP server.
fits() { "$1" -e 'const [a, b] = process.versions.node.split("."); process.exit(+a > 22 || +a < 20 || (+a == 20 && +b < 19) ? 1 : 0)' 2>/dev/null; }

find_node() {
  node="$(command -v node || true)"
  [[ -n "$node" ]] || die "Node.js is not installed: install Node.js 22 (20.19 or newer, below 23) with npm from https://nodejs.org"
  fits "$node" && return
  local own="$cache/node-22/node_modules/node/bin/node"
  if ! [[ -x "$own" ]] || ! fits "$own"; then
    say "Node.js $(node --version) does not fit (20.19 or newer, below 23 is needed); getting Node.js 22 into $cache/node-22"
    mkdir -p "$cache/node-22"
    npm install --prefix "$cache/node-22" --no-audit --no-fund --loglevel=error node@22 ||
      die "Node.js 22 could not be fetched: install Node.js 22 (20.19 or newer, below 23) from https://nodejs.org"
    fits "$own" || die "the fetched Node.js 22 does not run here: install Node.js 22 from https://nodejs.org"
  fi
  node="$own"
  PATH="$(dirname "$own"):$PATH"
  export PATH
}

# install <folder> <what>: what the lock file says, unless it is installed already. Not `npm ci`: it refuses a lock file
# that lacks a package for another platform, and not every registry serves all of them.
install() {
  local folder="$1" mark="$1/node_modules/.installed-for" wanted
  wanted="$(cksum <"$folder/package-lock.json")"
  [[ -f "$mark" && "$(cat "$mark")" == "$wanted" ]] && return
  # Installed by hand after the lock file was written: that is fine, too.
  if ! [[ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]]; then
    command -v npm >/dev/null || die "npm is not installed: install Node.js 22 with npm from https://nodejs.org"
    say "installing $2 (npm install)"
    (cd "$folder" && npm install --no-save --include=dev --no-audit --no-fund --loglevel=error) || die "npm install failed in $folder: see its message above"
  fi
  printf '%s\n' "$wanted" >"$mark"
}

# Everything that goes into dist/, as one number: names and contents.
sources() {
  (cd "$root" && find schemas bus store edge workers scripts test -name node_modules -prune -o -name '*.ts' -print | LC_ALL=C sort | tr '\n' '\0' |
    xargs -0 cksum tsconfig.json package-lock.json | cksum)
}

build() {
  local mark="$root/dist/.built-from" wanted
  wanted="$(sources)"
  [[ -f "$mark" && "$(cat "$mark")" == "$wanted" ]] && return
  say 'building'
  "$node" "$root/scripts/build.mjs" || die 'the build failed: see the messages above'
  printf '%s\n' "$wanted" >"$mark"
}
