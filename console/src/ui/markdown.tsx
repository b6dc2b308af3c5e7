/** Text of a model: Markdown as React elements. HTML in it is shown as text, and images as links. */
import { marked, type Token, type Tokens } from 'marked'
import { Fragment, memo, type ReactNode } from 'react'
import { CopyButton } from './copy'

export const Markdown = memo(({ text }: { text: string }) => <div className="markdown">{all(marked.lexer(text))}</div>)

const all = (tokens: Token[] = []): ReactNode => tokens.map((token, i) => <Fragment key={i}>{one(token)}</Fragment>)

/** Addresses that a text may lead to: no script. */
const isSafe = (href: string): boolean => /^(https?:|mailto:)/i.test(href)

function one(token: Token): ReactNode {
  switch (token.type) {
    case 'heading':
      return <p className="markdown-heading">{all(token.tokens)}</p>
    case 'paragraph':
      return <p>{all(token.tokens)}</p>
    case 'text':
      return 'tokens' in token && token.tokens ? all(token.tokens) : plain(token as Tokens.Text)
    case 'escape':
      return plain(token as Tokens.Escape)
    case 'strong':
      return <strong>{all(token.tokens)}</strong>
    case 'em':
      return <em>{all(token.tokens)}</em>
    case 'del':
      return <del>{all(token.tokens)}</del>
    case 'br':
      return <br />
    case 'hr':
      return <hr />
    case 'codespan':
      return <code>{plain(token as Tokens.Codespan)}</code>
    case 'code':
      return <Code {...(token as Tokens.Code)} />
    case 'blockquote':
      return <blockquote>{all(token.tokens)}</blockquote>
    case 'list':
      return list(token as Tokens.List)
    case 'link':
    case 'image':
      return link(token as Tokens.Link)
    case 'table':
      return table(token as Tokens.Table)
    case 'space':
      return null
    default:
      return token.raw
  }
}

/** The lexer escapes for HTML; React does so itself. */
function plain({ text }: { text: string }): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ENTITIES[name] ?? '')
}
const ENTITIES: { readonly [name: string]: string } = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

function list({ ordered, start, items }: Tokens.List): ReactNode {
  const children = items.map((item, i) => <li key={i}>{all(item.tokens)}</li>)
  return ordered ? <ol start={Number(start) || 1}>{children}</ol> : <ul>{children}</ul>
}

function link({ href, text, tokens }: Tokens.Link): ReactNode {
  if (!isSafe(href)) return text
  return (
    <a href={href} target="_blank" rel="noreferrer noopener">
      {tokens ? all(tokens) : text}
    </a>
  )
}

const table = ({ header, rows }: Tokens.Table): ReactNode => (
  <div className="scroll-x">
    <table className="table">
      <thead>
        <tr>
          {header.map((cell, i) => (
            <th key={i}>{all(cell.tokens)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={i}>
            {row.map((cell, j) => (
              <td key={j}>{all(cell.tokens)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)

const Code = ({ text, lang }: Tokens.Code) => (
  <div className="code">
    <div className="code-head">
      <span>{lang}</span>
      <CopyButton text={text} />
    </div>
    <pre>{text}</pre>
  </div>
)
