import { z, type core } from 'zod';
import { httpUrl, listOf } from './environment.ts';

/** Every command of an agent can read its environment, and so could read a password. */
const proxyUrl = httpUrl.refine((url) => !url.includes('@'), {
  error: 'must be a URL without a user and a password, which every command of an agent could read',
});

const objectName = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/,
    'must be the name of an object: lower-case letters, digits, dots and hyphens',
  );

/** How sandboxes reach what is outside of the cluster, where their templates do not say. */
export const sandboxOutward = {
  /** Proxy of sandboxes for https. Default: none. */
  SANDBOX_HTTPS_PROXY: proxyUrl.optional(),
  /** Proxy of sandboxes for http. Default: none. */
  SANDBOX_HTTP_PROXY: proxyUrl.optional(),
  /** Hosts that sandboxes reach without the proxy, beside themselves and the gateway. */
  SANDBOX_NO_PROXY: listOf(
    (host) => !/\s/.test(host),
    'must be hosts, domains, addresses and ranges, separated by commas',
  ),
  /**
   * A ConfigMap in the namespace of each sandbox with certificates that its programs trust beside
   * those of the image. Not with SANDBOX_TRUST_SECRET.
   */
  SANDBOX_TRUST_CONFIG_MAP: objectName.optional(),
  /** A Secret for the same purpose. */
  SANDBOX_TRUST_SECRET: objectName.optional(),
  /** The entry with the certificates in the PEM format. */
  SANDBOX_TRUST_KEY: z
    .string()
    .regex(
      /^(?!\.$|\.\.)[\w.-]{1,253}$/,
      'must be the name of an entry: letters, digits, dots, hyphens and underscores, and not begin with two dots',
    )
    .default('ca.crt'),
};

type Settings = z.output<z.ZodObject<typeof sandboxOutward>>;

export function checkSandboxTrust(
  { SANDBOX_TRUST_CONFIG_MAP, SANDBOX_TRUST_SECRET }: Settings,
  context: core.$RefinementCtx,
): void {
  if (SANDBOX_TRUST_CONFIG_MAP === undefined || SANDBOX_TRUST_SECRET === undefined) return;
  context.addIssue({
    code: 'custom',
    path: ['SANDBOX_TRUST_SECRET'],
    message: "can't be combined with SANDBOX_TRUST_CONFIG_MAP",
  });
}

/** The settings as the operator takes them. */
export function sandboxOutwardOf({
  SANDBOX_HTTPS_PROXY: https,
  SANDBOX_HTTP_PROXY: http,
  SANDBOX_NO_PROXY: noProxy,
  SANDBOX_TRUST_CONFIG_MAP: configMap,
  SANDBOX_TRUST_SECRET: secret = configMap,
  SANDBOX_TRUST_KEY: key,
}: Settings) {
  const kind: 'ConfigMap' | 'Secret' = configMap === undefined ? 'Secret' : 'ConfigMap';
  return {
    ...(https === undefined && http === undefined ? {} : { proxy: { https, http, noProxy } }),
    ...(secret === undefined ? {} : { trust: { kind, name: secret, key } }),
  };
}
