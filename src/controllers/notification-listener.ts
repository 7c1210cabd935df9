import { jsonOf, readBody } from '@conversation-operator/http/body/json-body';
import { Refusal } from '@conversation-operator/http/refusal';
import { listenOn } from '@conversation-operator/http/server/listen';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  notificationsPath,
  notificationsSchema,
  maxNotificationsBytes,
  type AgentNotification,
} from '../agent/notifications.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import type { Logger } from '@conversation-operator/base/logger';

export interface NotificationListenerOptions {
  readonly host: string;
  /** Port; 0: any free port. */
  readonly port: number;
  readonly keys: Pick<SandboxKeys, 'acceptsNotificationKey'>;
  /** Takes a notification. An operator that does not lead ignores notifications. */
  readonly onNotification: (notification: AgentNotification) => void;
  readonly logger: Logger;
}

export interface NotificationListener {
  readonly port: number;
  close(): Promise<void>;
}

const requestMs = 5_000;
const maxConnections = 200;

/** Starts the server that receives notifications of agents from gateways, and nothing else. */
export async function startNotificationListener({
  host,
  port,
  keys,
  onNotification,
  logger,
}: NotificationListenerOptions): Promise<NotificationListener> {
  const statusOf = async (request: IncomingMessage): Promise<number> => {
    if (request.url !== notificationsPath) return 404;
    if (request.method !== 'POST') return 405;
    const [scheme, key = ''] = (request.headers.authorization ?? '').split(' ');
    if (scheme?.toLowerCase() !== 'bearer' || !keys.acceptsNotificationKey(key)) return 401;
    const body = await readBody(request, maxNotificationsBytes);
    const parsed = notificationsSchema.safeParse(jsonOf(body));
    if (!parsed.success) return 422;
    for (const notification of parsed.data.notifications) onNotification(notification);
    return 204;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const status = await statusOf(request).catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      return error.code === 'body-too-large' ? 413 : 422;
    });
    // A server would take the unread rest of a body for the next request.
    response.writeHead(status, request.complete ? {} : { connection: 'close' }).end();
  };
  const server: Server = createServer(
    {
      headersTimeout: requestMs,
      requestTimeout: requestMs,
      connectionsCheckingInterval: requestMs,
      maxHeaderSize: 8 * 1024,
    },
    (request, response) => {
      answer(request, response).catch((error: unknown) => {
        logger.debug('notifications could not be read', { error });
        response.destroy();
      });
    },
  );
  server.maxConnections = maxConnections;
  return {
    ...(await listenOn(server, { name: 'the operator', host, port })),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
