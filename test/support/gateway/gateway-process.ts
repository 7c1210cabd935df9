import { gatewaySettings } from '../../../src/commands/gateway-wiring.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import type { GatewayOptions } from '../../../src/gateway/gateway.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { TestGateway } from './test-gateway.ts';

/**
 * A gateway in a process of its own, with the product's settings as the environment says them, and
 * what is asked of it over IPC. Its memory and its connections are then its own.
 */
export interface Begun {
  readonly port: number;
  readonly key: string;
  /** The key of another owner, to whom the sandbox and the large conversations belong. */
  readonly otherKey: string;
  readonly sessionKey: string;
}

export interface Stats {
  readonly rssBytes: number;
  /** Bytes of live objects, buffers included, after a collection. */
  readonly heapBytes: number;
  readonly connections: number;
}

const overrides = JSON.parse(process.env['GATEWAY_OPTIONS'] ?? '{}') as Partial<GatewayOptions>;
const agentPort = Number(process.env['AGENT_PORT']);
const gateway = await TestGateway.start({
  ...gatewaySettings(readGatewayConfig({ ...process.env, MASTER_KEY_FILES: 'unused' })),
  // The one of tests keeps every line.
  logger: silentLogger,
  audit: () => undefined,
  ...overrides,
});
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const other = 'mallory';
const sandbox = await gateway.addSandbox('sbx-1', {
  owner: other,
  status: {
    podName: 'pod',
    podUID: 'pod-1',
    podIP: '127.0.0.1',
    agentPort,
    conditions: [is('Admitted'), is('Ready')],
  },
});
for (let index = 0; index < 100; index++) {
  const content = [{ type: 'text' as const, text: 'x'.repeat(100_000) }];
  await gateway.addConversation(index.toString(16).padStart(32, '0'), {
    spec: { owner: other, initialMessage: { role: 'user', content, run: true } },
  });
}

const connections = (): number =>
  process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;

function stats(): Stats {
  globalThis.gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rssBytes: rss, heapBytes: heapUsed + external, connections: connections() };
}

process.on('message', (wanted: 'stats' | 'connections') =>
  process.send?.(wanted === 'stats' ? stats() : connections()),
);
process.on('disconnect', () => void gateway.stop().then(() => process.exit(0)));
const otherKey = await gateway.issueKey(other);
process.send?.({
  port: gateway.port,
  key: gateway.alice,
  otherKey,
  sessionKey: gateway.sessionKeyOf(sandbox, { apiKey: otherKey }),
} satisfies Begun);
