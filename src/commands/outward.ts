import { createOutward, type Outward } from '@conversation-operator/outward/outward';
import { TrustFile, certificatesOf } from '@conversation-operator/outward/trust-file';
import {
  noProxyTextOf,
  proxiesOf,
  type OutwardConfig,
  noProxyListOf,
  proxyUrlsOf,
} from '../config/outward.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import { CommandError } from './terminal.ts';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { getCACertificates } from 'node:tls';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import type { DataFolder } from './data-folder.ts';

export interface OutwardRuntime extends MeasuredRuntime {
  readonly outward: Outward;
}

/**
 * Adds the proxies and CAs of the settings to the runtime, for calls to hosts outside the cluster.
 * Logs these in one line without credentials. Throws a `CommandError` for an unusable TRUST_FILE.
 */
export function withOutward(config: OutwardConfig, runtime: MeasuredRuntime): OutwardRuntime {
  const { clock, logger } = runtime;
  const proxies = proxiesOf(config);
  const file = trustFileOf(config, { clock, logger });
  logger.info('hosts outside the cluster are called', {
    httpsProxy: proxies.https?.origin ?? 'none',
    httpProxy: proxies.http?.origin ?? 'none',
    noProxy: noProxyTextOf(config),
    trustedCertificates: file?.size ?? 0,
  });
  const trust = file ?? { current: () => undefined };
  return { ...runtime, outward: createOutward({ proxies, trust }) };
}

function trustFileOf(
  { TRUST_FILE: path }: OutwardConfig,
  runtime: Pick<MeasuredRuntime, 'clock' | 'logger'>,
): TrustFile | undefined {
  if (path === undefined) return undefined;
  try {
    return new TrustFile({ path, ...runtime });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      `TRUST_FILE must be a file with certificates as PEM: ${path}: ${reason}`,
      { cause: error },
    );
  }
}

type Environment = Readonly<Record<string, string>>;

/** Addresses of this machine. Agents call each other and the gateway without a proxy. */
const inside = ['localhost', '127.0.0.1', '127.0.0.0/8', '::1'];

/**
 * Environment for agents on this machine and for the programs that they start: the proxies and CAs
 * of this process. Some programs read variables in lower case, and some in upper case.
 */
export const outwardEnvironment = (config: OutwardConfig, folder: DataFolder): Environment => ({
  ...proxyEnvironment(config),
  ...trustEnvironment(config, folder),
});

function proxyEnvironment(config: OutwardConfig): Environment {
  const { https, http } = proxyUrlsOf(config);
  if (https === undefined && http === undefined) return {};
  const noProxy = [...new Set([...noProxyListOf(config), ...inside])].join(',');
  return {
    ...(https !== undefined && { HTTPS_PROXY: https, https_proxy: https }),
    ...(http !== undefined && { HTTP_PROXY: http, http_proxy: http }),
    NO_PROXY: noProxy,
    no_proxy: noProxy,
    // Node uses the variables for proxies only if this variable is set.
    NODE_USE_ENV_PROXY: '1',
  };
}

/**
 * Names one file with the CAs of Node, of the operating system and of TRUST_FILE, because git, curl
 * and Python read only the named file. Running agents need a restart after a change of TRUST_FILE.
 */
function trustEnvironment({ TRUST_FILE: path }: OutwardConfig, folder: DataFolder): Environment {
  if (path === undefined) return {};
  const name = 'trusted-certificates.pem';
  const own = certificatesOf(readFileSync(path, 'utf8'));
  const all = new Set([
    ...[...getCACertificates('default'), ...getCACertificates('system'), ...own].map((one) =>
      one.trim(),
    ),
  ]);
  folder.write(name, [...all].join('\n'));
  const bundle = folder.file(name);
  return {
    TRUST_FILE: resolve(path),
    NODE_EXTRA_CA_CERTS: bundle,
    SSL_CERT_FILE: bundle,
    CURL_CA_BUNDLE: bundle,
    REQUESTS_CA_BUNDLE: bundle,
    GIT_SSL_CAINFO: bundle,
  };
}

/** Adds variables to the environments of programs. A program's own variables take precedence. */
export const withEnvironment = (
  images: Readonly<Record<string, ImageProgram>>,
  env: Environment,
): Readonly<Record<string, ImageProgram>> =>
  Object.fromEntries(
    Object.entries(images).map(([name, program]) => [
      name,
      { ...program, env: { ...env, ...program.env } },
    ]),
  );
