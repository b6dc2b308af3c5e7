/**
 * Whether a host name or address means this machine: "localhost", "*.localhost", 127.0.0.0/8, "::1" (also in brackets).
 * Exact: a text with more in it, as a path, is no host.
 */
const LOOPBACK = /^((?:[\w-]+\.)*localhost|127(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}|::1|\[::1\])$/i

export const isLoopback = (host: string): boolean => LOOPBACK.test(host)
