import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { addTemplate } from '../bench/population.ts';
import { startApiFront } from '../support/api-front.ts';
import { runApiServer } from '../support/api-server.ts';
import { eventually } from '../support/eventually.ts';
import { program } from '../support/installation.ts';

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
  const connection = { server: api.server.url, token: api.token };
  const transport = new Transport({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  stack.defer(() => transport.close());
  const client = new HttpKubeClient({ transport });
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
  const masterKey = join(api.folder, 'master-key');
  writeFileSync(masterKey, 'k'.repeat(32));
  const child = spawn(process.execPath, [program, 'operator'], {
    env: {
      PATH: process.env['PATH'],
      HOME: api.folder,
      KUBECONFIG: kubeconfig,
      NAMESPACE: namespace,
      MASTER_KEY_FILES: masterKey,
      METRICS_PORT: '0',
      HEALTH_PORT: '0',
      LOG_FORMAT: 'json',
      ...lease,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  stack.defer(async () => {
    if (child.exitCode === null && child.kill('SIGKILL')) await exited;
  });

  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));

  await eventually('every connection is occupied', () => writes >= connections);
  const before = writes;
  await new Promise((resolve) => setTimeout(resolve, observedMs));
  await eventually(
    'each connection has carried several writes',
    () => writes - before >= (connections * observedMs) / writeMs / 2,
  );
  // A leader that has lost its lease takes the lease again, as the same holder.
  expect(
    log.match(/"message":"(Started leading|Stopped leading|Lease could not be renewed)"/g),
  ).toEqual(['"message":"Started leading"']);
});
