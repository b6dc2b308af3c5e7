/** Settings of a person's shell do not reach the servers that tests start. */

/** MONGODB_URL and DATABASE_URI have other names in tests. */
const FOREIGN =
  /^(WEFT_(?!NATS_SERVER$)|NATS_URL$|MONGODB_URL$|DATABASE_URI$|POSTGRES_URI$|PORT$|LOG_LEVEL$|LOG_FORMAT$|HTTP_MAX_|LANGGRAPH_API_URL$|CORS_|N_JOBS_)/

/** Whether the environment variable is a setting of a server. */
export const isForeign = (name: string): boolean => FOREIGN.test(name)
