/**
 * `store.index.embed` of langgraph.json: texts to vectors (docs/spec/application.md#store-and-checkpointer). It names
 * an export of the application, which is a function of texts or an Embeddings of LangChain, or a model of a provider,
 * whose package the application has installed.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { EmbedCall } from '../../../schemas/app-host.js'
import type { StoreIndex } from '../../../schemas/application.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import { importExport } from '../loading.js'

type Embed = (texts: string[]) => unknown

/** The functions that embed documents and queries. */
export type Embedder = { [kind in EmbedCall['kind']]: Embed }

/** Provider → the package that the application installs, and the class that it exports. */
const PROVIDERS: { readonly [provider: string]: readonly [name: string, exported: string] } = {
  openai: ['@langchain/openai', 'OpenAIEmbeddings'],
  azure_openai: ['@langchain/openai', 'AzureOpenAIEmbeddings'],
  bedrock: ['@langchain/aws', 'BedrockEmbeddings'],
  cohere: ['@langchain/cohere', 'CohereEmbeddings'],
  google_genai: ['@langchain/google-genai', 'GoogleGenerativeAIEmbeddings'],
  google_vertexai: ['@langchain/google-vertexai', 'VertexAIEmbeddings'],
  mistralai: ['@langchain/mistralai', 'MistralAIEmbeddings'],
  ollama: ['@langchain/ollama', 'OllamaEmbeddings'],
}

/** The file of `file:export`; null for `provider:model`. Throws one sentence when it is neither. */
export function embedFile({ embed }: StoreIndex, folder: string): string | null {
  const file = resolve(folder, embed.slice(0, Math.max(0, embed.lastIndexOf(':'))))
  if (embed.includes(':') && file !== folder && existsSync(file)) return file
  const provider = embed.slice(0, Math.max(0, embed.indexOf(':')))
  if (Object.hasOwn(PROVIDERS, provider)) return null
  throw new Error(
    `store.index.embed: ${embed} is neither "file:export" nor "provider:model"; expected a file that exists, or one of ${Object.keys(PROVIDERS).join(', ')}.`,
  )
}

/** Loads the embedder. Throws an Error with one sentence. */
export async function loadEmbedder(index: StoreIndex, folder: string): Promise<Embedder> {
  const { embed } = index
  const file = embedFile(index, folder)
  if (file === null) return ofProvider(embed, folder)
  const name = embed.slice(embed.lastIndexOf(':') + 1) || 'default'
  const exported = await importExport(file, name)
  const found = embedderOf(exported)
  if (found === null)
    throw new Error(
      `store.index.embed: ${embed} is no embedder; expected a function of texts, or an object with embedDocuments and embedQuery.`,
    )
  return found
}

async function ofProvider(embed: string, folder: string): Promise<Embedder> {
  const colon = embed.indexOf(':')
  const [provider, model] = [embed.slice(0, colon), embed.slice(colon + 1)]
  const [name, exported] = PROVIDERS[provider]!
  let found: JsonObject
  try {
    found = (await import(pathToFileURL(createRequire(join(folder, 'package.json')).resolve(name)).href)) as JsonObject
  } catch (error) {
    const why = (error as { code?: string }).code === 'MODULE_NOT_FOUND' ? '' : ` (${(error as Error).message})`
    throw new Error(
      `store.index.embed: ${embed} needs the package ${name}${why}: run npm install ${name} in ${folder}.`,
    )
  }
  const Embeddings = (found[exported] ?? (found.default as JsonObject | undefined)?.[exported]) as
    | (new (
        options: JsonObject,
      ) => unknown)
    | undefined
  const embedder = typeof Embeddings === 'function' ? embedderOf(new Embeddings({ model })) : null
  if (embedder === null)
    throw new Error(`store.index.embed: ${embed}: the package ${name} in ${folder} has no ${exported}.`)
  return embedder
}

function embedderOf(exported: unknown): Embedder | null {
  if (typeof exported === 'function') return { documents: exported as Embed, query: exported as Embed }
  if (!isObject(exported)) return null
  const { embedDocuments, embedQuery } = exported as { embedDocuments?: unknown; embedQuery?: unknown }
  if (typeof embedDocuments !== 'function' || typeof embedQuery !== 'function') return null
  return {
    documents: texts => embedDocuments.call(exported, texts),
    query: texts => Promise.all(texts.map(text => embedQuery.call(exported, text))),
  }
}

/** The vectors, one after the other, as 32-bit floats. Throws an Error with one sentence when they are none of `dims`. */
export async function embed(embedder: Embedder, dims: number, { kind, texts }: EmbedCall): Promise<Uint8Array> {
  const vectors = await embedder[kind](texts)
  if (!Array.isArray(vectors) || vectors.length !== texts.length)
    throw new TypeError(`store.index.embed returned no list of ${texts.length} vectors`)
  const out = new Float32Array(texts.length * dims)
  for (const [i, vector] of vectors.entries()) {
    const isList = Array.isArray(vector) || vector instanceof Float32Array || vector instanceof Float64Array
    if (!isList || vector.length !== dims)
      throw new TypeError(
        `store.index.embed returned a vector of ${isList ? vector.length : 'no'} numbers; store.index.dims is ${dims}`,
      )
    out.set(vector as ArrayLike<number>, i * dims)
  }
  if (!out.every(Number.isFinite)) throw new TypeError('store.index.embed returned a number that is not finite')
  return new Uint8Array(out.buffer)
}
