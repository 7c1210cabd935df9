import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface PrivateAuthority {
  /** Certificate of the authority as PEM, which no client has by itself. */
  readonly ca: string;
  /** Certificate of servers with these names and addresses, and its key, as PEM. */
  readonly cert: string;
  readonly key: string;
}

/** A new authority, and one certificate of it. */
export function privateAuthority(names: readonly string[]): PrivateAuthority {
  const folder = mkdtempSync(join(tmpdir(), 'authority-'));
  const file = (name: string) => join(folder, name);
  const text = (name: string) => readFileSync(file(name), 'utf8');
  const openssl = (...args: readonly string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  try {
    // Python accepts no authority without a key usage, from version 3.13.
    openssl(
      ...['req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.crt', '-days', '2'],
      ...['-subj', '/CN=Private authority', '-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
    );
    openssl('req', ...newKey, '-keyout', 'tls.key', '-out', 'tls.csr', '-subj', '/CN=server');
    writeFileSync(
      file('extensions'),
      `subjectAltName=${names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',')}\n`,
    );
    openssl(
      ...['x509', '-req', '-in', 'tls.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-out', 'tls.crt'],
      ...['-CAcreateserial', '-days', '2', '-extfile', 'extensions'],
    );
    return { ca: text('ca.crt'), cert: text('tls.crt'), key: text('tls.key') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
