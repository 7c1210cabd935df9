import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { leases } from '@conversation-operator/kube/core';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { runBuilt } from '../support/built-program.ts';
import { eventually } from '../support/eventually.ts';

const namespace = 'default';

let stack: AsyncDisposableStack;
let api: RunningApiServer;
let client: HttpKubeClient;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = await runApiServer();
  stack.defer(() => api.close());
  ({ client } = api);
});
afterEach(() => stack.disposeAsync());

const holder = async (): Promise<string> => {
  const { items } = await client.list(leases, { namespace });
  return (
    items.find(({ metadata }) => metadata.name === 'conversation-operator')?.spec?.holderIdentity ??
    ''
  );
};

/** Longer than the test, which the successor does not wait for. */
const lease = {
  LEASE_DURATION_SECONDS: '600',
  LEASE_RENEW_DEADLINE_SECONDS: '500',
  LEASE_RETRY_PERIOD_SECONDS: '1',
};

it('hands over from one operator to the other before its lease is over, and ends with 0', async () => {
  const names = ['first', 'second'] as const;
  const operators = new Map(
    names.map((name) => [
      name,
      runBuilt('operator', { api, stack, env: { POD_NAME: name, ...lease } }),
    ]),
  );
  await eventually('both have started', () =>
    [...operators.values()].every(({ log }) => log().includes('operator started')),
  );
  const leaderName = await eventually('one leads', async () => {
    const identity = await holder();
    return names.find((name) => identity.startsWith(`${name}_`));
  });
  const otherName = leaderName === 'first' ? 'second' : 'first';
  const ended = operators.get(leaderName)?.stop();
  await eventually('the other one leads', async () => (await holder()).startsWith(`${otherName}_`));
  expect(await ended).toMatchObject({ code: 0 });
  expect(await operators.get(otherName)?.stop()).toMatchObject({ code: 0 });
  expect(await holder()).toBe('');
});
