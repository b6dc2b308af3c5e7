/** The address of this server, as the programs of a deployment see it. */
export const addressEnv = (server: string, slug: string): { LANGGRAPH_API_URL?: string } =>
  server === '' ? {} : { LANGGRAPH_API_URL: `${server}/deployments/${slug}` }
