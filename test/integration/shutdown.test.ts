import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { leases } from '@conversation-operator/kube/core';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { eventually } from '../support/eventually.ts';
import { program } from '../support/installation.ts';

const namespace = 'default';

let stack: AsyncDisposableStack;
let api: RunningApiServer;
let client: HttpKubeClient;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = await runApiServer();
  stack.defer(() => api.close());
  const connection = { server: api.server.url, token: api.token };
  const transport = new Transport({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  stack.defer(() => transport.close());
  client = new HttpKubeClient({ transport });
  writeFileSync(join(api.folder, 'master-key'), 'k'.repeat(32));
});
afterEach(() => stack.disposeAsync());

interface Command {
  readonly process: ChildProcess;
  readonly log: () => string;
  /** SIGTERM; resolves with the exit code. */
  readonly stop: () => Promise<{ readonly code: unknown }>;
}

function startOperator(env: Record<string, string>): Command {
  const child = spawn(process.execPath, [program, 'operator'], {
    env: {
      PATH: process.env['PATH'],
      HOME: api.folder,
      KUBECONFIG: api.kubeconfig,
      MASTER_KEY_FILES: join(api.folder, 'master-key'),
      METRICS_PORT: '0',
      LOG_FORMAT: 'json',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const exited = once(child, 'exit');
  stack.defer(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return {
    process: child,
    log: () => log,
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = (await exited) as [unknown];
      return { code };
    },
  };
}

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
    names.map((name) => [name, startOperator({ POD_NAME: name, HEALTH_PORT: '0', ...lease })]),
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
