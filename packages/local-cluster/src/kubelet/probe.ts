import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { Container } from '@conversation-operator/kube/core';

export type Probe = NonNullable<Container['readinessProbe']>;

export interface ProbeOutcome {
  readonly ok: boolean;
  readonly detail: string;
}

export interface ProbeTarget {
  readonly container: Container;
  readonly podIP: string;
  /** Runs a command in the container; never rejects. */
  readonly exec: (command: readonly string[], timeoutMs: number) => Promise<ProbeOutcome>;
}

/**
 * Returns the number of a port that is given by number or by its name in the spec of the container.
 */
export function portOf(port: unknown, container: Container): number | undefined {
  const text = String(port);
  if (/^\d+$/.test(text)) return Number(text);
  return container.ports?.find(({ name }) => name === text)?.containerPort;
}

/** Returns the reason why a probe is not supported; undefined for a supported probe. */
export function probeError(probe: Probe | undefined, container: Container): string | undefined {
  if (probe === undefined || probe.exec !== undefined) return undefined;
  const { httpGet, tcpSocket } = probe;
  if (httpGet === undefined && tcpSocket === undefined)
    return 'only httpGet, tcpSocket and exec probes are supported';
  const port = (httpGet ?? tcpSocket)?.port;
  return portOf(port, container) === undefined
    ? `a probe names the port ${String(port)}, which the container does not have`
    : undefined;
}

/**
 * Runs one check like a kubelet: status 200 to 399, an accepted connection, or exit code 0 is a
 * success. Never rejects.
 */
export function runProbe(probe: Probe, target: ProbeTarget): Promise<ProbeOutcome> {
  const timeoutMs = (probe.timeoutSeconds ?? 1) * 1000;
  if (probe.exec !== undefined) return target.exec(probe.exec.command ?? [], timeoutMs);
  if (probe.httpGet !== undefined) return checkHttp(probe.httpGet, target, timeoutMs);
  if (probe.tcpSocket !== undefined) {
    return checkTcp(
      probe.tcpSocket.host ?? target.podIP,
      portOf(probe.tcpSocket.port, target.container) ?? 0,
      timeoutMs,
    );
  }
  return Promise.resolve({ ok: false, detail: 'not supported' });
}

function checkHttp(
  httpGet: NonNullable<Probe['httpGet']>,
  { container, podIP }: ProbeTarget,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  const { host, path = '/', port, scheme, httpHeaders = [] } = httpGet;
  const options = {
    host: host ?? podIP,
    port: portOf(port, container) ?? 0,
    path,
    // Each check opens a connection, because a persistent connection could belong to the previous
    // process.
    agent: false,
    rejectUnauthorized: false,
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      'User-Agent': 'kube-probe/1.34',
      Accept: '*/*',
      ...Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value])),
    },
  };
  return new Promise((resolve) => {
    try {
      const call = scheme === 'HTTPS' ? httpsRequest(options) : httpRequest(options);
      call.once('error', (error) => resolve({ ok: false, detail: error.message }));
      call.once('response', (response) => {
        const { statusCode = 0 } = response;
        response.destroy();
        resolve({
          ok: statusCode >= 200 && statusCode < 400,
          detail: `HTTP probe failed with statuscode: ${statusCode}`,
        });
      });
      call.end();
    } catch (error) {
      // HTTP does not permit the path or a header.
      resolve({ ok: false, detail: error instanceof Error ? error.message : String(error) });
    }
  });
}

function checkTcp(host: string, port: number, timeoutMs: number): Promise<ProbeOutcome> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    const end = (outcome: ProbeOutcome) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.once('connect', () => end({ ok: true, detail: '' }));
    socket.once('timeout', () =>
      end({ ok: false, detail: `dial tcp ${host}:${port}: i/o timeout` }),
    );
    socket.once('error', (error) => end({ ok: false, detail: error.message }));
  });
}
