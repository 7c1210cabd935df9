import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { program } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const execute = promisify(execFile);

const labels = { 'app.kubernetes.io/managed-by': 'conversation-operator' };
const claim = (name: string, owner: string, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: {
    name,
    labels: { ...labels, ...more },
    annotations: { 'conversation-operator.dev/owner': owner },
  },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } },
});
const sandbox = (name: string) => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'Sandbox',
  metadata: { name },
  spec: { owner: 'alice' },
});

describe('conversation-operator claims', () => {
  let server: RunningApiServer;
  beforeAll(async () => {
    server = await runApiServer();
    const items = [
      sandbox('used'),
      claim('used', 'alice'),
      claim('left', 'alice'),
      claim('left-by-bob', 'bob'),
      claim('kept', 'alice', { 'conversation-operator.dev/retained': 'true' }),
      { ...claim('foreign', 'alice'), metadata: { name: 'foreign' } },
    ];
    const objects = items.map((item) => JSON.stringify(item)).join('\n---\n');
    const { code, stderr } = await kubectl(server.kubeconfig, ['create', '-f', '-'], objects);
    if (code !== 0) throw new Error(stderr);
  });
  afterAll(() => server.close());

  const run = (...args: readonly string[]) =>
    execute(process.execPath, [
      program,
      'claims',
      ...args,
      '--kubeconfig',
      server.kubeconfig,
      '--namespace',
      'default',
    ]);
  const left = async () =>
    (await kubectl(server.kubeconfig, ['get', 'pvc', '-o', 'name'])).stdout.trim().split('\n');
  const columns = (text: string, ...numbers: readonly number[]) =>
    text
      .trim()
      .split('\n')
      .map((line) => numbers.map((number) => line.split(/ {2,}/)[number]).join(' '));

  it('list shows each, and whether a pod uses it', async () => {
    const { stdout } = await run('list');
    expect(columns(stdout, 0, 1, 2)).toEqual([
      'CLAIM STATE OWNER',
      'kept retained alice',
      'left orphaned alice',
      'left-by-bob orphaned bob',
      'used in-use alice',
    ]);
  });

  it('prune shows unused ones and deletes nothing, by default only those that are a day old', async () => {
    expect((await run('prune')).stderr).toBe('No claim is to be deleted.\n');
    const { stdout, stderr } = await run('prune', '--older-than', '0s');
    expect(columns(stdout, 0)).toEqual(['CLAIM', 'left', 'left-by-bob']);
    expect(stderr).toMatch(/^Nothing was deleted. With --delete, these 2 claims/);
    expect(await left()).toHaveLength(5);
  });

  it('prune --delete deletes what was asked for, and nothing else', async () => {
    const { stdout } = await run('prune', '--older-than', '0s', '--owner', 'bob', '--delete');
    expect(columns(stdout, 0, -1)).toHaveLength(2);
    expect(stdout).toMatch(/left-by-bob .* deleted/);
    expect(await left()).not.toContain('persistentvolumeclaim/left-by-bob');
    await run('prune', 'kept', '--older-than', '0s', '--delete');
    expect(await left()).toHaveLength(4);
    await run('prune', 'kept', '--older-than', '0s', '--retained', '--delete');
    expect(await left()).toEqual(
      ['foreign', 'left', 'used'].map((name) => `persistentvolumeclaim/${name}`),
    );
  });

  it.each([
    [['prune', 'none'], 'there is no claim none'],
    [['prune', 'foreign'], 'there is no claim foreign'],
    [['prune', '--older-than', 'soon'], '--older-than: soon is not a time'],
  ])('%j is refused', async (args, words) => {
    await expect(run(...args)).rejects.toThrow(words);
  });
});
