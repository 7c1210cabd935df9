import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsFront, type TLSSocket } from 'node:tls';
import type { PrivateAuthority } from './private-authority.ts';

export interface OutsideOptions {
  readonly authority: PrivateAuthority;
  /** URLs of plain servers by the names under which they are reached by TLS, at any port. */
  readonly https?: Readonly<Record<string, string>>;
  /** URLs of plain servers by the names under which they are reached by http. */
  readonly http?: Readonly<Record<string, string>>;
  /** `user:password` that the proxy wants. Default: none. */
  readonly user?: string;
  /** Whether the proxy itself is reached by TLS, as proxy.example.test. */
  readonly isSecure?: boolean;
  /** Authority of the certificate of the proxy itself. Default: `authority`. */
  readonly proxyAuthority?: PrivateAuthority;
  /** Address of the proxy. Default: 127.0.0.1. */
  readonly address?: string;
  /** Port of the proxy. Default: any that is free. */
  readonly port?: number;
}

/** A forward proxy, and the hosts that only the proxy can resolve. */
export interface Outside extends AsyncDisposable {
  readonly port: number;
  /** First lines of the requests to the proxy. */
  readonly requests: string[];
  /** Every byte that the proxy has received, from its clients and from hosts, as Latin-1. */
  readonly bytes: () => string;
  /** Status with which the proxy answers instead; 0: it never answers. Default: none. */
  refusal: number | undefined;
}

const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;

/** Starts a server that ends TLS in front of a plain server. */
async function startFront({ cert, key }: PrivateAuthority, upstream: URL, open: Set<Socket>) {
  const server = createTlsFront({ cert, key }, (client: TLSSocket) => {
    const behind = connect(Number(upstream.port), upstream.hostname);
    for (const socket of [client, behind]) {
      open.add(socket);
      socket.on('error', () => client.destroy());
      socket.on('close', () => behind.destroy());
    }
    client.pipe(behind).pipe(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

export async function startOutside(options: OutsideOptions): Promise<Outside> {
  const {
    authority,
    https = {},
    http = {},
    user,
    isSecure = false,
    address = '127.0.0.1',
  } = options;
  const { proxyAuthority = authority } = options;
  const open = new Set<Socket>();
  const fronts = new Map(
    await Promise.all(
      Object.entries(https).map(
        async ([name, url]) => [name, await startFront(authority, new URL(url), open)] as const,
      ),
    ),
  );
  const requests: string[] = [];
  const chunks: string[] = [];
  const record = (chunk: Buffer) => void chunks.push(chunk.toString('latin1'));
  const listener = (): Server =>
    isSecure
      ? createTlsServer({ cert: proxyAuthority.cert, key: proxyAuthority.key })
      : createServer();
  const proxy = listener();
  const wanted = user && `Basic ${Buffer.from(user).toString('base64')}`;
  const outside: Outside = {
    get port() {
      return portOf(proxy);
    },
    requests,
    bytes: () => chunks.join(''),
    refusal: undefined,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      proxy.closeAllConnections();
      for (const server of [proxy, ...fronts.values()]) server.close();
      await Promise.resolve();
    },
  };
  const refusalOf = (authorization: string | undefined): number | undefined =>
    outside.refusal ?? (wanted === undefined || authorization === wanted ? undefined : 407);
  proxy.on(isSecure ? 'secureConnection' : 'connection', (socket: Socket) => {
    open.add(socket);
    socket.on('error', () => undefined);
  });
  proxy.on('request', (request, response) => {
    const { method = '', url: target = '', headers, rawHeaders } = request;
    requests.push(`${method} ${target}`);
    chunks.push(`${method} ${target} ${rawHeaders.join('\n')}`);
    const refused = refusalOf(headers['proxy-authorization']);
    if (refused === 0) return;
    const url = URL.parse(target);
    const upstream = http[url?.hostname ?? ''];
    if (refused !== undefined || url === null || upstream === undefined) {
      response.writeHead(refused ?? 502).end('of the proxy');
      return;
    }
    const { hostname, port } = new URL(upstream);
    const { 'proxy-authorization': _, ...passed } = headers;
    const onward = httpRequest(
      { hostname, port, method, path: `${url.pathname}${url.search}`, headers: passed },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.on('data', record);
        answer.pipe(response);
      },
    );
    onward.on('error', () => response.destroy());
    request.on('data', record);
    request.pipe(onward);
  });
  proxy.on('connect', (request, client: Socket, head: Buffer) => {
    const { url = '', headers, rawHeaders } = request;
    requests.push(`CONNECT ${url}`);
    chunks.push(`CONNECT ${url} ${rawHeaders.join('\n')}`);
    const front = fronts.get(url.replace(/:\d+$/, ''));
    const refused = refusalOf(headers['proxy-authorization']);
    if (refused === 0) return;
    if (refused !== undefined || front === undefined) {
      client.end(
        `HTTP/1.1 ${refused ?? 502} Refused\r\nProxy-Authenticate: Basic realm="proxy"\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno`,
      );
      return;
    }
    const behind = connect(portOf(front), '127.0.0.1');
    open.add(behind);
    behind.on('error', () => client.destroy());
    client.on('close', () => behind.destroy());
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    behind.write(head);
    record(head);
    for (const side of [client, behind]) side.on('data', record);
    client.pipe(behind).pipe(client);
  });
  proxy.listen(options.port ?? 0, address);
  await once(proxy, 'listening');
  return outside;
}
