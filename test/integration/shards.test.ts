import { leases } from '@conversation-operator/kube/core';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { shardOf } from '../../src/controllers/shards/shard.ts';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { runBuilt, type BuiltProgram } from '../support/built-program.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';

const home = 'default';
const lease = {
  LEASE_DURATION_SECONDS: '3',
  LEASE_RENEW_DEADLINE_SECONDS: '2',
  LEASE_RETRY_PERIOD_SECONDS: '0.4',
};
/** A namespace of each of two shards. */
const tenants = [0, 1].map(
  (shard) =>
    Array.from({ length: 64 }, (_, index) => `team-${index}`).find(
      (namespace) => shardOf(namespace, 2) === shard,
    ) ?? '',
);
const namespaces: ResourceDefinition<KubeObject> = {
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
};

interface Replica extends BuiltProgram {
  readonly metricsPort: number;
}

let stack: AsyncDisposableStack;
let api: RunningApiServer;
let client: HttpKubeClient;
let created = 0;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = await runApiServer();
  stack.defer(() => api.close());
  ({ client } = api);
  for (const name of tenants)
    await client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
});
afterEach(() => stack.disposeAsync());

async function startOperator(name: string, shards: number): Promise<Replica> {
  const metricsPort = await freePort();
  const env = {
    NAMESPACE: home,
    ALL_NAMESPACES: 'true',
    SHARDS: String(shards),
    POD_NAME: name,
    METRICS_PORT: String(metricsPort),
    NOTIFICATION_PORT: '0',
    ...lease,
  };
  return { ...runBuilt('operator', { api, stack, env }), metricsPort };
}

/** The replicas that the Leases of the shards name; '' for a shard without a leader. */
async function leaders(shards: number): Promise<readonly string[]> {
  const { items } = await client.list(leases, { namespace: home });
  return Array.from({ length: shards }, (_, shard) => {
    const found = items.find(({ metadata: { name } }) => name === `conversation-operator-${shard}`);
    return found?.spec?.holderIdentity?.split('_')[0] ?? '';
  });
}

const commonHolder = async () =>
  (await client.get(leases, home, 'conversation-operator')).spec?.holderIdentity ?? '';

const led = async ({ metricsPort }: Replica): Promise<string | undefined> => {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  return /^conversation_operator_shards_led (\d+)$/m.exec(await response.text())?.[1];
};

/** Creates a sandbox in each namespace, and waits until a leader has observed it. */
async function work(): Promise<void> {
  const name = `work-${created++}`;
  for (const namespace of tenants)
    await client.create(sandboxes, {
      apiVersion,
      kind: 'Sandbox',
      metadata: { namespace, name },
      spec: { owner: 'alice', templateName: 'missing', replicas: 1 },
    });
  for (const namespace of tenants)
    await eventually(`the sandbox of ${namespace} has a status`, async () => {
      const { status }: Sandbox = await client.get(sandboxes, namespace, name);
      return status?.phase !== undefined;
    });
}

describe('operators with shards', () => {
  it('spread the shards, and take those of a replica that is killed', async () => {
    const one = await startOperator('one', 2);
    await eventually('one leads both', async () => (await leaders(2)).join() === 'one,one');
    await work();
    const two = await startOperator('two', 2);
    await eventually('each leads one', async () =>
      ['one,two', 'two,one'].includes((await leaders(2)).join()),
    );
    await eventually('both say so', async () =>
      [await led(one), await led(two)].every((count) => count === '1'),
    );
    await work();
    one.process.kill('SIGKILL');
    await eventually('two leads both', async () => (await leaders(2)).join() === 'two,two');
    await work();
    await two.stop();
    expect(await leaders(2)).toEqual(['', '']);
    expect(await commonHolder()).toBe('');
  });

  it('wait for those of another number of shards', async () => {
    const plain = await startOperator('plain', 1);
    await eventually('the plain one leads', async () => (await commonHolder()).startsWith('plain'));
    await work();
    const four = await startOperator('four', 4);
    await eventually('four is ready', async () => (await led(four)) === '0');
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await leaders(4)).toEqual(['', '', '', '']);
    plain.process.kill('SIGTERM');
    await eventually('four leads', async () => (await leaders(4)).every((name) => name === 'four'));
    expect(await commonHolder()).toBe('shards-4');
    await work();
    const two = await startOperator('two', 2);
    await eventually('two is ready', async () => (await led(two)) === '0');
    four.process.kill('SIGTERM');
    await eventually('two leads', async () => (await commonHolder()) === 'shards-2');
    await work();
  });
});
