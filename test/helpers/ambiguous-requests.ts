/** Requests that a server and a proxy before it may read differently, and heads that are too large. */

export interface Ambiguous {
  name: string
  text: string
  /** The statuses that may answer it; it may also be closed without an answer. */
  statuses: readonly number[]
  /** The library takes its head for one that is not complete: no answer, closed after its time limit of 10 s. */
  unfinished: boolean
}

const UNFINISHED = new Set([
  'a space before the colon of a length',
  'a length on a folded line',
  'chunked after a vertical tab',
  'a space before the colon of an encoding',
  'an encoding on a folded line',
  'NUL in the name of a header',
  'NUL in a header',
  'a space in the name of a header',
  'a header without a colon',
  'a carriage return in a header',
  'no host',
  'no version',
])

/** `smuggled` is a request in the bytes that one of the two may read as the next one. It must never be answered. */
export function ambiguousRequests(smuggled: string): Ambiguous[] {
  const post = (headers: string, body = '', host = 'Host: localhost\r\n') =>
    `POST /threads HTTP/1.1\r\n${host}${headers}\r\n${body}`
  const get = (headers: string, start = 'GET /ok HTTP/1.1') => `${start}\r\nHost: localhost\r\n${headers}\r\n`
  const chunked = (body: string) => post('Transfer-Encoding: chunked\r\n', body)
  const { length } = smuggled
  const end = '0\r\n\r\n'
  // A proxy that knows extensions reads a GET, then a POST whose body hides the smuggled request.
  const inner = `${'x'.repeat(118)}\r\n${end}${smuggled}`
  const hidden = `POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`
  const rows: [name: string, text: string, ...statuses: number[]][] = [
    ['two lengths', post('Content-Length: 2\r\nContent-Length: 4\r\n', '{}')],
    ['two equal lengths', post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}')],
    ['two lengths, zero first', post(`Content-Length: 0\r\nContent-Length: ${length}\r\n`, smuggled)],
    ['two lengths, zero last', post(`Content-Length: ${length}\r\nContent-Length: 0\r\n`, smuggled)],
    ['two lengths in two spellings', post(`content-length: 0\r\nCONTENT-LENGTH: ${length}\r\n`, smuggled)],
    ['three lengths', post('Content-Length: 2\r\nContent-Length: 2\r\nContent-Length: 2\r\n', '{}')],
    ['a list of lengths', post('Content-Length: 2, 2\r\n', '{}')],
    ['a list of two lengths', post(`Content-Length: 0,${length}\r\n`, smuggled)],
    ['a negative length', post('Content-Length: -2\r\n', '{}')],
    ['a length with a sign', post('Content-Length: +2\r\n', '{}')],
    ['a length that is no number', post('Content-Length: 2a\r\n', '{}')],
    ['a length in hexadecimal', post('Content-Length: 0x2\r\n', '{}')],
    ['a length with a fraction', post('Content-Length: 2.0\r\n', '{}')],
    ['a length with a space', post(`Content-Length: 2 ${length}\r\n`, `{}${smuggled}`)],
    ['a length beyond numbers', post('Content-Length: 99999999999999999999\r\n', '{}')],
    ['a length of 64 bits and two', post('Content-Length: 18446744073709551618\r\n', `{}${smuggled}`)],
    ['a space before the colon of a length', post(`Content-Length : ${length}\r\n`, smuggled)],
    ['a length on a folded line', post(`X: a\r\n Content-Length: ${length}\r\n`, smuggled)],
    ['length and encoding', post('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', end + smuggled)],
    ['encoding and length', post('Transfer-Encoding: chunked\r\nContent-Length: 2\r\n', end + smuggled)],
    ['encoding and no length', post('Content-Length: 0\r\nTransfer-Encoding: chunked\r\n', end + smuggled)],
    ['gzip', post('Transfer-Encoding: gzip\r\n', smuggled)],
    ['gzip, chunked', post('Transfer-Encoding: gzip, chunked\r\n', end + smuggled)],
    ['chunked, chunked', post('Transfer-Encoding: chunked, chunked\r\n', end)],
    ['chunked, identity', post('Transfer-Encoding: chunked, identity\r\n', end + smuggled)],
    ['chunked twice', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', end)],
    ['Chunked', post('Transfer-Encoding: Chunked\r\n', end)],
    ['identity', post('Transfer-Encoding: identity\r\n', smuggled)],
    ['xchunked', post('Transfer-Encoding: xchunked\r\n', end + smuggled)],
    ['chunked with a parameter', post('Transfer-Encoding: chunked;q=1\r\n', end + smuggled)],
    ['chunked after a vertical tab', post('Transfer-Encoding: \vchunked\r\n', end + smuggled)],
    ['a space before the colon of an encoding', post('Transfer-Encoding : chunked\r\n', end + smuggled)],
    ['an encoding on a folded line', post('Transfer-Encoding:\r\n chunked\r\n', end + smuggled)],
    ['GET in chunks', get('Transfer-Encoding: chunked\r\n') + end + smuggled],
    ['a bad chunk', chunked(`zz\r\n{}\r\n${end}${smuggled}`)],
    ['a chunk without end', chunked(`fffffffffffffffff\r\n{}\r\n${end}`)],
    ['a chunk of a negative size', chunked(`-2\r\n{}\r\n${end}${smuggled}`)],
    ['a chunk with a prefix', chunked(`0x2\r\n{}\r\n${end}${smuggled}`)],
    ['a chunk longer than its size', chunked(`2\r\n{}XX0\r\nYY${smuggled}`), 400, 200],
    ['a chunk extension that hides a request', `${get('Transfer-Encoding: chunked\r\n')}0;a\r\n${hidden}`, 400, 505],
    [
      'a trailer like a request',
      chunked(`${end.slice(0, -2)}XXGET: /info HTTP/1.1\r\nHost: localhost\r\n\r\n`),
      400,
      200,
    ],
    ['NUL in the name of a header', get('Content\0-Length: 2\r\n')],
    ['NUL in a header', get('X: a\0b\r\n')],
    ['a space in the name of a header', get('X Y: 1\r\n')],
    ['a header without a colon', get('Transfer-Encoding\r\n')],
    ['a carriage return in a header', get(`X: a\rContent-Length: ${length}\r\n`) + smuggled],
    ['two hosts', post('Content-Length: 2\r\nHost: other\r\n', '{}')],
    ['no host', `GET /ok HTTP/1.1\r\n\r\n${smuggled}`],
    ['an empty host', post('Content-Length: 2\r\n', '{}', 'Host: \r\n')],
    ['an upgrade that closes', get('Connection: close\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n')],
    ['HTTP/1.0', get('', 'GET /ok HTTP/1.0'), 505],
    ['HTTP/2', get('', 'GET /ok HTTP/2.0'), 505],
    ['no version', get('', 'GET /ok'), 505, 400],
    ['a method in lower case', get('', 'get /ok HTTP/1.1')],
    ['a method of a proxy', get('', 'CONNECT /ok HTTP/1.1')],
    ['a method that repeats the request', get('', 'TRACE /ok HTTP/1.1')],
    ['bare line feeds', 'GET /ok HTTP/1.1\nHost: localhost\n\n', 505, 400],
    ['an absolute target', get('', 'GET http://localhost/ok HTTP/1.1'), 505, 400],
    ['a space in the target', get('', 'GET /ok /info HTTP/1.1'), 505, 400],
    ['more than a hundred headers', get('x: 1\r\n'.repeat(120)), 431],
    ['a header of 20 KB', get(`x: ${'a'.repeat(20_000)}\r\n`), 431],
    ['a name of 20 KB', get(`${'a'.repeat(20_000)}: x\r\n`), 431],
    ['a target of 20 KB', get('', `GET /${'a'.repeat(20_000)} HTTP/1.1`), 431],
  ]
  return rows.map(([name, text, ...statuses]) => ({
    name,
    text,
    statuses: statuses.length > 0 ? statuses : [400],
    unfinished: UNFINISHED.has(name),
  }))
}
