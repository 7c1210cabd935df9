import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OverviewRecord } from '../../src/gateway/overview/schemas.ts';
import { eventually } from '../support/eventually.ts';
import { program } from '../support/installation.ts';
import { SplitInstallation } from '../support/split-installation.ts';

let dataDir: string;
let up: SplitInstallation;
let key: string;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'conversation-operator-overview-'));
  up = await SplitInstallation.start(dataDir);
  const make = [program, 'keys', 'create', '--owner', 'root', '--role', 'admin'];
  key = execFileSync(process.execPath, make, {
    env: { PATH: process.env['PATH'], KUBECONFIG: up.kubeconfig, NAMESPACE: 'default' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .toString()
    .trim();
});
afterAll(async () => {
  await up.stop();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

async function read(): Promise<OverviewRecord> {
  const answer = await fetch(`${up.url}/api/v1/admin/overview`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return (await answer.json()) as OverviewRecord;
}
const leader = async () => (await read()).leaders?.[0];

it('follows who leads, and reads every kind that it shows', async () => {
  expect(await leader()).toMatchObject({ shard: null, holder: null, is_live: false });
  up.addOperator('one');
  await eventually('a leader', async () => (await leader())?.is_live === true);
  const { caches, templates } = await read();
  expect(caches.filter((cache) => !cache.is_synced || cache.is_interrupted)).toEqual([]);
  expect(caches.map(({ kind }) => kind)).toContain('Lease');
  expect(templates.items).toMatchObject([{ name: 'default' }]);
  // A killed operator leaves its Lease behind.
  await up.killOperator('one');
  const left = await eventually('the end of the leader', async () => {
    const state = await leader();
    return state?.is_live === false ? state : undefined;
  });
  expect(left.holder).not.toBeNull();
});
