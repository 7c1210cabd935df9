import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { stringify } from 'yaml';

const name = 'conversation-operator';

export interface KubeconfigContent {
  /** kubectl keeps the token to itself unless this is https. */
  readonly server: string;
  readonly token: string;
  /** PEM; the certificate that the server is known by. */
  readonly ca?: string;
}

/** Writes a kubeconfig that only this user can read. A reader sees the old file or the new one, never a part. */
export function writeKubeconfig(path: string, { server, token, ca }: KubeconfigContent): void {
  const authority = ca === undefined ? {} : { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
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
