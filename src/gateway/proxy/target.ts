import { BlockList, isIP, isIPv6 } from 'node:net';
import { defaultAgentPort } from '../../agent/endpoint.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { PortName } from './address.ts';

/** The address on which a sandbox's agent listens. */
export interface Target {
  readonly host: string;
  readonly port: number;
  /** Host and port, in the form of a URL and of the header Host. */
  readonly authority: string;
}

/**
 * Addresses that are no pod's: unspecified, link-local and others with the metadata services of
 * clouds, multicast.
 */
const foreign = new BlockList();
foreign.addSubnet('0.0.0.0', 8, 'ipv4');
foreign.addSubnet('169.254.0.0', 16, 'ipv4');
foreign.addSubnet('224.0.0.0', 3, 'ipv4');
foreign.addAddress('::', 'ipv6');
foreign.addSubnet('fe80::', 10, 'ipv6');
foreign.addSubnet('ff00::', 8, 'ipv6');
foreign.addAddress('fd00:ec2::254', 'ipv6');
foreign.addAddress('fd20:ce::254', 'ipv6');

const ports = {
  AGENT_SERVER: (sandbox: Sandbox) => sandbox.status?.agentPort ?? defaultAgentPort,
} as const satisfies Readonly<Record<PortName, (sandbox: Sandbox) => number>>;

/**
 * Reads the address from the Sandbox resource only. Undefined unless the sandbox is RUNNING in a
 * pod with an address.
 */
export function targetOf(sandbox: Sandbox, portName: PortName): Target | undefined {
  const host = sandbox.status?.podIP;
  if (host === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
  if (isIP(host) === 0 || foreign.check(host, isIPv6(host) ? 'ipv6' : 'ipv4')) return undefined;
  const port = ports[portName](sandbox);
  return { host, port, authority: `${isIPv6(host) ? `[${host}]` : host}:${port}` };
}
