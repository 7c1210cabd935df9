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
  /** Header names are in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** Sender of an answer. A proxy forwards answers of http hosts, and sends answers of its own. */
type Sender = 'host' | 'proxy' | 'unknown';

/**
 * Whether headers show that the proxy itself has sent the answer: those of Squid, of RFC 9209 (an
 * error kept the proxy from the host's answer) and of RFC 9110 (the proxy needs credentials).
 */
const isMarked = ({ headers }: ProxiedAnswer): boolean =>
  headers['x-squid-error'] !== undefined ||
  headers['proxy-authenticate'] !== undefined ||
  /;\s*error\s*=/i.test([headers['proxy-status'] ?? []].flat().join());

/** A proxy answers 403 for a forbidden host, and 5xx for a host that it can not reach. */
const mayBeOfProxy = ({ status }: ProxiedAnswer): boolean => status === 403 || status >= 500;

/** `Via` (RFC 9110, 7.6.3) marks forwarded answers, but its absence proves nothing. */
export function senderOf(answer: ProxiedAnswer): Sender {
  if (answer.status >= 400 && isMarked(answer)) return 'proxy';
  if (!mayBeOfProxy(answer) || answer.headers['via'] !== undefined) return 'host';
  return 'unknown';
}

export interface OutwardAnswer {
  readonly status: number;
  /** `unknown`: the status may be that of the proxy. */
  readonly sender: Exclude<Sender, 'proxy'>;
}

/** Requests to hosts outside the cluster, with the same proxies and CAs as the gateway. */
export interface OutwardRequests {
  /** Sends a GET request. Rejects if the host does not answer, or the proxy answers instead. */
  ask(
    url: URL,
    options: { readonly headers?: Readonly<Record<string, string>>; readonly signal: AbortSignal },
  ): Promise<OutwardAnswer>;
  /** Origin of the proxy for a URL; undefined if requests go directly to the host. */
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
      // With https the answer is the host's: a proxy that refuses the tunnel causes an error.
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

/** The error and its causes, the outermost first. */
function* chainOf(error: unknown): Generator {
  for (let each = error; each !== undefined && each !== null;) {
    yield each;
    each = each instanceof Error ? each.cause : undefined;
  }
}

/** Classifies an error of a request. The detail contains neither credentials nor bodies. */
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
