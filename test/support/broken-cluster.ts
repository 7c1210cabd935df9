import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { checkLabel } from '../../src/commands/check/temporary-objects.ts';

type Json = Record<string, unknown>;
interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: Json;
}
interface Answer {
  readonly status: number;
  readonly body: Json;
}

/** Changes of a healthy cluster. */
export interface Fault {
  /** Answers instead of the cluster; undefined: the cluster answers. */
  readonly answer?: (call: Call) => Answer | undefined;
  /** Difference of the clock of the API server in milliseconds. */
  readonly clockMs?: number;
  /** Status of a pod of the check, by its first command line; undefined: as if it works. */
  readonly podStatus?: (commandLine: string) => Json | undefined;
}

const listOf = (kind: string, items: readonly Json[]): Answer => ({
  status: 200,
  body: { apiVersion: 'v1', kind: `${kind}List`, metadata: { resourceVersion: '1' }, items },
});
const metadata = (name: string, more: Json = {}): Json => ({
  name,
  uid: `uid-${name}`,
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
  ...more,
});

/** Refusal of a request, in the form of an API server. */
export const refusal = (status: number, reason: string, message: string): Answer => ({
  status,
  body: { apiVersion: 'v1', kind: 'Status', status: 'Failure', code: status, reason, message },
});

export const aStorageClass = (name: string, isDefault: boolean): Json => ({
  metadata: metadata(name, {
    annotations: { 'storageclass.kubernetes.io/is-default-class': String(isDefault) },
  }),
  provisioner: 'ebs.csi.aws.com',
});

/** Parts of Kubernetes that the embedded control plane does not have, as in a healthy cluster. */
function healthy({ method, path, body }: Call): Answer | undefined {
  if (method === 'POST' && path.endsWith('subjectaccessreviews'))
    return { status: 201, body: { ...body, status: { allowed: true } } };
  if (path.endsWith('/storageclasses'))
    return listOf('StorageClass', [aStorageClass('standard', true)]);
  if (path.endsWith('/runtimeclasses')) return listOf('RuntimeClass', []);
  if (path.endsWith('/resourcequotas')) return listOf('ResourceQuota', []);
  if (path.endsWith('/limitranges')) return listOf('LimitRange', []);
  if (path.endsWith('/networkpolicies'))
    return method === 'POST'
      ? { status: 201, body: { ...body, metadata: metadata('check-policy') } }
      : listOf('NetworkPolicy', []);
  if (path === '/api/v1/nodes')
    return listOf('Node', [
      { metadata: metadata('node-1'), status: { nodeInfo: { architecture: 'amd64' } } },
    ]);
  return undefined;
}

/** Whether the first program of a pod prepares the certificates of sandboxes. */
export const isTrust = (commandLine: string): boolean => commandLine.includes('trust-source');

/** The status of the pod whose first program ends so. */
export const trustEnded = (exitCode: number): Json => ({
  phase: exitCode === 0 ? 'Running' : 'Failed',
  initContainerStatuses: [
    {
      name: 'conversation-operator-trust',
      image: 'image',
      imageID: 'sha256:1',
      restartCount: 0,
      state: { terminated: { exitCode } },
    },
  ],
});

/** Whether the program of a pod opens ports, or connects to them. */
export const isListener = (commandLine: string): boolean => commandLine.includes('createServer');
export const isConnector = (commandLine: string): boolean =>
  commandLine.includes('termination-log');

const ended = (message: string): Json => ({
  phase: 'Succeeded',
  containerStatuses: [
    {
      name: 'check',
      image: 'image',
      imageID: 'sha256:1',
      restartCount: 0,
      state: { terminated: { exitCode: 0, message } },
    },
  ],
});

/** The status of the connecting pod, with the outcomes of its two connections. */
export const connections = (allowed: boolean, forbidden: boolean): Json =>
  ended(JSON.stringify({ allowed, forbidden }));

function workingStatus(commandLine: string): Json {
  if (isTrust(commandLine)) return trustEnded(0);
  if (isConnector(commandLine)) return connections(true, false);
  if (!isListener(commandLine)) return ended('');
  const status = { name: 'check', image: 'image', imageID: 'sha256:1', restartCount: 0 };
  return {
    phase: 'Running',
    podIP: '10.0.0.7',
    containerStatuses: [{ ...status, state: { running: {} } }],
  };
}

interface Program {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
}
interface PodBody extends Json {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly spec: {
    readonly initContainers?: readonly Program[];
    readonly containers: readonly Program[];
  };
}

/** The answer with the work of a kubelet and a provisioner. */
function withStatus(path: string, body: Json, { podStatus }: Fault): Json {
  if (/\/pods\/check-[^/]*$/.test(path)) {
    const pod = body as PodBody;
    if (pod.metadata.labels?.[checkLabel] === undefined) return body;
    const { initContainers: [first] = [], containers } = pod.spec;
    const { command = [], args = [] } = first ?? containers[0] ?? {};
    const line = [...command, ...args].join(' ');
    return { ...body, status: podStatus?.(line) ?? workingStatus(line) };
  }
  if (path.endsWith('/persistentvolumeclaims') && Array.isArray(body['items']))
    return {
      ...body,
      items: (body['items'] as Json[]).map((item) => ({ ...item, status: { phase: 'Bound' } })),
    };
  if (/^\/api\/v1\/namespaces\/[^/]+$/.test(path) && body['kind'] === 'Namespace') {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    return { ...body, metadata: { ...(body['metadata'] as Json), labels } };
  }
  return body;
}

export interface BrokenCluster {
  readonly url: string;
  /** Replaces the fault; an empty one makes the cluster healthy. */
  fault: Fault;
  close(): Promise<void>;
}

/** The embedded control plane with the kinds that it lacks, a kubelet's work, and one fault. */
export async function startBrokenCluster(target: string): Promise<BrokenCluster> {
  const state: { fault: Fault } = { fault: {} };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const { pathname: path, searchParams: query } = new URL(incoming.url ?? '/', target);
    const { method = 'GET', headers } = incoming;
    const call = { method, path, query, body: (text === '' ? {} : JSON.parse(text)) as Json };
    const { fault } = state;
    response.setHeader('date', new Date(Date.now() + (fault.clockMs ?? 0)).toUTCString());
    response.setHeader('content-type', 'application/json');
    const own = fault.answer?.(call) ?? healthy(call);
    if (own !== undefined) {
      response.writeHead(own.status).end(JSON.stringify(own.body));
      return;
    }
    const answer = await fetch(new URL(incoming.url ?? '/', target), {
      method,
      headers: {
        authorization: headers.authorization ?? '',
        'content-type': headers['content-type'] ?? 'application/json',
      },
      ...(text === '' ? {} : { body: text }),
    });
    const body = (await answer.json()) as Json;
    response.writeHead(answer.status).end(JSON.stringify(withStatus(path, body, fault)));
  };
  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => response.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  });
}
