import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { SETTINGS } from '../../schemas/config.js'
import { root } from '../../scripts/root.js'

t.test("the README's table of settings is the one of the code", async t => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [, table = ''] = readme.split('<!-- settings -->')
  const rows = [...table.matchAll(/^\| `(\w+)` \| (.*?) \| (.*) \|$/gm)].map(([, env, value = '', doc]) => ({
    env,
    value: value.replaceAll('`', '').trim(),
    doc,
  }))
  const wanted = Object.values(SETTINGS).map(({ env, default: value, doc }) => ({
    env,
    value: value === false ? '' : `${value}`,
    doc,
  }))
  t.same(rows.map(row => row.env).sort(), wanted.map(row => row.env).sort())
  for (const { env, value, doc } of wanted) {
    const row = rows.find(row => row.env === env)
    t.equal(row?.doc, doc, `${env}: what it is for`)
    t.equal(row?.value === 'false' ? '' : row?.value, value, `${env}: its default`)
  }
})
