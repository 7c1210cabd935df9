import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { EnvHttpProxyAgent, request } from 'undici';

/** The way to hosts outside the cluster, as the processes of the product take it. */
export interface OutwardRequests {
  /** Sends a GET and returns the status. Rejects where no host has answered. */
  status(
    url: URL,
    options: { readonly headers?: Readonly<Record<string, string>>; readonly signal: AbortSignal },
  ): Promise<number>;
  /** Origin of the proxy for a URL; undefined: requests go directly. */
  proxyOf(url: URL): string | undefined;
  close(): Promise<void>;
}

export interface OutwardSettings {
  readonly httpsProxy: string | undefined;
  readonly httpProxy: string | undefined;
  readonly noProxy: string;
  /** PEM file of certificates that count beside the public ones. */
  readonly trustFile: string | undefined;
}

/** Whether NO_PROXY names a host: the host itself, a domain above it, or `*`. */
const isExcepted = (noProxy: string, { hostname }: URL): boolean =>
  noProxy
    .split(/[,\s]+/)
    .map((entry) =>
      entry
        .toLowerCase()
        .replace(/:\d+$/, '')
        .replace(/^\*?\./, ''),
    )
    .some(
      (entry) =>
        entry !== '' && (entry === '*' || entry === hostname || hostname.endsWith(`.${entry}`)),
    );

export function createOutwardRequests(settings: OutwardSettings): OutwardRequests {
  const { httpsProxy, httpProxy, noProxy, trustFile } = settings;
  const trust =
    trustFile === undefined ? {} : { ca: [...rootCertificates, readFileSync(trustFile, 'utf8')] };
  const dispatcher = new EnvHttpProxyAgent({
    // An empty text is no proxy: the environment of this process does not count.
    httpProxy: httpProxy ?? '',
    httpsProxy: httpsProxy ?? '',
    noProxy,
    connect: { timeout: 10_000, ...trust },
    requestTls: trust,
    proxyTls: trust,
    allowH2: false,
  });
  return {
    status: async (url, { headers = {}, signal }) => {
      const response = await request(url, {
        dispatcher,
        method: 'GET',
        headers: { 'user-agent': 'conversation-operator', ...headers },
        signal,
      });
      await response.body.dump({ limit: 16_384 });
      return response.statusCode;
    },
    proxyOf: (url) => {
      const proxy = url.protocol === 'https:' ? (httpsProxy ?? httpProxy) : httpProxy;
      return proxy === undefined || isExcepted(noProxy, url) ? undefined : new URL(proxy).origin;
    },
    close: () => dispatcher.destroy(),
  };
}

/** Meaning of a request that no host has answered. */
export type ConnectFailure =
  | { readonly kind: 'certificate' | 'name' | 'proxy'; readonly detail: string }
  | { readonly kind: 'unreachable'; readonly detail: string };

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
  const certificate = codes.find((code) => certificateCodes.test(code));
  if (certificate !== undefined) return { kind: 'certificate', detail: certificate };
  const status = [...chainOf(error)]
    .map((each) =>
      each instanceof Error ? /^Proxy response \((\d{3})\)/.exec(each.message)?.[1] : undefined,
    )
    .find((each) => each !== undefined);
  if (status !== undefined) return { kind: 'proxy', detail: `status ${status}` };
  const name = codes.find((code) => nameCodes.has(code));
  if (name !== undefined) return { kind: 'name', detail: name };
  return { kind: 'unreachable', detail: codes.at(-1) ?? 'no answer' };
}
