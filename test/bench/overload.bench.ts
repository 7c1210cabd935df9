import { setTimeout as delay } from 'node:timers/promises';
import { startApiServer } from './api-server.ts';
import { percentile, report } from './figure.ts';
import { connections } from './gateway-load.ts';
import { startGateway } from './gateway-process.ts';
import { load } from './http-load.ts';
import { offer } from './open-load.ts';
import { addConversations, addTemplate, newKey } from './population.ts';

/**
 * Three times what the gateway can do, with its limits as they are by default, but for those of a
 * single key.
 */
const times = 3;
const durationMs = 10_000;
const probeMs = 100;
/** Half of what clients wait that wait least. */
const atMostMs = 5000;
/** Fewer than it takes by default. */
const openConnections = 3000;

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
await addTemplate(server.client);
const key = await newKey(server.client);
await addConversations(server.client, 1000);
const gateway = await startGateway(server, {
  MAX_CONNECTIONS: '5000',
  MAX_REQUESTS: '2000',
  OVERLOAD_DELAY_MS: '500',
});
stack.defer(() => gateway.close());
const { port } = gateway;

const head = (line: string) =>
  `${line} HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer ${key}\r\nAccept: application/json\r\n`;
const base = '/api/v1/app-conversations';
const start = JSON.stringify({
  initial_message: { content: [{ type: 'text', text: 'Say hello.' }] },
});

/**
 * How long /alive and /ready take meanwhile, on connections that are kept, as load balancers do.
 */
function probe() {
  const times: number[] = [];
  let [failed, isOver] = [0, false];
  const ended = Promise.all(
    ['/alive', '/ready'].map(async (path) => {
      while (!isOver) {
        const began = performance.now();
        const response = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
        if (response?.ok === true) times.push(performance.now() - began);
        else failed += 1;
        await delay(probeMs);
      }
    }),
  );
  return async () => {
    isOver = true;
    await ended;
    return { times, failed };
  };
}

async function measure(what: string, request: string): Promise<void> {
  await load({ port, request, connections, durationMs: 2000 });
  const capacity = await load({ port, request, connections, durationMs: 4000 });
  const perSecond = capacity.requestsPerSecond * times;
  report({
    what: `${what}, over ${connections} connections`,
    value: capacity.requestsPerSecond,
    unit: 'req/s',
  });
  const stopProbe = probe();
  const { accepted, refused, unanswered, broken, held } = await offer({
    port,
    request,
    perSecond,
    durationMs,
    connections: openConnections,
  });
  const { times: probeTimes, failed } = await stopProbe();
  const seconds = durationMs / 1000;
  report({ what: `${what}, offered`, value: perSecond, unit: 'req/s' });
  report({ what: `${what}, accepted of these`, value: accepted.length / seconds, unit: 'req/s' });
  report({ what: `${what}, refused with 503`, value: refused.length / seconds, unit: 'req/s' });
  report({
    what: `${what}, not sent: no connection was free`,
    value: held / seconds,
    unit: 'req/s',
  });
  report({
    what: `${what}, without an answer`,
    value: unanswered,
    unit: '',
    target: { atMost: 0 },
  });
  report({ what: `${what}, connections broken`, value: broken, unit: '', target: { atMost: 0 } });
  report({ what: `${what}, accepted, p50`, value: percentile(accepted, 0.5), unit: 'ms' });
  report({
    what: `${what}, accepted, p99`,
    value: percentile(accepted, 0.99),
    unit: 'ms',
    target: { atMost: atMostMs },
  });
  if (refused.length > 0)
    report({
      what: `${what}, refused, p99`,
      value: percentile(refused, 0.99),
      unit: 'ms',
      target: { atMost: atMostMs },
    });
  report({
    what: `${what}, /alive and /ready, slowest`,
    value: Math.max(...probeTimes),
    unit: 'ms',
    target: { atMost: atMostMs },
  });
  report({
    what: `${what}, /alive and /ready, failed`,
    value: failed,
    unit: '',
    target: { atMost: 0 },
  });
}

// Writes are refused once the event loop is 0.5 s late, reads once it is 2 s late.
await measure(
  'starts',
  `${head(`POST ${base}`)}Content-Type: application/json\r\nContent-Length: ${start.length}\r\n\r\n${start}`,
);
await measure('search pages', `${head(`GET ${base}/search?limit=100`)}\r\n`);
