/** Ends a process that leads a group, with everything in it, at once. Nobody left of it is no error. */
export function killGroup(pid: number): void {
  if (pid === 0) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Nobody is left of it.
  }
}
