/** An application without a framework. */
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url)
    if (pathname === '/plain') return new Response('plain', { headers: { 'x-plain': '1' } })
    // It reads bodies of requests that are not its own.
    await request.text()
    return new Response('not mine', { status: 404 })
  },
}
