import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { getCACertificates } from 'node:tls';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import { certificatesOf } from '@conversation-operator/outward/trust-file';
import { noProxyListOf, proxyUrlsOf, type OutwardConfig } from '../config/outward.ts';
import type { DataFolder } from './data-folder.ts';

type Environment = Readonly<Record<string, string>>;

/** This machine, where agents reach each other and the callback server. */
const inside = ['localhost', '127.0.0.1', '127.0.0.0/8', '::1'];

/**
 * Environment by which the agents of this machine, and the programs that they start, reach hosts
 * outside as this process does. Programs differ in the spelling that they read.
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
    ...{ NO_PROXY: noProxy, no_proxy: noProxy },
    // Without this Node reads none of them.
    NODE_USE_ENV_PROXY: '1',
  };
}

/**
 * The variables name one file with the authorities of Node, of the system and of TRUST_FILE: git,
 * curl and Python read no others then. Agents that run see a change with their next start.
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

/** The programs with more variables; their own take precedence. */
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
