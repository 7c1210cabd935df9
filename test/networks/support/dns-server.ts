import { createSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { get } from 'node:https';
import { createServer, isIPv4, isIPv6 } from 'node:net';

/**
 * The DNS of a cluster: the Services that it sees, and names that are given. One file without
 * imports of the project, because it runs in a pod from a ConfigMap.
 *
 * usage: node dns-server.ts PORT [NAME=ADDRESS]...
 */
const [port = '', ...pairs] = process.argv.slice(2);
const refreshMs = 1000;
/** A request whose answer is lost must not end the refreshes. */
const requestMs = 3000;
const recordTypes = { a: 1, aaaa: 28 } as const;
const noSuchName = 3;

const given = new Map<string, readonly string[]>();
for (const pair of pairs) {
  const [name = '', address = ''] = pair.split('=');
  given.set(name, [...(given.get(name) ?? []), address]);
}

interface Service {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly clusterIP?: string; readonly clusterIPs?: readonly string[] };
}

interface EndpointSlice {
  readonly metadata: {
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly endpoints?:
    | readonly {
        readonly addresses: readonly string[];
        readonly conditions?: { readonly ready?: boolean };
      }[]
    | null;
}

const account = '/var/run/secrets/kubernetes.io/serviceaccount';
const host = process.env['KUBERNETES_SERVICE_HOST'] ?? '';
const base = `https://${isIPv6(host) ? `[${host}]` : host}:${process.env['KUBERNETES_SERVICE_PORT'] ?? ''}`;

async function list<T>(path: string): Promise<readonly T[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = { authorization: `Bearer ${readFileSync(`${account}/token`, 'utf8')}` };
  const options = {
    ca: readFileSync(`${account}/ca.crt`),
    headers,
    signal: AbortSignal.timeout(requestMs),
  };
  get(`${base}${path}`, options, (response) => {
    response.setEncoding('utf8');
    let text = '';
    response
      .on('data', (chunk: string) => (text += chunk))
      .on('end', () => resolve(text))
      .on('error', reject);
  }).on('error', reject);
  return (JSON.parse(await promise) as { readonly items: readonly T[] }).items;
}

let known: ReadonlyMap<string, readonly string[]> = new Map();

async function refresh(): Promise<void> {
  const [services, slices] = await Promise.all([
    list<Service>('/api/v1/services'),
    list<EndpointSlice>('/apis/discovery.k8s.io/v1/endpointslices'),
  ]);
  known = new Map(
    services.map(({ metadata: { name, namespace }, spec }) => {
      const ready = slices
        .filter(
          ({ metadata }) =>
            metadata.namespace === namespace &&
            metadata.labels?.['kubernetes.io/service-name'] === name,
        )
        .flatMap(({ endpoints }) => endpoints ?? [])
        .filter(({ conditions }) => conditions?.ready !== false)
        .flatMap(({ addresses }) => addresses);
      return [
        `${name}.${namespace}.svc.cluster.local`,
        spec.clusterIP === 'None' ? ready : (spec.clusterIPs ?? []),
      ];
    }),
  );
}

async function follow(): Promise<void> {
  for (;;) {
    await refresh().catch((error: unknown) => console.error(error));
    await new Promise((resolve) => setTimeout(resolve, refreshMs));
  }
}

function bytesOf(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const [head = [], tail = []] = address
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return Buffer.from(
    [...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join(''),
    'hex',
  );
}

function recordOf(type: number, address: string): Buffer {
  const data = bytesOf(address);
  const head = Buffer.alloc(12);
  // The name of the question.
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt32BE(5, 6);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

function answer(query: Buffer): Buffer {
  let at = 12;
  const labels: string[] = [];
  while (query.readUInt8(at) !== 0) {
    const length = query.readUInt8(at);
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  const name = labels.join('.').toLowerCase();
  const type = query.readUInt16BE(at + 1);
  const addresses = given.get(name) ?? known.get(name);
  const records = (addresses ?? [])
    .filter(
      (address) =>
        (type === recordTypes.a && isIPv4(address)) ||
        (type === recordTypes.aaaa && isIPv6(address)),
    )
    .map((address) => recordOf(type, address));
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(0x8580 | (addresses === undefined ? noSuchName : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(12, at + 5), ...records]);
}

const udp = createSocket({ type: 'udp6', ipv6Only: false });
udp.on('message', (query, from) => udp.send(answer(query), from.port, from.address));
udp.bind(Number(port), '::');
const tcp = createServer((socket) => {
  socket.on('error', () => socket.destroy());
  // Resolvers send a question in one piece.
  socket.on('data', (data) => {
    const text = answer(data.subarray(2));
    const length = Buffer.alloc(2);
    length.writeUInt16BE(text.length);
    socket.write(Buffer.concat([length, text]));
  });
});
tcp.listen(Number(port), '::');
await follow();
