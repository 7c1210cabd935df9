import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { addTemplate } from '../bench/population.ts';
import { startApiFront } from '../support/api-front.ts';
import { runApiServer } from '../support/api-server.ts';
import { runBuilt } from '../support/built-program.ts';
import { eventually } from '../support/eventually.ts';

const namespace = 'default';
/** Conversations that start, each of an owner of its own. */
const starts = 400;
/**
 * Duration of each write but those of the lease. Some wait for several others; a renewal among
 * those would miss its deadline.
 */
const writeMs = 3_000;
const lease = {
  LEASE_DURATION_SECONDS: '12',
  LEASE_RENEW_DEADLINE_SECONDS: '3',
  LEASE_RETRY_PERIOD_SECONDS: '0.2',
};
/** Connections of the operator for its work. */
const connections = 16;
const observedMs = 15_000;

it('a leader keeps its lease while its own writes occupy each of its connections', async () => {
  await using stack = new AsyncDisposableStack();
  const api = await runApiServer();
  stack.defer(() => api.close());
  const { client } = api;
  await addTemplate(client, namespace);
  const initialMessage = {
    role: 'user' as const,
    content: [{ type: 'text' as const, text: 'Hello.' }],
    run: true,
  };
  for (let index = 0; index < starts; index++)
    await client.create(conversations, {
      apiVersion,
      kind: 'Conversation',
      metadata: { namespace, name: newUuid(Date.now()) },
      spec: { owner: `owner-${index}`, templateName: 'default', initialMessage },
    });

  const front = await startApiFront(api.server.url);
  stack.defer(() => front.close());
  let writes = 0;
  front.delayMs = ({ method, path }) => {
    if (method === 'GET' || path.includes('/leases')) return 0;
    writes++;
    return writeMs;
  };
  const kubeconfig = join(api.folder, 'front');
  const text = readFileSync(api.kubeconfig, 'utf8')
    .replace(/server: .*/, `server: ${front.url}`)
    .replace(/certificate-authority-data: .*/, 'insecure-skip-tls-verify: true');
  writeFileSync(kubeconfig, text);
  const env = { KUBECONFIG: kubeconfig, NAMESPACE: namespace, ...lease };
  const { log } = runBuilt('operator', { api, stack, env });

  await eventually('every connection is occupied', () => writes >= connections);
  const before = writes;
  await new Promise((resolve) => setTimeout(resolve, observedMs));
  await eventually(
    'each connection has carried several writes',
    () => writes - before >= (connections * observedMs) / writeMs / 2,
  );
  // A leader that has lost its lease takes the lease again, as the same holder.
  expect(
    log().match(/"message":"(Started leading|Stopped leading|Lease could not be renewed)"/g),
  ).toEqual(['"message":"Started leading"']);
});
