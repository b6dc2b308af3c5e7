/** The options and the results of a handler of Weft's API. */
import type { IncomingMessage, ServerResponse } from 'node:http'

/** AddedHeaders for Weft beside those of the request, whose value they replace; null removes one that a client has sent. */
export type AddedHeaders = { readonly [name: string]: string | null | undefined }

export interface HandlerOptions {
  /** The URL of a Weft that runs already. Without one, a Weft is started at the first request. */
  url?: string
  /** Its langgraph.json, or the folder of it. Default: that of the working directory. */
  app?: string
  /** Its data folder. Default: `.weft` in the working directory. */
  data?: string
  /** Started as `weft dev`, which serves changed files at once, instead of `weft start`. Default: unless NODE_ENV is `production`. */
  dev?: boolean
  /** Its variables, beside those of this process. */
  env?: { readonly [name: string]: string | undefined }
  /** The path in front of those of the API, as `/agent`. In Express, by default the one that `app.use` was given. */
  basePath?: string
  /** Added to each request: who calls, as the server around knows it, or the key of a Weft elsewhere. */
  headers?: AddedHeaders | ((request: Request | IncomingMessage) => AddedHeaders | Promise<AddedHeaders>)
}

/** The additions of one call of a handler. */
export interface RequestOptions {
  headers?: AddedHeaders
}

export interface Weft {
  /** Starts Weft unless it runs; resolves with its URL when it serves. Requests do so themselves. */
  ready(): Promise<string>
  /** Stops the Weft that was started here; resolves when it has ended. */
  close(): Promise<void>
}

/** The API as a function of the Web standard. The second argument may be anything else that a framework gives. */
export interface Handler extends Weft {
  (request: Request, options?: RequestOptions | object): Promise<Response>
}

/** The API as a function of Node.js. The third argument may be anything else that a framework gives. */
export interface NodeHandler extends Weft {
  (request: IncomingMessage, response: ServerResponse, options?: RequestOptions | object): Promise<void>
}
