import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import { loggerOf } from './process.ts';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const dayMs = 24 * 60 * 60 * 1000;

/** Where lines of the audit go, whatever the level of the other lines. */
export const auditOf = (config: GatewayConfig | UpConfig) =>
  loggerOf({ ...config, LOG_LEVEL: 'info' }).child({ component: 'audit' });

/** Options of a gateway that follow from the settings, on a cluster and locally. */
export const gatewaySettings = (config: GatewayConfig | UpConfig) =>
  ({
    legacyApi: config.LEGACY_API,
    audit: auditOf(config),
    gitHosts: config.GIT_HOSTS,
    corsOrigins: config.CORS_ORIGINS,
    trustedProxies: config.TRUSTED_PROXIES,
    rateLimits: {
      readsPerSecond: config.RATE_LIMIT_READS,
      writesPerSecond: config.RATE_LIMIT_WRITES,
      failedKeysPerMinute: config.RATE_LIMIT_FAILED_KEYS,
    },
    ...(config.API_KEY_MAX_LIFETIME_DAYS === 0
      ? {}
      : { maxKeyLifetimeMs: config.API_KEY_MAX_LIFETIME_DAYS * dayMs }),
    load: { maxUnderWay: config.MAX_REQUESTS, maxDelayMs: config.OVERLOAD_DELAY_MS },
    maxConnections: config.MAX_CONNECTIONS,
    maxConnectionsPerAddress: config.MAX_CONNECTIONS_PER_ADDRESS,
    ...(config.METRICS_URL === undefined ? {} : { metricsUrl: config.METRICS_URL }),
    ...(config.PUBLIC_URL === undefined ? {} : { publicUrl: config.PUBLIC_URL }),
  }) satisfies Partial<GatewayOptions>;

/** A folder of the build: beside the bundled program, or in `dist` of a checkout. */
const builtFolder = (programFolder: string, name: string, file: string): string | undefined =>
  [name, `../dist/${name}`]
    .map((path) => join(programFolder, path))
    .find((path) => existsSync(join(path, file)));

/**
 * Options with the folders of the built pages, and of the official web UI where it is wanted. None
 * where the build has none.
 */
export function webDirectories(
  programFolder: string,
  { UI }: { readonly UI: boolean },
): { readonly webDirectory?: string; readonly uiDirectory?: string } {
  const webDirectory = builtFolder(programFolder, 'web', 'app.js');
  const uiDirectory = UI ? builtFolder(programFolder, 'ui', 'index.html') : undefined;
  return {
    ...(webDirectory === undefined ? {} : { webDirectory }),
    ...(uiDirectory === undefined ? {} : { uiDirectory }),
  };
}
