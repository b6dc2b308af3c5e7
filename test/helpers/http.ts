/** Plain HTTP requests, as a client without an SDK sends them. */
export interface Answer {
  status: number
  headers: Headers
  /** Parsed JSON; undefined when the body is empty. */
  body: unknown
}

export type Send = (
  method: string,
  path: string,
  body?: unknown,
  headers?: { [name: string]: string },
) => Promise<Answer>

/** Sends to this server; a string is sent unchanged, any other value as JSON. */
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
