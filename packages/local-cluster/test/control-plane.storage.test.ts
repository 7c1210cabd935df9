/* oxlint-disable
   @typescript-eslint/no-unsafe-assignment,
   @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call,
   @typescript-eslint/no-unsafe-argument
   -- answers are JSON of every shape; a wrong guess fails the test */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ControlPlane } from '../src/control-plane.ts';
import { StorageError } from '../src/storage/object-store.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { crds } from '../../../test/support/crds.ts';
import { aConversation, coreInDefault, inDefault, type Body } from '../../../test/support/plane.ts';

let folder: string;
let file: string;
const planes: ControlPlane[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plane-'));
  file = join(folder, 'state', 'state.db');
});
afterEach(async () => {
  for (const plane of planes.splice(0)) await plane.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(): Promise<ControlPlane> {
  const plane = new ControlPlane({
    storage: { file },
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  planes.push(plane);
  await plane.start();
  return plane;
}

async function call(
  plane: ControlPlane,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: Body }> {
  const answer = await plane.handle({
    method,
    path,
    headers: {},
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: JSON.parse(answer.body as string) };
}

const errorOf = (action: () => unknown): unknown => {
  try {
    return action();
  } catch (error) {
    return error;
  }
};
const opening = () =>
  new ControlPlane({
    storage: { file },
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });

it('a restart keeps objects, kinds and versions', async () => {
  const first = await open();
  await first.applyCrds(crds());
  await call(first, 'POST', inDefault('conversations'), aConversation('a'));
  const before = (await call(first, 'GET', inDefault('conversations', 'a'))).body;
  await call(first, 'POST', inDefault('conversations'), aConversation('b'));
  await call(first, 'DELETE', inDefault('conversations', 'b'));
  const { revision } = first;
  await first.close();

  const second = await open();
  expect(second.revision).toBe(revision);
  expect((await call(second, 'GET', inDefault('conversations', 'a'))).body).toEqual(before);
  expect((await call(second, 'GET', inDefault('conversations', 'b'))).status).toBe(404);
  expect(
    (await call(second, 'POST', inDefault('conversations'), aConversation('a', { owner: '' })))
      .status,
  ).toBe(422);
  await second.applyCrds(crds());
  expect(second.revision).toBe(revision);
});

it('dependents whose owner went before the restart go after it', async () => {
  const first = await open();
  const { body: owner } = await call(first, 'POST', coreInDefault('configmaps'), {
    metadata: { name: 'owner' },
  });
  const ownerReferences = [
    { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: owner.metadata.uid as string },
  ];
  await call(first, 'POST', coreInDefault('configmaps'), {
    metadata: { name: 'child', ownerReferences },
  });
  await call(first, 'DELETE', coreInDefault('configmaps', 'owner'));
  // Closed before the collector's turn.
  await first.close();

  const second = await open();
  while ((await call(second, 'GET', coreInDefault('configmaps', 'child'))).status !== 404)
    await new Promise((resolve) => setTimeout(resolve, 5));
});

it('nothing that was acknowledged is lost by a kill', async () => {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('../../../test/support/plane-process.ts', import.meta.url)), file],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const acknowledged: string[] = [];
  const exited = once(child, 'exit');
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged.push(line);
    if (acknowledged.length === 200) child.kill('SIGKILL');
  }
  await exited;
  const { body } = await call(await open(), 'GET', coreInDefault('configmaps'));
  const stored = new Set(body.items.map(({ metadata }: Body) => metadata.name as string));
  expect(acknowledged.length).toBeGreaterThanOrEqual(200);
  expect(acknowledged.filter((name) => !stored.has(name))).toEqual([]);
});

it('is readable by its owner alone', async () => {
  await open();
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, 'state')).mode & 0o777).toBe(0o700);
});

it('a file in use is refused', async () => {
  await open();
  const error = errorOf(opening);
  expect(error).toBeInstanceOf(StorageError);
  expect(error).toMatchObject({
    code: 'Locked',
    message: `${file} is in use by another process; end that one first`,
  });
});

it.each([
  [
    'no database',
    Buffer.from('this is no database at all, only a text that is long enough to be read'),
  ],
  ['nothing but zeros', Buffer.concat([Buffer.from('SQLite format 3\0'), Buffer.alloc(4096)])],
])('a file that is %s is refused', async (_, content) => {
  const plane = await open();
  await plane.close();
  writeFileSync(file, content);
  expect(errorOf(opening)).toMatchObject({
    name: 'StorageError',
    code: 'Corrupt',
    message: expect.stringContaining(file) as string,
  });
});
