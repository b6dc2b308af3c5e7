/** Authorities and certificates for tests, made by openssl. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Authority {
  /** The file of its own certificate. */
  ca: string
  /** Makes a certificate for these names, as `IP:127.0.0.1,DNS:localhost`, and returns its files. */
  issue(subject: string, names: string): { cert: string; key: string }
}

/** An authority whose files are in the folder. */
export function authorityIn(folder: string, name: string): Authority {
  const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'ignore' })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const own = ['-keyout', `${name}.key`, '-out', `${name}.pem`]
  openssl('req', '-x509', ...newKey, ...own, '-days', '2', '-subj', `/CN=${name}`)
  return {
    ca: join(folder, `${name}.pem`),
    issue(subject, names) {
      const [cert, key, request, extensions] = ['pem', 'key', 'csr', 'names'].map(end => `${subject}.${name}.${end}`)
      writeFileSync(join(folder, extensions!), `subjectAltName=${names}\n`)
      openssl('req', ...newKey, '-keyout', key!, '-out', request!, '-subj', `/CN=${subject}`)
      const by = ['-CA', `${name}.pem`, '-CAkey', `${name}.key`, '-CAcreateserial', '-days', '2']
      openssl('x509', '-req', '-in', request!, '-out', cert!, ...by, '-extfile', extensions!)
      return { cert: join(folder, cert!), key: join(folder, key!) }
    },
  }
}
