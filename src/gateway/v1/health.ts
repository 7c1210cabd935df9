import { z } from 'zod';
import { openRoute, type Route } from '../http/route.ts';

const statusSchema = z.object({ status: z.enum(['ok', 'unavailable']) });

/**
 * The newest version of the agent server whose wire format the gateway follows: clients expect this
 * version, not that of the gateway.
 */
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

export const healthRoutes = ({
  isReady,
  uptimeSeconds,
  version,
}: HealthOptions): readonly Route[] => [
  openRoute({
    method: 'get',
    path: '/alive',
    operationId: 'alive',
    tag: 'health',
    summary: 'Whether the process runs',
    responses: { 200: statusSchema },
    handle: () => ({ json: { status: 'ok' } }),
  }),
  openRoute({
    method: 'get',
    path: '/health',
    operationId: 'health',
    tag: 'health',
    summary: 'Whether the process runs, in the words that agent clients expect',
    responses: { 200: z.literal('OK') },
    handle: () => ({ json: 'OK' }),
  }),
  openRoute({
    method: 'get',
    path: '/ready',
    operationId: 'ready',
    tag: 'health',
    summary:
      'Whether requests should be sent here: not before the caches are filled, nor while shutting down',
    responses: { 200: statusSchema, 503: statusSchema },
    handle: () =>
      isReady() ? { json: { status: 'ok' } } : { status: 503, json: { status: 'unavailable' } },
  }),
  openRoute({
    method: 'get',
    path: '/server_info',
    operationId: 'serverInfo',
    tag: 'health',
    summary: 'What runs here',
    responses: { 200: serverInfoSchema },
    handle: () => ({
      json: {
        title: 'conversation-operator',
        version: compatibleVersion,
        product_version: version,
        uptime: uptimeSeconds(),
      },
    }),
  }),
];
