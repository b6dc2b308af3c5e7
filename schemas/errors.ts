/**
 * The closed table of errors: code → HTTP status and, where the caller gives none, the sentence.
 * A known error keeps its code all the way to the client; an unknown one is logged whole and leaves as `internal`.
 */
export const ERRORS = {
  bad_request: { status: 400, sentence: 'The request cannot be read' },
  unauthorized: { status: 401, sentence: 'Authentication is required' },
  forbidden: { status: 403, sentence: 'This is not allowed' },
  not_found: { status: 404, sentence: 'Not found' },
  method_not_allowed: { status: 405, sentence: 'Method not allowed' },
  conflict: { status: 409, sentence: 'This conflicts with the present state' },
  precondition_failed: { status: 412, sentence: 'This has changed meanwhile' },
  too_large: { status: 413, sentence: 'The request body is too large' },
  unsupported_media_type: { status: 415, sentence: 'Content-Type: expected application/json' },
  invalid: { status: 422, sentence: 'The request is not valid' },
  too_many: { status: 429, sentence: 'Too many requests' },
  internal: { status: 500, sentence: 'Internal server error' },
  bad_gateway: { status: 502, sentence: 'Another server gave no valid answer' },
  unavailable: { status: 503, sentence: 'The service is not available at the moment' },
  /** A later attempt holds the run: never leaves the cluster. */
  fenced: { status: 409, sentence: 'A later attempt holds this run' },
  /** Two processes of the cluster are of versions too far apart (schemas/protocol.ts): never leaves the cluster. */
  incompatible: { status: 409, sentence: 'These versions of Weft do not work together' },
} as const

export type ErrorCode = keyof typeof ERRORS

export class WeftError extends Error {
  constructor(
    readonly code: ErrorCode,
    detail?: string,
  ) {
    super(detail ?? ERRORS[code].sentence)
    this.name = 'WeftError'
  }
  get status(): number {
    return ERRORS[this.code].status
  }
}

/**
 * `unavailable`: the database cannot be used at the moment. Calls that wait behind the one that found out are refused with it:
 * each would wait for the same timeout.
 */
export class StoreOutage extends WeftError {
  constructor(detail: string) {
    super('unavailable', detail)
  }
}

/** One mistake in a request, where it is and what was expected; never what was given, which may be a secret. */
export interface Problem {
  /** Begins with body, query or path. */
  loc: (string | number)[]
  msg: string
  type: string
}

/** `invalid`, answered as a list of problems (docs/spec/control-plane.md#error-bodies). */
export class InvalidFields extends WeftError {
  constructor(readonly problems: readonly Problem[]) {
    super('invalid', problems.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; '))
  }
  get body(): string {
    return JSON.stringify({ detail: this.problems })
  }
}

/** The error to throw: a code of the table and one sentence for the person who reads it. */
export const fail = (code: ErrorCode, detail?: string): WeftError => new WeftError(code, detail)

/** The body of every error of the run plane (docs/spec/http.md#errors). */
export const errorBody = (detail: string): string => JSON.stringify({ detail })
