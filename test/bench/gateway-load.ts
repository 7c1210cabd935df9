import { percentile, report, type Figure } from './figure.ts';
import type { GatewayProcess } from './gateway-process.ts';
import { load } from './http-load.ts';

export const connections = 50;
const durationMs = 6000;
const warmUpMs = 2000;

export interface Part {
  readonly what: string;
  readonly request: string | ((turn: number) => string);
  readonly atLeast: number;
  readonly p99AtMostMs?: number;
}

/** The speed of the simplest process that does the same, on this machine at this moment. */
export async function measureBare(what: string, port: number, request: string): Promise<number> {
  await load({ port, request, connections, durationMs: warmUpMs });
  const { requestsPerSecond } = await load({ port, request, connections, durationMs });
  report({ what, value: requestsPerSecond, unit: 'req/s' });
  return requestsPerSecond;
}

/**
 * One kind of request, again and again over 50 connections. Where others use the machine too, what
 * it does with a second of processor says more than what it does in a second.
 */
export async function measurePart(
  gateway: GatewayProcess,
  { what, request, atLeast, p99AtMostMs }: Part,
  bareRate: number,
): Promise<void> {
  await load({ port: gateway.port, request, connections, durationMs: warmUpMs });
  const processorBefore = gateway.processorSeconds();
  const began = performance.now();
  const { requestsPerSecond, latencies, ownShare } = await load({
    port: gateway.port,
    request,
    connections,
    durationMs,
  });
  const seconds = gateway.processorSeconds() - processorBefore;
  const share = (seconds * 1000) / (performance.now() - began);
  const target = (bound: Figure['target'] | undefined) =>
    bound === undefined ? {} : { target: bound };
  report({ what, value: requestsPerSecond, unit: 'req/s', target: { atLeast } });
  report({
    what: `${what}, p99`,
    value: percentile(latencies, 0.99),
    unit: 'ms',
    ...target(p99AtMostMs === undefined ? undefined : { atMost: p99AtMostMs }),
  });
  report({
    what: `${what}, for each second of its processor`,
    value: requestsPerSecond / share,
    unit: 'req',
  });
  report({
    what: `${what}, beside the bare one`,
    value: (requestsPerSecond * 100) / bareRate,
    unit: '%',
  });
  report({ what: `${what}, processor: gateway`, value: share * 100, unit: '% of one' });
  report({ what: `${what}, processor: load tool`, value: ownShare * 100, unit: '% of one' });
}
