import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';

/** What a gateway is told by the settings, wherever it runs. */
export const gatewaySettings = (config: GatewayConfig | UpConfig) =>
  ({
    legacyApi: config.LEGACY_API,
    corsOrigins: config.CORS_ORIGINS,
    ...(config.PUBLIC_URL === undefined ? {} : { publicUrl: config.PUBLIC_URL }),
  }) satisfies Partial<GatewayOptions>;
