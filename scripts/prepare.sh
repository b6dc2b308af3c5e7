# Sourced by start and test: a supported Node.js, installed packages, a current build. Sets $root and $node.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weft"

say() { printf 'weft: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Whether the HTTP library has a native part for this Node.js (20.19 or newer of its line, or 22).
fits() {
  "$1" -e 'const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(major === 22 || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null
}

# node_package <major>: the package of a Node.js for this platform, and the checksum of it that npm has to confirm. They are
# the newest ones that the registry has; one of 24 for Darwin arm64 would be 24.0.0, which lacks a year of security fixes.
node_package() {
  node -e 'const { node } = JSON.parse(require("fs").readFileSync(process.argv[1]))
    const { name, version, integrity } = node[`${process.argv[2]} ${process.platform} ${process.arch}`] ?? process.exit(1)
    console.log(name, version, integrity)' "$root/workers/pinned-packages.json" "$1"
}

# has_node <major> <folder>: whether the folder holds this Node.js, and not one that was downloaded earlier.
has_node() {
  local name version
  read -r name version _ <<<"$(node_package "$1")"
  [[ -x "$2/bin/node" && "$(cat "$2/package.json" 2>/dev/null)" == *"\"$name\":\"$version\""* ]]
}

# get_node <major> <folder>: downloads Node.js into the folder, unless it is there. npm compares the package with the sum of the
# lock file; no install script runs. An earlier one stays when this one cannot be downloaded.
get_node() {
  local name version sum draft="$2.$$"
  has_node "$1" "$2" && return
  read -r name version sum <<<"$(node_package "$1")" || return 1
  [[ -n "$name" ]] || return 1
  say "downloading Node.js $version into $2"
  mkdir -p "$draft/bin"
  printf '{"private":true,"dependencies":{"%s":"%s"}}\n' "$name" "$version" >"$draft/package.json"
  printf '{"lockfileVersion":3,"packages":{"":{"dependencies":{"%s":"%s"}},"node_modules/%s":{"version":"%s","integrity":"%s"}}}\n' \
    "$name" "$version" "$name" "$version" "$sum" >"$draft/package-lock.json"
  if ! npm ci --prefix "$draft" --ignore-scripts --no-audit --no-fund --loglevel=error; then
    rm -rf "$draft"
    [[ -x "$2/bin/node" ]]
    return
  fi
  ln -sfn "../node_modules/$name/bin/node" "$draft/bin/node"
  rm -rf "$2"
  mv "$draft" "$2"
}

find_node() {
  node="$(command -v node || true)"
  [[ -n "$node" ]] || die "Node.js is not installed: install Node.js 22 with npm from https://nodejs.org"
  newest="$node"
  fits "$node" && return
  local folder="$cache/node-22" own="$cache/node-22/bin/node"
  if ! has_node 22 "$folder"; then
    say "the HTTP library has no native part for Node.js $(node --version)"
    get_node 22 "$folder" ||
      die "Node.js 22 could not be downloaded: install Node.js 22 from https://nodejs.org"
  fi
  fits "$own" || die "the downloaded Node.js 22 does not run here: install Node.js 22 from https://nodejs.org"
  node="$own"
  PATH="$(dirname "$own"):$PATH"
  export PATH
}

# Sets WEFT_NEWEST_NODE: from version 24 on Node.js executes graphs with two thirds of the CPU time of 20. Not needed to serve.
find_newest_node() {
  [[ -z "${WEFT_HOST_NODE:-}${WEFT_NEWEST_NODE:-}" ]] || return 0
  if [[ "$("$newest" -p 'process.versions.node.split(".")[0] >= 24' 2>/dev/null)" != true ]]; then
    newest="$cache/node-24/bin/node"
    if ! has_node 24 "$cache/node-24"; then
      say "graphs run faster on a newer Node.js (WEFT_HOST_NODE=$node does without)"
      if ! get_node 24 "$cache/node-24"; then
        say "it could not be downloaded: graphs run on Node.js $("$node" --version)"
        return 0
      fi
    fi
  fi
  export WEFT_NEWEST_NODE="$newest"
}

# install <folder> <what>: installs the packages of the lock file unless they are installed. Not `npm ci`: it refuses a
# lock file that lacks a package for another platform, and not every registry serves all of them.
install() {
  local folder="$1" mark="$1/node_modules/.installed-for" wanted
  wanted="$(cksum <"$folder/package-lock.json")"
  [[ -f "$mark" && "$(cat "$mark")" == "$wanted" ]] && return
  # Installed by hand after the lock file was written.
  if ! [[ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]]; then
    command -v npm >/dev/null || die "npm is not installed: install Node.js 22 with npm from https://nodejs.org"
    say "installing $2 (npm install)"
    (cd "$folder" && npm install --no-save --include=dev --no-audit --no-fund --loglevel=error) || die "npm install failed in $folder: see its message above"
  fi
  printf '%s\n' "$wanted" >"$mark"
}

# One number over the names and contents of all sources of dist/.
sources() {
  (cd "$root" && find schemas bus store edge workers cli scripts test console -name node_modules -prune -o \( -name '*.ts' -o -name '*.tsx' -o -name '*.mjs' -o -path 'console/*' -type f \) -print | LC_ALL=C sort | tr '\n' '\0' |
    xargs -0 cksum tsconfig.json package-lock.json | cksum)
}

build() {
  local mark="$root/dist/.built-from" wanted
  wanted="$(sources)"
  if [[ -f "$mark" && "$(cat "$mark")" == "$wanted" ]]; then
    # Does nothing unless a document has changed.
    "$node" "$root/dist/scripts/guide/build.js" || die 'the guide could not be built: see the message above'
    return
  fi
  say 'building'
  "$node" "$root/scripts/build.mjs" || die 'the build failed: see the messages above'
  printf '%s\n' "$wanted" >"$mark"
}
