import { eventually } from '../support/eventually.ts';
import { kubectl } from './support/cluster.ts';
import { TestedInstallation, readFacts, report } from './support/installation.ts';

const up = new TestedInstallation('story');
const facts = readFacts();
const withinMs = 90_000;

/** Kubelets, garbage collection and the rights of the chart's Roles are those of Kubernetes. */
describe('a pool on a cluster', () => {
  const fieldOf = (path: string) => up.k(`get sandboxpool e2e -o jsonpath={${path}}`);
  const isFull = () =>
    eventually(
      'the pool to be full',
      async () => (await fieldOf('.status.conditions[0].reason')) === 'Full',
      withinMs,
    );

  beforeAll(async () => {
    await kubectl(
      ['apply', '--namespace', facts.sandboxes, '--filename', '-'],
      JSON.stringify({
        apiVersion: 'conversation-operator.dev/v1alpha1',
        kind: 'SandboxPool',
        metadata: { name: 'e2e' },
        spec: { replicas: 2 },
      }),
    );
    await isFull();
  });
  afterAll(async () => {
    await up.k(['delete', 'sandboxpool', 'e2e', '--ignore-not-found']);
    await eventually(
      'its warm sandboxes to be gone',
      async () =>
        (await up.k('get sandboxes -l conversation-operator.dev/pool=e2e -o name')).trim() === '',
      withinMs,
    );
  });

  it('gives a start its warm sandbox, and its pod the owner', async () => {
    const warmSandboxes = await up.k(
      'get sandboxes -l conversation-operator.dev/pool=e2e -o jsonpath={.items[*].metadata.name}',
    );
    const began = performance.now();
    const task = await up.over((await up.start('```sh\necho warm >warm.txt\n```')).id, withinMs);
    report('start from a warm sandbox, until READY', `${Math.round(performance.now() - began)} ms`);
    expect(task.status).toBe('READY');
    const sandbox = task.sandbox_id ?? '';
    expect(warmSandboxes.split(' ')).toContain(sandbox);
    const owner = 'jsonpath={.metadata.annotations.conversation-operator\\.dev/owner}';
    expect(await up.k(['get', 'pod', sandbox, '-o', owner])).toBe(
      await up.k(['get', 'sandbox', sandbox, '-o', 'jsonpath={.spec.owner}']),
    );
    const id = task.app_conversation_id ?? '';
    await up.reaches(id, { execution_status: 'finished' }, withinMs);
    expect(await up.inSandbox(sandbox, 'cat /workspace/project/warm.txt')).toBe('warm');
    await isFull();
    // Garbage collection deletes it with its conversation, and not with the pool.
    await up.k('scale sandboxpool e2e --replicas=0');
    await eventually(
      'the warm sandboxes to be gone',
      async () => (await fieldOf('.status.conditions[0].reason')) === 'ScaledToZero',
      withinMs,
    );
    expect(await up.k(['get', 'sandbox', sandbox, '-o', 'jsonpath={.status.phase}'])).toBe(
      'RUNNING',
    );
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
    await eventually(
      'the sandbox to be gone',
      async () => (await up.k(`get sandbox ${sandbox} --ignore-not-found -o name`)).trim() === '',
      withinMs,
    );
  }, 240_000);
});
