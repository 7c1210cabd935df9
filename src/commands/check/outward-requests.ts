import { systemCodeOf } from '@conversation-operator/base/system-code';
import type { Outward } from '@conversation-operator/outward/outward';
import { proxyOf, type Proxies } from '@conversation-operator/outward/proxies';
import {
  proxyErrorIn,
  refusalOf,
  type ProxyErrorCode,
} from '@conversation-operator/outward/proxy-error';
import { request } from 'undici';

interface ProxiedAnswer {
  readonly status: number;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** Sender of an answer: a proxy for http forwards answers of hosts, and also answers itself. */
type Sender = 'host' | 'proxy' | 'unknown';

/**
 * Headers of answers that a proxy gives by itself: those of Squid, of RFC 9209 (an error that keeps
 * the proxy from the answer of the host) and of RFC 9110 (credentials for the proxy).
 */
const isMarked = ({ headers }: ProxiedAnswer): boolean =>
  headers['x-squid-error'] !== undefined ||
  headers['proxy-authenticate'] !== undefined ||
  /;\s*error\s*=/i.test([headers['proxy-status'] ?? []].flat().join());

/** Statuses of proxies that forbid a host (403), or do not reach the host (5xx). */
const mayBeOfProxy = ({ status }: ProxiedAnswer): boolean => status === 403 || status >= 500;

/** A forwarding proxy adds `Via` (RFC 9110, 7.6.3), but many do not: its absence proves nothing. */
export function senderOf(answer: ProxiedAnswer): Sender {
  if (answer.status >= 400 && isMarked(answer)) return 'proxy';
  if (!mayBeOfProxy(answer) || answer.headers['via'] !== undefined) return 'host';
  return 'unknown';
}

export interface OutwardAnswer {
  readonly status: number;
  /** `unknown`: the status may be of the proxy, and not of the host. */
  readonly sender: Exclude<Sender, 'proxy'>;
}

/** The way to hosts outside the cluster, as the processes of the product take it. */
export interface OutwardRequests {
  /** Sends a GET. Rejects where no host has answered, also where the proxy answered instead. */
  ask(
    url: URL,
    options: { readonly headers?: Readonly<Record<string, string>>; readonly signal: AbortSignal },
  ): Promise<OutwardAnswer>;
  /** Origin of the proxy for a URL; undefined: requests go directly. */
  proxyOf(url: URL): string | undefined;
  close(): Promise<void>;
}

export interface OutwardRequestsOptions {
  readonly outward: Outward;
  readonly proxies: Proxies;
}

const pool = { connections: 16, connectTimeoutMs: 10_000 } as const;

export function createOutwardRequests({
  outward,
  proxies,
}: OutwardRequestsOptions): OutwardRequests {
  const dispatcher = outward.pool(pool);
  return {
    ask: async (url, { headers = {}, signal }) => {
      const response = await request(url, {
        dispatcher,
        method: 'GET',
        headers: { 'user-agent': 'conversation-operator', ...headers },
        signal,
      });
      await response.body.dump({ limit: 16_384 });
      const { statusCode: status } = response;
      // A proxy sees nothing of https but the tunnel, whose refusal is an error of the request.
      if (url.protocol === 'https:' || proxyOf(proxies, url) === undefined)
        return { status, sender: 'host' };
      const sender = senderOf({ status, headers: response.headers });
      if (sender === 'proxy') throw refusalOf(status);
      return { status, sender };
    },
    proxyOf: (url) => proxyOf(proxies, url)?.origin,
    close: () => dispatcher.destroy(),
  };
}

export type ConnectFailure =
  | { readonly kind: 'certificate'; readonly detail: string; readonly of: 'host' | 'proxy' }
  | {
      readonly kind: 'proxy';
      readonly detail: ProxyErrorCode;
      /** A sentence without its full stop. */
      readonly message: string;
    }
  | { readonly kind: 'name' | 'unreachable'; readonly detail: string };

const certificateCodes =
  /CERT|SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET_ISSUER)|^ERR_TLS_CERT_ALTNAME_INVALID$/;
const nameCodes: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_NODATA']);

/** Every error of a chain of causes, the outermost first. */
function* chainOf(error: unknown): Generator {
  for (let each = error; each !== undefined && each !== null;) {
    yield each;
    each = each instanceof Error ? each.cause : undefined;
  }
}

/** The meaning of an error of a request. The detail has neither credentials nor bodies. */
export function connectFailureOf(error: unknown): ConnectFailure {
  const codes = [...chainOf(error)].flatMap((each) => systemCodeOf(each) ?? []);
  const proxyError = proxyErrorIn(error);
  const certificate = codes.find((code) => certificateCodes.test(code));
  if (certificate !== undefined)
    return {
      kind: 'certificate',
      detail: certificate,
      of: proxyError === undefined ? 'host' : 'proxy',
    };
  if (proxyError !== undefined)
    return { kind: 'proxy', detail: proxyError.code, message: proxyError.message };
  const name = codes.find((code) => nameCodes.has(code));
  if (name !== undefined) return { kind: 'name', detail: name };
  return { kind: 'unreachable', detail: codes.at(-1) ?? 'no answer' };
}
