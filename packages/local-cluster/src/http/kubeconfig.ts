import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { stringify } from 'yaml';

const name = 'conversation-operator';

export interface KubeconfigContent {
  /** URL of the server; kubectl sends the token only over https. */
  readonly server: string;
  readonly token: string;
  /** Certificate of the server in PEM. */
  readonly ca?: string;
}

/**
 * Writes a kubeconfig that only this user can read. The file is replaced atomically, so a reader
 * sees either the old or the new content.
 */
export function writeKubeconfig(path: string, { server, token, ca }: KubeconfigContent): void {
  const authority =
    ca === undefined ? {} : { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
  const text = stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, ...authority } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
    'current-context': name,
  });
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, text, { mode: 0o600 });
  renameSync(temporary, path);
}
