import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

/** Maximum time of a pause in this test, in milliseconds: the default of PAUSE_TIMEOUT_SECONDS. */
const pauseBoundMs = 15_000;
/** Time that a busy machine may add, in milliseconds. */
const graceMs = 150_000;

/** Without keys of its own the program asks the metadata service of the machine. */
const credentials = mkdtempSync(join(tmpdir(), 'conversation-operator-keys-'));
writeFileSync(join(credentials, 'access-key-id'), 'key');
writeFileSync(join(credentials, 'secret-access-key'), 'secret');
afterAll(() => rmSync(credentials, { recursive: true }));

let requests = 0;
let server: Server | undefined;
let up: Installation | undefined;

afterEach(async () => {
  await up?.stop();
  server?.closeAllConnections();
  server?.close();
});

async function startWith(store: RequestListener) {
  requests = 0;
  server = createServer((request, response) => {
    requests++;
    store(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const metricsPort = await freePort();
  const running = await Installation.start({
    env: {
      ARCHIVE_S3_BUCKET: 'history',
      ARCHIVE_S3_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      ARCHIVE_S3_CREDENTIALS_DIR: credentials,
      METRICS_PORT: String(metricsPort),
    },
  });
  up = running;
  return { running, metricsPort };
}

const denied: RequestListener = (request, response) => {
  request.resume();
  const body =
    '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>';
  response.writeHead(403, { 'content-type': 'application/xml' }).end(body);
};
const hangs: RequestListener = (request) => void request.resume();

it.each<[string, RequestListener, string]>([
  ['refuses writes', denied, 'StoreDenied'],
  ['does not answer', hangs, 'StoreUnavailable'],
])(
  'a store that %s stops no start and no pause, and is shown',
  async (_case, store, reason) => {
    const { running, metricsPort } = await startWith(store);
    const { id } = await running.start('Hello.');
    const task = await running.over(id, graceMs);
    expect(task.status).toBe('READY');
    const name = (task.app_conversation_id ?? '').replaceAll('-', '');

    await eventually(
      `the condition says ${reason}`,
      async () => {
        const { stdout } = await kubectl(running.kubeconfig, [
          ...['get', 'conversation', name, '-o'],
          'jsonpath={.status.conditions[?(@.type=="Archived")].reason}',
        ]);
        return stdout === reason;
      },
      graceMs,
    );
    expect(requests).toBeGreaterThan(0);
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    expect(metrics).toMatch(
      new RegExp(
        `^conversation_operator_archive_failures_total\\{reason="${reason}"\\} [1-9]`,
        'm',
      ),
    );
    expect(running.output).toContain('The events of a conversation were not archived');

    const sandbox = task.sandbox_id ?? '';
    const paused = await running.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    expect(paused.status).toBe(200);
    await eventually(
      'the sandbox is paused',
      async () => {
        const { stdout } = await kubectl(running.kubeconfig, [
          ...['get', 'sandbox', sandbox, '-o', 'jsonpath={.status.phase}'],
        ]);
        return stdout === 'PAUSED';
      },
      pauseBoundMs + graceMs,
    );

    const second = await running.start('Hello again.');
    expect((await running.over(second.id, graceMs)).status).toBe('READY');
  },
  600_000,
);
