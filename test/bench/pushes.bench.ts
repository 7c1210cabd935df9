import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { report } from './figure.ts';

/**
 * Pushes of sandboxes through the gateway, beside the same pushes to the git host itself, and the
 * memory of the whole service meanwhile. Needs `make build`.
 */
const pushes = 50;
const atOnce = 8;
/** Each sandbox may have two pushes at once. */
const sandboxes = atOnce / 2;
const mebibytes = 20;
const credential = 'bot:s3cret';
const repositories = ['acme/direct', 'acme/relayed'] as const;

const folder = mkdtempSync(join(tmpdir(), 'pushes-'));
const git = (cwd: string, ...args: readonly string[]) =>
  execFileSync('git', ['-c', 'user.name=b', '-c', 'user.email=b@localhost', ...args], {
    cwd,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .toString()
    .trim();

const residentMiB = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Trees with one commit each, which all have the same large file. */
async function prepareTrees(url: string): Promise<readonly string[]> {
  const first = join(folder, 'first');
  // The git host is in this process.
  const clone = spawn('git', ['clone', '--quiet', url, first], { stdio: 'ignore' });
  await once(clone, 'close');
  writeFileSync(join(first, 'large.bin'), randomBytes(mebibytes * 1024 * 1024));
  git(first, 'add', '.');
  return Array.from({ length: pushes }, (_, index) => {
    const tree = join(folder, `tree-${index}`);
    cpSync(first, tree, { recursive: true });
    git(tree, 'commit', '--quiet', '-m', `Work ${index}`);
    return tree;
  });
}

/** Pushes each tree to a branch of its own; returns the seconds that all of them took. */
async function pushAll(
  trees: readonly string[],
  url: string,
  env: (worker: number) => NodeJS.ProcessEnv,
): Promise<number> {
  const left = trees.map((tree, index) => ({ tree, branch: `agent/work-${index}` }));
  const began = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async (_, worker) => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const child = spawn('git', ['push', '--quiet', url, `HEAD:refs/heads/${next.branch}`], {
          cwd: next.tree,
          env: { PATH: process.env['PATH'], HOME: folder, ...env(worker) },
          stdio: ['ignore', 'ignore', 'inherit'],
        });
        const [code] = (await once(child, 'close')) as [number | null];
        if (code !== 0) throw new Error(`the push of ${next.branch} ended with ${String(code)}`);
      }
    }),
  );
  return (performance.now() - began) / 1000;
}

const host = await GitServer.start({
  repositories: Object.fromEntries(repositories.map((name) => [name, {}])),
  readers: Object.fromEntries(repositories.map((name) => [name, [credential]])),
});
const credentials = join(folder, 'credentials');
execFileSync('mkdir', [credentials]);
writeFileSync(join(credentials, 'forgejo'), credential);
const up = await Installation.start({
  env: { GIT_HOSTS: JSON.stringify({ forgejo: host.url }), GIT_CREDENTIALS_DIR: credentials },
});
try {
  const settings: string[] = [];
  for (let each = 0; each < sandboxes; each++) {
    const { id } = await up.start('Hello.', { selected_repository: 'acme/relayed' });
    const { sandbox_id: sandbox } = await up.over(id, 60_000);
    const { stdout } = await kubectl(up.kubeconfig, [
      ...['get', 'pvc', sandbox ?? '', '-o', 'jsonpath={.metadata.uid}'],
    ]);
    settings.push(join(up.dataDir, 'node', 'volumes', stdout, '.agent/git/config'));
  }
  const directUrl = `${host.url.replace('://', `://${credential}@`)}/acme/direct.git`;
  const trees = await prepareTrees(directUrl);
  const direct = await pushAll(trees, directUrl, () => ({ GIT_CONFIG_NOSYSTEM: '1' }));

  const before = residentMiB(up.pid);
  let most = before;
  const watch = setInterval(() => (most = Math.max(most, residentMiB(up.pid))), 50);
  const relayed = await pushAll(trees, `${host.url}/acme/relayed.git`, (worker) => ({
    GIT_CONFIG_SYSTEM: settings[worker % sandboxes],
  }));
  clearInterval(watch);
  const what = `${pushes} pushes of ${mebibytes} MiB, ${atOnce} at once`;
  report({ what: `${what}: to the host itself`, value: direct, unit: 's' });
  report({ what: `${what}: through the gateway`, value: relayed, unit: 's' });
  report({
    what: `${what}: speed through the gateway, of the direct one`,
    value: (100 * direct) / relayed,
    unit: '%',
    target: { atLeast: 70 },
  });
  report({
    what: `${what}: more memory of the service`,
    value: most - before,
    unit: 'MiB',
    target: { atMost: 60 },
  });
} finally {
  await up.stop();
  await host.stop();
  rmSync(folder, { recursive: true, force: true });
}
