import { silentLogger } from '../../src/observability/logger.ts';
import { SandboxCondition } from '../../src/resources/sandbox.ts';
import { TestGateway } from '../support/gateway/test-gateway.ts';

/** A gateway on a fake API server, with one sandbox whose agent listens on the port given. Says how to reach it, then its memory every second. */
const [agentPort = ''] = process.argv.slice(2);
const is = (type: string) => ({ type, status: 'True' as const, reason: type, message: '', lastTransitionTime: '2026-01-01T00:00:00Z' });
const gateway = await TestGateway.start({ proxyLimits: { perSandbox: 5000 }, logger: silentLogger });
const { metadata } = await gateway.addSandbox('sbx-1', {
  status: {
    podUID: 'pod-1',
    podIP: '127.0.0.1',
    agentPort: Number(agentPort),
    conditions: [is(SandboxCondition.admitted), is(SandboxCondition.ready)],
  },
});
const facts = { port: gateway.port, apiKey: gateway.alice, sessionKey: gateway.keys.sessionKey(metadata.uid) };
process.stdout.write(`${JSON.stringify(facts)}\n`);
setInterval(() => process.stdout.write(`${process.memoryUsage().rss}\n`), 1000);
