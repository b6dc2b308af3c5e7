// The runtime of CopilotKit, and the page: `node runtime.mjs`. The agent speaks AG-UI to the page, and LangGraph's API to FastAPI.
import { createServer } from 'node:http'
import { LangGraphAgent } from '@copilotkit/runtime/langgraph'
import { CopilotRuntime } from '@copilotkit/runtime/v2'
import { createCopilotNodeListener } from '@copilotkit/runtime/v2/node'
import { build } from 'esbuild'

const { AGENT_URL = 'http://127.0.0.1:8000/agent', PORT = '3000' } = process.env

const planner = new LangGraphAgent({ deploymentUrl: AGENT_URL, graphId: 'planner' })
const answer = createCopilotNodeListener({
  runtime: new CopilotRuntime({ agents: { planner } }),
  basePath: '/copilotkit',
})

const { outputFiles } = await build({
  entryPoints: [new URL('page.jsx', import.meta.url).pathname],
  bundle: true,
  write: false,
  outdir: 'page',
  format: 'esm',
  jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"' },
  loader: { '.woff': 'dataurl', '.woff2': 'dataurl', '.ttf': 'dataurl' },
})
const partOf = suffix => outputFiles.find(({ path }) => path.endsWith(suffix)).text
const parts = {
  '/': [
    'text/html; charset=utf-8',
    '<!doctype html><title>Planner</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/page.css"><div id="root"></div><script type="module" src="/page.js"></script>',
  ],
  '/page.js': ['text/javascript', partOf('.js')],
  '/page.css': ['text/css', partOf('.css')],
}

createServer((request, response) => {
  if (request.url.startsWith('/copilotkit')) return answer(request, response)
  const [type, text] = parts[request.url] ?? ['text/plain', 'not found']
  response.writeHead(request.url in parts ? 200 : 404, { 'content-type': type }).end(text)
}).listen(Number(PORT), '127.0.0.1', function () {
  console.log(`http://127.0.0.1:${this.address().port}`)
})
