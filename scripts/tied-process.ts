/**
 * Starts a server as a child process that ends when this process ends, in whatever way: a shell reads a pipe of this
 * process and ends the server when the pipe closes. The first line of the output is the process id of the server.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'

/** fd 3 is our pipe: when it closes, the server ends. `read` is a builtin, so no further process holds the pipe. */
const SHELL = `exec 3<&0
"$@" </dev/null 3<&- &
server=$!
echo $server
( while read -r _ <&3; do :; done; kill $server 2>/dev/null; sleep 5; kill -9 $server 2>/dev/null ) >/dev/null 2>&1 &
watcher=$!
trap 'kill $server' TERM
wait $server
code=$?
if kill -0 $server 2>/dev/null; then wait $server; code=$?; fi
kill -9 $watcher 2>/dev/null
exit $code`

/** In its own process group: Ctrl-C in a terminal reaches this process only, which stops the others in order. */
export const spawnTied = (command: readonly string[], options: SpawnOptions = {}): ChildProcess =>
  spawn('sh', ['-c', SHELL, 'weft-tied', ...command], { stdio: ['pipe', 'pipe', 'ignore'], ...options, detached: true })
