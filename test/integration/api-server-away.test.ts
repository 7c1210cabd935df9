import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startApiFront, type ApiFront } from '../support/api-front.ts';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { runBuilt } from '../support/built-program.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { program } from '../support/installation.ts';

let stack: AsyncDisposableStack;
let api: RunningApiServer;
let port: number;
let kubeconfig: string;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = await runApiServer();
  stack.defer(() => api.close());
  port = await freePort();
  kubeconfig = join(api.folder, 'front');
  // A plain server: kubeconfigs may name one only when nothing is verified anyway.
  const text = readFileSync(api.kubeconfig, 'utf8')
    .replace(/server: .*/, `server: http://127.0.0.1:${port}`)
    .replace(/certificate-authority-data: .*/, 'insecure-skip-tls-verify: true');
  writeFileSync(kubeconfig, text);
});
afterEach(() => stack.disposeAsync());

interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly port?: number;
  readonly error?: { readonly message: string };
}

async function run(command: 'operator' | 'gateway' | 'relay') {
  const readyPort = await freePort();
  const env = {
    KUBECONFIG: kubeconfig,
    METRICS_PORT: String(readyPort),
    ...(command === 'relay' ? { AGENT_SIDE_PORT: '0' } : {}),
  };
  const { log, stop } = runBuilt(command, { api, stack, env });
  return {
    lines: () =>
      log()
        .split('\n')
        .flatMap((line) =>
          line.startsWith('{') && line.endsWith('}') ? [JSON.parse(line) as LogLine] : [],
        ),
    ready: async () => (await fetch(`http://127.0.0.1:${readyPort}/ready`)).status,
    alive: async () => (await fetch(`http://127.0.0.1:${readyPort}/alive`)).status,
    stop,
  };
}

const front = async (): Promise<ApiFront> => {
  const started = await startApiFront(api.server.url, port);
  stack.defer(() => started.close());
  return started;
};

describe.each(['operator', 'gateway', 'relay'] as const)('the %s', (command) => {
  it('says at its start that the API server is out of reach, and works by itself once it is not', async () => {
    const { lines, ready, alive, stop } = await run(command);
    const why = await eventually('it says why', () =>
      lines().find(
        ({ level, message }) => level === 'warn' && message.startsWith('The first list'),
      ),
    );
    expect(why.error?.message).toContain(`ECONNREFUSED 127.0.0.1:${port}`);
    expect([await ready(), await alive()]).toEqual([503, 200]);
    await front();
    await eventually('it is ready', async () => (await ready()) === 200);
    expect(await stop()).toMatchObject({ code: 0 });
  });

  it('says at its start which right it lacks, and works by itself once it has it', async () => {
    const rights = await front();
    const message =
      'sandboxes.conversation-operator.dev is forbidden: User "system:serviceaccount:agents:x" cannot list resource "sandboxes" in API group "conversation-operator.dev" in the namespace "default"';
    rights.refuse = ({ path }) =>
      path.includes('/sandboxes') ? { code: 403, reason: 'Forbidden', message } : undefined;
    const { lines, ready, stop } = await run(command);
    const why = await eventually('it says why', () =>
      lines().find(({ level, error }) => level === 'warn' && error?.message === message),
    );
    expect(why.message).toBe('The first list failed and is repeated');
    expect(await ready()).toBe(503);
    rights.refuse = () => undefined;
    await eventually('it is ready', async () => (await ready()) === 200);
    expect(await stop()).toMatchObject({ code: 0 });
  });
});

it('the gateway ends its streams once they would show an old state, and serves them again by itself', async () => {
  const first = await front();
  const { lines, ready } = await run('gateway');
  await eventually('it is ready', async () => (await ready()) === 200);
  const create = ['keys', 'create', '--owner', 'alice', '--kubeconfig', kubeconfig];
  const made = spawn(process.execPath, [program, ...create], {
    env: { PATH: process.env['PATH'], HOME: api.folder },
  });
  let key = '';
  made.stdout.on('data', (chunk: Buffer) => (key += chunk.toString()));
  await once(made, 'exit');
  const gatewayPort = lines().find(({ message }) => message === 'gateway started')?.port ?? 0;
  const open = () =>
    fetch(`http://127.0.0.1:${gatewayPort}/api/v1/stream`, {
      headers: { authorization: `Bearer ${key.trim()}` },
    });
  const stream = await eventually('the key is known', async () => {
    const response = await open();
    return response.ok && response;
  });
  await first.close();
  // The rest of the stream, which ends with its reason.
  expect(await stream.text()).toMatch(/event: closed\ndata: \{"code":"stale"\}\n\n$/);
  expect((await open()).status).toBe(503);
  await front();
  const again = await eventually('streams are served', async () => {
    const response = await open();
    return response.ok && response;
  });
  await again.body?.cancel();
});

it.each([
  ['list', ['keys', 'list']],
  ['create', ['keys', 'create', '--owner', 'alice']],
])(
  'keys %s says in one line that the API server is out of reach, and ends with 1',
  async (_sentence, args) => {
    const child = spawn(process.execPath, [program, ...args, '--kubeconfig', kubeconfig], {
      env: { PATH: process.env['PATH'], HOME: api.folder },
    });
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    expect(((await once(child, 'exit')) as [unknown])[0]).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^conversation-operator: .*ECONNREFUSED 127.0.0.1:${port}\n$`),
    );
  },
);
