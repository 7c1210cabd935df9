import type { Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher } from 'undici';
import { failureOf, refusalOf } from './proxy-error.ts';
import type { ProxyServer } from './proxies.ts';
import type { Trust } from './trust-file.ts';

type Connector = buildConnector.connector;

export interface ConnectorOptions {
  readonly trust: Trust;
  /** Maximum time of each step: the connection, the proxy's response, and the TLS handshake. */
  readonly timeoutMs: number;
}

/** Connects to hosts without a proxy. Resumes no TLS session from before a change of `trust`. */
export function directConnector({ trust, timeoutMs }: ConnectorOptions): Connector {
  const connectorOf = (secureContext: ReturnType<Trust['current']>) =>
    buildConnector({
      timeout: timeoutMs,
      allowH2: false,
      ...(secureContext !== undefined && { secureContext }),
    });
  let context = trust.current();
  let connect = connectorOf(context);
  return (options, callback) => {
    const current = trust.current();
    if (current !== context) {
      context = current;
      connect = connectorOf(context);
    }
    connect(options, callback);
  };
}

/**
 * Connects to the proxy, or fails with a `ProxyError`. Omits `servername`, which undici takes from
 * the Host header, because the certificate of an https proxy has the name of the proxy.
 */
export const proxyConnector = (direct: Connector): Connector => {
  return ({ servername: _, ...options }, callback) =>
    direct(options, (...[error, socket]) =>
      error === null ? callback(null, socket) : callback(failureOf(error), null),
    );
};

export interface TunnelOptions {
  readonly timeoutMs: number;
  readonly proxy: ProxyServer;
  readonly direct: Connector;
}

/**
 * Connects through a CONNECT tunnel, so that only TLS passes the proxy. Undici's ProxyAgent would
 * never reload certificates, would wait 300 s for the proxy, and would report the proxy's status
 * only as text.
 */
export const tunnelConnector = ({ proxy, direct, timeoutMs }: TunnelOptions): Connector => {
  return (options, callback) => {
    const { host = options.hostname, port } = options;
    const authority = port === '' ? `${host}:443` : host;
    openTunnel(authority, { proxy, timeoutMs, direct }).then(
      (httpSocket) => direct({ ...options, httpSocket }, callback),
      (error: unknown) => callback(failureOf(error), null),
    );
  };
};

async function openTunnel(
  authority: string,
  { proxy, direct, timeoutMs }: TunnelOptions,
): Promise<Socket> {
  const client = new Client(proxy.origin, { connect: proxyConnector(direct), allowH2: false });
  try {
    const { statusCode, socket } = await client.connect({
      path: authority,
      headers: { host: authority, ...authorizationOf(proxy) },
      // This call needs its own timeout: undici ignores the request's signal while it connects.
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (statusCode >= 200 && statusCode < 300) return socket as Socket;
    socket.on('error', () => undefined).destroy();
    throw refusalOf(statusCode);
  } catch (error) {
    await client.destroy();
    throw error;
  }
}

export const authorizationOf = ({ authorization }: ProxyServer) =>
  authorization === undefined ? {} : { 'proxy-authorization': authorization };

type Headers = Dispatcher.DispatchOptions['headers'];

/**
 * Sends the requests of an http origin to the proxy with the whole URL in the request line (RFC
 * 9112, 3.2.2). A tunnel could fail, because proxies often permit tunnels only to the https port.
 */
export const absoluteForm =
  (origin: URL, proxy: ProxyServer): Dispatcher.DispatcherComposeInterceptor =>
  (dispatch) =>
  (options, handler) =>
    dispatch(
      {
        ...options,
        origin: proxy.origin,
        path: `${origin.origin}${options.path}`,
        headers: { ...fieldsOf(options.headers), host: origin.host, ...authorizationOf(proxy) },
      },
      refusing(handler),
    );

/** Converts headers from each format that undici accepts. The names become lower-case. */
function fieldsOf(headers: Headers): Readonly<Record<string, string | string[]>> {
  const fields: Record<string, string | string[]> = {};
  const add = (name: string, value: unknown): void => {
    if (value === undefined) return;
    const key = name.toLowerCase();
    const [first = '', ...more] = [fields[key] ?? [], value].flat(2).map(String);
    fields[key] = more.length === 0 ? first : [first, ...more];
  };
  if (Array.isArray(headers))
    for (let at = 0; at < headers.length; at += 2) add(String(headers[at]), headers[at + 1]);
  else if (headers !== null && headers !== undefined)
    for (const [name, value] of Symbol.iterator in headers ? headers : Object.entries(headers))
      add(name, value);
  return fields;
}

/** Turns status 407, which only proxies send, into a `ProxyError`. Passes on everything else. */
const refusing = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => ({
  onRequestStart: (...given) => handler.onRequestStart?.(...given),
  onRequestUpgrade: (...given) => handler.onRequestUpgrade?.(...given),
  onResponseStart: (controller, status, headers, text) => {
    if (status === 407) controller.abort(refusalOf(status));
    else handler.onResponseStart?.(controller, status, headers, text);
  },
  onResponseData: (...given) => handler.onResponseData?.(...given),
  onResponseEnd: (...given) => handler.onResponseEnd?.(...given),
  onResponseError: (...given) => handler.onResponseError?.(...given),
});
