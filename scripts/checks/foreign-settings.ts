/** Settings of a person's shell do not reach the servers that tests start. */

/** MONGODB_URL has another name in tests. */
const FOREIGN =
  /^(WEFT_(?!NATS_SERVER$)|NATS_URL$|MONGODB_URL$|PORT$|LOG_LEVEL$|LOG_FORMAT$|HTTP_MAX_|LANGGRAPH_API_URL$|CORS_|N_JOBS_)/

/** Whether the environment variable is a setting of a server. */
export const isForeign = (name: string): boolean => FOREIGN.test(name)
