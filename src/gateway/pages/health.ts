import { z } from 'zod';
import { type Route, endpoints } from '../http/route.ts';

const { getOpen } = endpoints('health');

const statusSchema = z.object({ status: z.enum(['ok', 'unavailable']) });

/** Newest supported version of the API of the agent server. Clients read it as `version`. */
const compatibleVersion = '1.49.1';

const serverInfoSchema = z.object({
  title: z.string(),
  version: z
    .string()
    .describe('The version of the wire format that this service is compatible with.'),
  product_version: z.string(),
  uptime: z.number().describe('Seconds.'),
});

export interface HealthOptions {
  readonly isReady: () => boolean;
  readonly uptimeSeconds: () => number;
  readonly version: string;
}

export const healthRoutes = (health: HealthOptions): readonly Route[] => [
  getOpen('/alive', 'alive', {
    summary: 'Whether the process runs',
    responses: { 200: statusSchema },
    handle: () => ({ json: { status: 'ok' } }),
  }),
  getOpen('/health', 'health', {
    summary: 'Whether the process runs, in the words that agent clients expect',
    responses: { 200: z.literal('OK') },
    handle: () => ({ json: 'OK' }),
  }),
  getOpen('/ready', 'ready', {
    summary:
      'Whether requests should be sent here: not before the caches are filled, nor while shutting down',
    responses: { 200: statusSchema, 503: statusSchema },
    handle: () =>
      health.isReady()
        ? { json: { status: 'ok' } }
        : { status: 503, json: { status: 'unavailable' } },
  }),
  getOpen('/server_info', 'serverInfo', {
    summary: 'What runs here',
    responses: { 200: serverInfoSchema },
    handle: () => ({
      json: {
        title: 'conversation-operator',
        version: compatibleVersion,
        product_version: health.version,
        uptime: health.uptimeSeconds(),
      },
    }),
  }),
];
