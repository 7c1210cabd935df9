import {
  noProxyOf,
  proxyServerOf,
  withScheme,
  type Proxies,
} from '@conversation-operator/outward/proxies';
import { z } from 'zod';

const proxyUrl = z
  .string()
  .refine(
    (text) => proxyServerOf(text) !== undefined,
    'must be the http or https URL of a proxy like http://proxy.example.com:3128, with a user and a password if the proxy wants them, and without a path',
  )
  .transform(withScheme)
  .optional();

const noProxy = z
  .string()
  .refine(
    (text) => noProxyOf(text) !== undefined,
    'must be names, addresses and ranges like example.com, 192.0.2.1 and 10.0.0.0/8, separated by commas',
  )
  .optional();

/**
 * How a process reaches hosts outside the cluster: git hosts, their APIs and the store of the
 * archive. The API server and sandboxes are always called directly. A variable in lower case takes
 * precedence over the same variable in upper case, as with curl.
 */
export const outwardSettings = {
  /** Proxy for https URLs, which tunnels TLS. Default: none. */
  HTTPS_PROXY: proxyUrl,
  https_proxy: proxyUrl,
  /** Proxy for http URLs. Default: none. */
  HTTP_PROXY: proxyUrl,
  http_proxy: proxyUrl,
  NO_PROXY: noProxy,
  no_proxy: noProxy,
  /** A PEM file with certificates of private authorities, trusted in addition to those of Node. */
  TRUST_FILE: z.string().optional(),
};

export type OutwardConfig = Readonly<z.output<z.ZodObject<typeof outwardSettings>>>;

export const proxyUrlsOf = ({
  https_proxy,
  HTTPS_PROXY,
  http_proxy,
  HTTP_PROXY,
}: OutwardConfig) => ({ https: https_proxy ?? HTTPS_PROXY, http: http_proxy ?? HTTP_PROXY });

/** Returns the value of no_proxy or NO_PROXY; empty if neither is set. */
export const noProxyTextOf = ({ no_proxy, NO_PROXY }: OutwardConfig): string =>
  no_proxy ?? NO_PROXY ?? '';

export const noProxyListOf = (config: OutwardConfig): readonly string[] =>
  noProxyTextOf(config)
    .split(/[,\s]+/)
    .filter((entry) => entry !== '');

export function proxiesOf(config: OutwardConfig): Proxies {
  const { https = '', http = '' } = proxyUrlsOf(config);
  return {
    https: proxyServerOf(https),
    http: proxyServerOf(http),
    noProxy: noProxyOf(noProxyTextOf(config)) ?? (() => false),
  };
}
