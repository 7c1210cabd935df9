import {
  conversationQuotas,
  type ConversationQuota,
} from '../../src/resources/conversation-quota.ts';
import { quotaSchema } from '../../src/gateway/quota/quota-record.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;
beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  await up.stop();
});

const k = (args: string, input?: string) => kubectl(up.kubeconfig, args.split(' '), input);
const apply = (name: string, spec: unknown) =>
  k(
    'apply -f -',
    JSON.stringify({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: conversationQuotas.kind,
      metadata: { name },
      spec,
    }),
  );
const quota = async (name: string): Promise<ConversationQuota> =>
  JSON.parse((await k(`get conversationquota ${name} -o json`)).stdout) as ConversationQuota;
const phases = async (): Promise<string> =>
  (await k('get sandboxes -o jsonpath={.items[*].status.phase}')).stdout
    .split(' ')
    .sort()
    .join(' ');
const conflictOf = async (name: string) => {
  const { status } = await quota(name);
  return status?.conditions?.find(({ type }) => type === 'Conflicting');
};

describe('a quota is refused, by the path of the field, that', () => {
  it.each<[string, unknown, string]>([
    ['has a negative limit', { scope: 'Owner', limit: -1 }, 'spec.limit: Invalid value: -1'],
    ['has a fractional limit', { scope: 'Owner', limit: 1.5 }, 'spec.limit: Invalid value'],
    [
      'has a huge limit',
      { scope: 'Owner', limit: 100_000_000_000 },
      'spec.limit: Invalid value: 100000000000',
    ],
    [
      'has a limit beyond any integer',
      { scope: 'Owner', limit: 1e30 },
      'spec.limit: Invalid value: 1e+30',
    ],
    [
      'has a limit as a string',
      { scope: 'Owner', limit: '5' },
      'spec.limit: Invalid value: "string"',
    ],
    ['has no limit', { scope: 'Owner' }, 'spec.limit: Required value'],
    ['has no scope', { limit: 3 }, 'spec.scope: Required value'],
    [
      'has an unknown scope',
      { scope: 'Cluster', limit: 3 },
      'spec.scope: Unsupported value: "Cluster"',
    ],
    [
      'has an unknown policy',
      { scope: 'Owner', limit: 3, onExceeded: 'Panic' },
      'spec.onExceeded: Unsupported value: "Panic"',
    ],
    [
      'names an owner and is for all of them',
      { scope: 'Namespace', owner: 'alice', limit: 3 },
      'spec.owner: Invalid value',
    ],
    [
      'names an impossible owner',
      { scope: 'Owner', owner: 'a b', limit: 3 },
      'spec.owner: Invalid value: "a b"',
    ],
    [
      'protects for a negative time',
      { scope: 'Owner', limit: 3, minActiveSeconds: -1 },
      'spec.minActiveSeconds: Invalid value: -1',
    ],
    [
      'allows a negative number of conversations',
      { scope: 'Owner', limit: 3, maxConversations: -1 },
      'spec.maxConversations: Invalid value: -1',
    ],
    [
      'allows a fraction of a byte',
      { scope: 'Owner', limit: 3, maxStoredBytes: 1.5 },
      'spec.maxStoredBytes: Invalid value',
    ],
    [
      'allows sandboxes as a string',
      { scope: 'Owner', limit: 3, maxSandboxes: 'many' },
      'spec.maxSandboxes: Invalid value: "string"',
    ],
    [
      'resumes in an unknown way',
      { scope: 'Owner', limit: 3, autoResume: 'Later' },
      'spec.autoResume: Unsupported value: "Later"',
    ],
    [
      'has a misspelt field',
      { scope: 'Owner', limit: 3, onExceded: 'Queue' },
      'unknown field "spec.onExceded"',
    ],
    ['has no spec', undefined, 'spec: Required value'],
  ])('%s', async (_sentence, spec, message) => {
    const { code, stderr } = await apply('bad', spec);
    expect(stderr).toContain(message);
    expect(code).toBe(1);
  });
});

// Before any quota is deleted: for a minute after that, no sandbox resumes automatically.
it('pauses everything under a limit of 0, and resumes each automatically once', async () => {
  await up.call('POST', '/api/v1/sandboxes');
  await up.call('POST', '/api/v1/sandboxes');
  await eventually('both to run', async () => (await phases()) === 'RUNNING RUNNING');
  const limitOf = (limit: number) =>
    k(`patch conversationquota default --type merge -p {"spec":{"limit":${limit}}}`);
  const pausedUnderZero = async () => {
    await limitOf(0);
    await eventually('both to be paused', async () => (await phases()) === 'PAUSED PAUSED');
    return eventually('their pods to be gone', async () => {
      const answer = quotaSchema.parse((await up.call('GET', '/api/v1/quota')).body);
      return answer.active === 0 && answer;
    });
  };
  expect(await pausedUnderZero()).toMatchObject({
    paused: 2,
    next_start: { outcome: 'waits', quota: 'default' },
  });
  await limitOf(10);
  await eventually('both to run again', async () => (await phases()) === 'RUNNING RUNNING');
  // Both have come back with nothing to do: they rest until their owner asks for them.
  expect(await pausedUnderZero()).toMatchObject({
    paused: 0,
    next_start: { outcome: 'waits', quota: 'default' },
  });
  await limitOf(10);
  const names = (await k('get sandboxes -o jsonpath={.items[*].metadata.name}')).stdout.split(' ');
  await up.call('POST', `/api/v1/sandboxes/${names[0] ?? ''}/resume`);
  await eventually('the first to run', async () => (await phases()) === 'PAUSED RUNNING');
  await up.call('POST', `/api/v1/sandboxes/${names[1] ?? ''}/resume`);
  await eventually('the second to run', async () => (await phases()) === 'RUNNING RUNNING');
  await k(`delete sandboxes ${names.join(' ')}`);
});

it('lets the stricter of two for the same hold, and names both on both until one of them is gone', async () => {
  await up.call('POST', '/api/v1/sandboxes');
  await up.call('POST', '/api/v1/sandboxes');
  await eventually('both to run', async () => (await phases()) === 'RUNNING RUNNING');
  expect(await apply('strict', { scope: 'Owner', limit: 1 })).toMatchObject({ code: 0 });
  await eventually('one to be paused', async () => (await phases()) === 'PAUSED RUNNING');
  const message = 'The quotas default, strict are for the same; strict, the strictest, decides.';
  for (const name of ['default', 'strict']) {
    expect(await eventually(`${name} to conflict`, () => conflictOf(name))).toMatchObject({
      status: 'True',
      reason: 'SameScope',
      message,
    });
  }
  expect((await k('get conversationquotas -o wide')).stdout).toMatch(
    /^default +Owner +10 .* True +\S+\nstrict +Owner +1 .* True +\S+\n$/m,
  );
  // A paused sandbox counts until its pod is gone.
  const answer = await eventually('the slot to be free', async () => {
    const now = quotaSchema.parse((await up.call('GET', '/api/v1/quota')).body);
    return now.active === 1 && now;
  });
  expect(answer).toMatchObject({ active: 1, paused: 1, quotas: [{ name: 'strict', limit: 1 }] });
  // The announced pauses are the ones that happen.
  const [next] = answer.next_start.pauses;
  await eventually(
    'the status to say so too',
    async () => (await quota('strict')).status?.nextToPause === next?.sandbox_id,
  );

  expect(await apply('strict', { scope: 'Owner', limit: 2 })).toMatchObject({ code: 0 });
  await eventually('both to run again', async () => (await phases()) === 'RUNNING RUNNING');
  expect(await k('delete conversationquota strict')).toMatchObject({ code: 0 });
  await eventually(
    'the conflict to be over',
    async () => (await conflictOf('default'))?.status === 'False',
  );
});

it('reports no quota once the last one is deleted', async () => {
  await k('delete conversationquota default');
  await eventually(
    'the quota to be gone',
    async () => quotaSchema.parse((await up.call('GET', '/api/v1/quota')).body).quotas.length === 0,
  );
  expect((await up.call('GET', '/api/v1/quota')).body).toMatchObject({
    quotas: [],
    next_start: { outcome: 'admitted', quota: null },
  });
});

it('pauses what it has said that it would', async () => {
  await apply('default', { scope: 'Owner', limit: 2 });
  const { next_start: start } = await eventually('the quota to be known', async () => {
    const answer = quotaSchema.parse((await up.call('GET', '/api/v1/quota')).body);
    return answer.quotas.length === 1 && answer;
  });
  expect(start).toMatchObject({ outcome: 'pauses', pauses: [{}] });
  await up.call('POST', '/api/v1/sandboxes');
  await eventually('another one to run', async () => (await phases()) === 'PAUSED RUNNING RUNNING');
  const paused = await k(
    'get sandboxes --field-selector status.phase=PAUSED -o jsonpath={.items[*].metadata.name}',
  );
  expect(paused.stdout).toBe(start.pauses[0]?.sandbox_id);
});
