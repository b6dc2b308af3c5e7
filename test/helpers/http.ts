/** Plain requests: what a client without an SDK sends and gets. */
export interface Answer {
  status: number
  headers: Headers
  /** Parsed where it is JSON; undefined when there is none. */
  body: unknown
}

export type Send = (
  method: string,
  path: string,
  body?: unknown,
  headers?: { [name: string]: string },
) => Promise<Answer>

/** Sends to this server; a string is sent as it is, anything else as JSON. */
export const sender =
  (url: string): Send =>
  async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
  }
