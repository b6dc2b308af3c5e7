/**
 * A server as a child that ends with us, however we end: a shell holds a pipe of ours and ends the server when the
 * pipe closes. The first line of its output is the process id of the server itself.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'

/** stdin is ours: when it closes, the server goes. `read` is built in, so no further process hangs on the pipe. */
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

/** A group of its own: Ctrl-C in a terminal is for who started it, which stops things in order. */
export const spawnTied = (command: readonly string[], options: SpawnOptions = {}): ChildProcess =>
  spawn('sh', ['-c', SHELL, 'weft-tied', ...command], { stdio: ['pipe', 'pipe', 'ignore'], ...options, detached: true })
