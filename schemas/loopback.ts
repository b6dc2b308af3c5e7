/** Whether a host name or address means this machine: "localhost", "*.localhost", 127.0.0.0/8, "::1" (also in brackets). */
const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i

export const isLoopback = (host: string): boolean => LOOPBACK.test(host)
