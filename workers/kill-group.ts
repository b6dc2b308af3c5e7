/** Kills a process that leads a group, with every process of the group, at once. An empty group is no error. */
export function killGroup(pid: number): void {
  if (pid === 0) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // No process of the group exists any more.
  }
}
