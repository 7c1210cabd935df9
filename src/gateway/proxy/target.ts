import { isIP, isIPv6 } from 'node:net';
import { isReservedAddress } from '@conversation-operator/http/client/reserved-address';
import type { Target } from '@conversation-operator/http/proxy/upstream';
import { defaultAgentPort } from '../../agent/endpoint.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { PortName } from './address.ts';

const ports = {
  AGENT_SERVER: (sandbox: Sandbox) => sandbox.status?.agentPort ?? defaultAgentPort,
} as const satisfies Readonly<Record<PortName, (sandbox: Sandbox) => number>>;

/**
 * The address of a sandbox's agent, from the Sandbox resource only. Undefined unless the sandbox is
 * RUNNING in a pod with an address.
 */
export function targetOf(sandbox: Sandbox, portName: PortName): Target | undefined {
  const host = sandbox.status?.podIP;
  if (host === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
  if (isIP(host) === 0 || isReservedAddress(host)) return undefined;
  const port = ports[portName](sandbox);
  return { host, port, authority: `${isIPv6(host) ? `[${host}]` : host}:${port}` };
}
