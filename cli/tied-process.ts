/**
 * Starts a server as a child process that ends when this process ends, also by a signal: a shell reads a pipe of this
 * process and ends the server when the pipe closes. The first line of the output is the process id of the server. A
 * process id written to stdin names a process that needs the server: the server ends after that one, at most 5 min later.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'

/** fd 3 is our pipe: when it closes, the server ends. `read` is a builtin, so no further process holds the pipe. */
const SHELL = `exec 3<&0
"$@" </dev/null 3<&- &
server=$!
echo $server
(
  user=
  while read -r pid <&3; do user=$pid; done
  tries=0
  while [ -n "$user" ] && kill -0 "$user" && [ $tries -lt 3000 ]; do
    sleep 0.1 || sleep 1
    tries=$((tries + 1))
  done
  kill $server; sleep 5; kill -9 $server
) >/dev/null 2>&1 &
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
