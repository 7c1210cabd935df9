import { TokenBucket } from '@conversation-operator/base/token-bucket';
import {
  type AgentNotification,
  notificationsPath,
  notificationsSchema,
  maxNotificationsBytes,
} from '../../../agent/notifications.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { Request } from '@conversation-operator/kube/controller';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { byAgentId, bySandbox, type Stores } from '../../caches.ts';
import { ownerShare } from '../../controller-spec.ts';
import { jsonOf, readBody } from '@conversation-operator/http/body/json-body';
import { Refusal } from '@conversation-operator/http/refusal';
import { listenOn } from '@conversation-operator/http/server/listen';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { SandboxKeys } from '../../../agent/keys.ts';
import type { Logger } from '@conversation-operator/base/logger';

interface NotificationListenerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly keys: Pick<SandboxKeys, 'acceptsNotificationKey'>;
  /** An operator that is not the leader ignores notifications. */
  readonly onNotification: (notification: AgentNotification) => void;
  readonly logger: Logger;
}

export interface NotificationListener {
  readonly port: number;
  close(): Promise<void>;
}

const requestMs = 5_000;
const maxConnections = 200;

/** Starts the HTTP server to which gateways forward the notifications of agents. */
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
    // With keep-alive, the server would parse the unread rest of the body as the next request.
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

export interface AgentNotificationsOptions {
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes'>;
  readonly clock: Clock;
  readonly onNotification: (request: Request) => void;
}

/** Rate limit per owner of polls after notifications: 400 at once, then 200 per second. */
const budget = { burst: 400, intervalMs: 5 } as const;
const maxOwners = 4_096;

/**
 * Handles notifications of agents, each about one conversation or about all conversations of a
 * sandbox. Every poll after a notification takes a token of the owner's budget, which bounds the
 * cost of agents that notify often. Without a token, the notification is dropped, and the next
 * regular poll finds the change.
 */
export class AgentNotifications {
  readonly #options: AgentNotificationsOptions;
  readonly #budgets = recentlyUsed<TokenBucket>(maxOwners);

  constructor(options: AgentNotificationsOptions) {
    this.#options = options;
  }

  take({ namespace, sandbox: name, conversationId }: AgentNotification): void {
    const { stores, onNotification } = this.#options;
    const sandbox = stores.sandboxes.get(namespace, name);
    if (sandbox === undefined) return;
    const named =
      conversationId === undefined
        ? stores.conversations.byIndex(bySandbox, `${namespace}/${name}`)
        : stores.conversations.byIndex(byAgentId, `${namespace}/${name}/${conversationId}`);
    if (named.length === 0 || !this.#spend(ownerShare(sandbox), named.length)) return;
    for (const { metadata } of named) onNotification({ namespace, name: metadata.name });
  }

  /** Whether the owner has a token left. If so, takes `count` tokens, even if fewer are left. */
  #spend(owner: string, count: number): boolean {
    const now = this.#options.clock.monotonic();
    const bucket = this.#budgets.get(owner) ?? new TokenBucket(budget);
    this.#budgets.set(owner, bucket);
    const isLeft = bucket.availableAt(now) > 0;
    if (isLeft) bucket.take(now, count);
    return isLeft;
  }
}
