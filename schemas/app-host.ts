/**
 * Calls to an app host: the child process that runs the code of an application beside its graphs, which are `auth`,
 * `encryption`, `http.app`, `store.path`, `store.index.embed` and `ui` of langgraph.json. Frames carry them (workers/pipe.ts: `call` and `called`).
 */
import typia, { type tags } from 'typia'
import type { AuthConfig } from './application.js'
import type { AuthUser, CheckAnswer, CheckAsk } from './auth/auth.js'
import type { JsonObject } from './json.js'

/** The greeting of an app host: what the application brings. */
export interface AppHello {
  /** The sentence why the application cannot be loaded; then nothing is served. */
  error: string | null
  auth: boolean
  embed: boolean
  /** Null: it has no `encryption`. */
  encryption?: EncryptionHandlers | null
  /** The beginnings of the paths that `http.app` may handle; null without one. */
  http: PathPrefixes | null
}

/** Which handlers `encryption` of langgraph.json has. An encryptor has its decryptor. */
export interface EncryptionHandlers {
  json: boolean
  blob: boolean
  context: boolean
}

/** An app host of a deployment for edges. It runs beside the graph workers. */
export interface AppHostSettings {
  /** `auth` of langgraph.json; null: it has none. */
  auth: AuthConfig | null
  /** The beginnings of the paths that its `http.app` may handle; null: it has none. */
  routes: PathPrefixes | null
}

export type PathPrefixes = (string & tags.MaxLength<2_000>)[] & tags.MaxItems<10_000>

/** The parts of an application that an app host loads. */
export type AppPart = 'auth' | 'embed' | 'encryption' | 'http' | 'store' | 'ui'

/**
 * Sockets in the folder that an edge or a graph worker shares with its app host. The application binds APP_SOCKET in a folder
 * of its user; HTTP_SOCKET is the same one, in the place where its parent connects to it. EDGE_SOCKET is that of the edge.
 */
export const APP_SOCKET = 'app/app.sock'
export const HTTP_SOCKET = 'http.sock'
export const EDGE_SOCKET = 'edge.sock'
/** Headers of a request that carried a key of Weft, which code of the application does not get. */
export const KEY_ID = 'x-weft-key-id'
export const KEY_SCOPES = 'x-weft-key-scopes'
/** The ticket of its caller: the app host returns it with what it passes on. Known on sockets of the edge only. */
export const CALLER = 'x-weft-caller'
/** Header of a request that code of the application makes by itself. Known on the socket of the edge only. */
export const LOOPBACK = 'x-weft-loopback'
/** Beside LOOPBACK: the user of the run whose code asks, as base64 of its JSON. Known on the socket of the edge only. */
export const RUN_USER = 'x-weft-run-user'

/** Head of the packed body of `call`; the rest is the body of the request for a check, empty otherwise. */
export type AppCall = CheckCall | EmbedCall | EncryptCall | ContextCall | ItemsCall | UiCall

/** One request. Answer: packed CheckAnswer, and the new body where it says so. */
export interface CheckCall extends CheckAsk {
  verb: 'check'
  /** The user of an earlier check with the same credentials: `authenticate` is not called. */
  user?: AuthUser | null
}

/** Texts to vectors. Answer: the vectors one after the other, as little-endian 32-bit floats. */
export interface EmbedCall {
  verb: 'embed'
  /** `query`: the texts are searched for; `documents`: they are stored. A model may embed both differently. */
  kind: 'documents' | 'query'
  texts: string[]
}

/** Values for encryption handlers, one behind the other in the rest. Answer: packed { sizes } and the results. */
export interface EncryptCall {
  verb: 'encrypt'
  values: CipherValue[]
}

export interface CipherValue {
  op: 'encrypt' | 'decrypt'
  /** json: the bytes are the JSON text of an object, before and after. */
  kind: 'json' | 'blob'
  model: string
  field: string
  /** `metadata` of the EncryptionContext. */
  context: JsonObject
  size: number
}

/** Head of the answer. */
export interface EncryptAnswer {
  sizes: (number & tags.Type<'uint32'>)[]
}

/** The `context` handler for the user and the header of a request. Answer: packed { context }. */
export interface ContextCall {
  verb: 'encryption_context'
  user: AuthUser
  context: JsonObject
}

/** Operations for the store of the application: the rest is an ItemBatch as JSON. Answer: the JSON of a list of StoreAnswer. */
export interface ItemsCall {
  verb: 'items'
}

/** The user interface of a graph. Answer: packed UiHead and the files. Refused with `not_found` when there is none. */
export interface UiCall {
  verb: 'ui'
  graph_id: string
}

export interface UiHead {
  graph_id: string
  /** The global variable of the page that the script of the bundle sets. */
  global: string
  files: { name: string; size: number & tags.Type<'uint32'> }[]
}

/** The exports that the Python part of an app host loads (host-python/weft_host/app/description.py). */
export interface PythonParts {
  /** The folder of langgraph.json. */
  folder: string
  /** Local dependencies, absolute. */
  dependencies: string[]
  auth: PythonExport | null
  embed: PythonExport | null
  encryption: PythonExport | null
  http: PythonExport | null
  store: PythonExport | null
  /** The folder of the sockets of `http.app`. */
  sockets: string | null
}

export interface PythonExport {
  /** The text in langgraph.json. */
  text: string
  /** Absolute path of the file, or the name of a module. */
  place: string
  /** The name of the export; null: the text is `provider:model`. */
  name: string | null
}

/** The greeting of the Python part. */
export interface PythonHello {
  error: string | null
  /** `handlers`: the names under which handlers are registered (schemas/auth/auth.ts). */
  auth: { authenticate: boolean; handlers: (string & tags.MaxLength<100>)[] & tags.MaxItems<1_000> } | null
  encryption?: EncryptionHandlers | null
  http: PathPrefixes | null
}

/** Head of a call of the Python part. The rest is the body of the request, the value as JSON, or nothing. */
export type PythonCall =
  | ({ verb: 'authenticate' } & Pick<CheckAsk, 'method' | 'url' | 'headers' | 'params' | 'query'>)
  | { verb: 'authorize'; name: string; resource: string; action: string; user: AuthUser }
  | EmbedCall
  | EncryptCall
  | ContextCall
  | ItemsCall

/** The result of a function of `auth`, with the value if the function changed it; or the HTTPException that it raised. */
export type PythonAnswer =
  | { result: unknown; value?: { [name: string]: unknown } }
  | { refused: { status: number; detail: string; headers: { [name: string]: string } } }

export const validatePythonHello = typia.createValidate<PythonHello>()
export const validatePythonAnswer = typia.createValidate<PythonAnswer>()
export const validateEmbedCall = typia.createValidate<EmbedCall>()
export const validateUiCall = typia.createValidate<UiCall>()
export const validateEncryptAnswer = typia.createValidate<EncryptAnswer>()
export const validateContextAnswer = typia.createValidate<{ context: JsonObject }>()
export const validateUiHead = typia.createValidate<UiHead>()
export const validateAppHello = typia.createValidate<AppHello>()
export const validateCheckAnswer = typia.createValidate<CheckAnswer>()
