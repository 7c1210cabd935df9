import { createOutward, type Outward } from '@conversation-operator/outward/outward';
import { TrustFile } from '@conversation-operator/outward/trust-file';
import { noProxyTextOf, proxiesOf, type OutwardConfig } from '../config/outward.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import { CommandError } from './command-error.ts';

/** The parts of a process that calls hosts outside the cluster. */
export interface OutwardRuntime extends MeasuredRuntime {
  readonly outward: Outward;
}

/**
 * The runtime with the way to hosts outside the cluster that the settings name, which one line of
 * the log describes without credentials. Throws a `CommandError` where TRUST_FILE can't be used.
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
